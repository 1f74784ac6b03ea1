"""The ledger: which files, batches and publications there are, in Iceberg tables of their own.

Every table only grows: the state of a thing is its row with the highest `seq`. All writes are
compare-and-set on the table (see `tables.py`), so two runs never both win a claim.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Container, Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from pyiceberg.catalog import Catalog
from pyiceberg.expressions import And
from pyiceberg.table import Table

from sluice.errors import LeaseHeld
from sluice.ledger.claims import Content, available, copies_among, file_row, fresh_content
from sluice.ledger.details import EPOCH, HALF_PUBLISHED
from sluice.ledger.filters import copied, of_batches, of_pipeline, taken
from sluice.ledger.leases import Lease, is_dead
from sluice.ledger.newest import (
    contents,
    having,
    latest,
    newest,
    publications_of,
    replaced_rows,
    rows_of,
    unsettled,
    untold,
    with_checksums,
)
from sluice.ledger.refusals import (
    overtaken,
    refuse_closed,
    refuse_halfway,
    refuse_held,
    taken_over,
)
from sluice.ledger.rows import (
    AT_REST,
    FILE_CLAIMED,
    FILE_COPY,
    FILE_HELD,
    FINISHED,
    FOLLOWS,
    LANDED,
    LOADING,
    MAINTAINING,
    MAINTENANCE,
    PUBLISHED,
    PUBLISHING,
    BatchRow,
    FileRow,
    Publication,
    landed_anew,
)
from sluice.ledger.tables import BATCHES, FILES, PUBLICATIONS, QUARANTINE, LedgerTables, Row
from sluice.manifest import SourceFile
from sluice.objects.store import StoredObject


def _now() -> datetime:
    return datetime.now(UTC)


class Ledger:
    """The ledger of every pipeline of one lake. Its tables are made on first use."""

    def __init__(self, catalog: Catalog, clock: Callable[[], datetime] = _now) -> None:
        self._tables = LedgerTables(catalog)
        self._clock = clock

    def ensure(self) -> None:
        """Create the tables of files, batches, publications and quarantine, where they are missing.

        Those of renames and of transactions are made when they are first needed.
        """
        for name in (FILES, BATCHES, PUBLICATIONS, QUARANTINE):
            self._tables.open(name)

    # --- files

    def known_files(self, pipeline: str) -> dict[str, FileRow]:
        """Every object that a batch ever claimed, by key."""
        found = self._tables.read(FILES, taken(pipeline))
        return latest(FileRow, found, "object_key")

    def unsettled(
        self, pipeline: str, found: Sequence[StoredObject]
    ) -> tuple[list[StoredObject], dict[str, FileRow]]:
        """Of the objects that are found those that no batch has as they are, and what is known of
        their keys: a lake has many files that nobody has to look at again."""
        kept = self._files(pipeline)
        left, rows = unsettled(kept, found)
        return left, {row.object_key: row for row in rows_of(FileRow, rows)}

    def held_files(self, pipeline: str) -> list[FileRow]:
        """The objects whose batch was rolled back, until they are released."""
        kept = self._files(pipeline)
        return list(rows_of(FileRow, having(kept, "state", [FILE_HELD])))

    def copies(self, pipeline: str) -> dict[str, FileRow]:
        """The objects that only brought the bytes of others when they were read, by key; with the
        batch that had those bytes then."""
        return latest(FileRow, self._tables.read(FILES, copied(pipeline)), "object_key")

    def known_contents(
        self,
        pipeline: str,
        content: Content,
        epochs: Container[int] | None = None,
        among: Collection[str] | None = None,
    ) -> set[str]:
        """What the objects brought that are claimed, loaded or held, without what was loaded at
        other `epochs`: there the same bytes are other events. `among`: the checksums that matter;
        all of them, where they are not given."""
        found = self._tables.read(FILES, taken(pipeline))
        found = found if among is None else with_checksums(found, among)
        return set(self._contents(pipeline, found, content, epochs))

    def replaced_files(self, pipeline: str, among: Collection[str] | None = None) -> list[FileRow]:
        """The objects that published batches loaded, and in whose place a later batch has taken
        another one. `among`: the keys that matter; all of them, where they are not given."""
        found = self._tables.read(FILES, taken(pipeline))
        found = found if among is None else having(found, "object_key", among)
        return list(rows_of(FileRow, self._replaced(pipeline, found)))

    def claim_files(
        self,
        pipeline: str,
        files: tuple[SourceFile, ...],
        name: Callable[[tuple[SourceFile, ...]], str],
        *,
        once_by: Content | None = None,
        epochs: Container[int] | None = None,
        modified: Mapping[str, datetime] | None = None,
        replaced: Container[FileRow] = (),
    ) -> tuple[str, tuple[SourceFile, ...]]:
        """Take the files that nobody has, under the batch id that `name` gives to them.

        `name` is asked before the commit, again after a lost race: where it also writes the
        manifest, a claim never stands without one. A changed object (other ETag, version or
        size) under a known key is taken only where what is known of it still is what was seen,
        among the `replaced`. `once_by` leaves out content that another object brought, at one of
        the `epochs` where some are given, and records it as a copy: as nothing that a batch has.
        Returns ("", ()) when nothing is left.
        """
        times = modified or {}

        def decide(table: Table) -> tuple[list[Row], tuple[str, tuple[SourceFile, ...]]]:
            found = self._tables.scan(table, taken(pipeline))
            asked = having(found, "object_key", (file.key for file in files))
            won = free = available(files, latest(FileRow, asked, "object_key"), replaced)
            brought: dict[str, str] = {}
            if once_by is not None:
                rivals = with_checksums(found, {file.sha256 for file in free})
                brought = self._contents(pipeline, rivals, once_by, epochs)
                won = fresh_content(free, set(brought), once_by)
            batch_id = name(won) if won else ""
            now = self._clock()
            rows = [file_row(pipeline, batch_id, f, times.get(f.key), now) for f in won]
            if once_by is not None:
                rows += [
                    file_row(pipeline, batch, f, times.get(f.key), now, FILE_COPY)
                    for f, batch in copies_among(free, won, batch_id, brought, once_by)
                ]
            return [asdict(row) for row in rows], (batch_id, won)

        return self._tables.append(FILES, decide)

    def mark_files(
        self, pipeline: str, batch_id: str, state: str, seen: Container[FileRow] | None = None
    ) -> int:
        """Give the files that the batch still has the state that follows theirs; returns how many.
        What was held or released stays so, and what was told of a file since it was `seen`."""

        def decide(table: Table) -> tuple[list[Row], int]:
            found = newest(self._tables.scan(table, taken(pipeline)), "object_key")
            may = having(having(found, "batch_id", [batch_id]), "state", FOLLOWS[state])
            mine = [r for r in rows_of(FileRow, may) if seen is None or r in seen]
            return [asdict(replace(r, state=state, at=self._clock())) for r in mine], len(mine)

        return self._tables.append(FILES, decide)

    def batch_files(self, pipeline: str, batch_id: str) -> list[FileRow]:
        """The files that the batch has now."""
        found = self._files(pipeline)
        mine = having(found, "batch_id", [batch_id])
        return sorted(rows_of(FileRow, mine), key=lambda row: row.object_key)

    def _files(self, pipeline: str) -> Any:
        """The newest row of every object that a batch ever claimed."""
        return newest(self._tables.read(FILES, taken(pipeline)), "object_key")

    def _replaced(self, pipeline: str, found: Any) -> Any:
        rows = replaced_rows(found)
        published = self.published_batches(pipeline) if rows.num_rows else set()
        return having(rows, "batch_id", published)

    def _contents(
        self, pipeline: str, found: Any, content: Content, epochs: Container[int] | None
    ) -> dict[str, str]:
        told = {} if epochs is None else self.epochs(pipeline)
        other = [b for b, at in told.items() if at is not None and at not in (epochs or ())]
        known, before = newest(found, "object_key"), self._replaced(pipeline, found)
        return contents(known, content, other) | contents(before, content, other)

    # --- batches

    def record_batch(
        self,
        pipeline: str,
        batch_id: str,
        state: str,
        attempt: str = "",
        detail: Mapping[str, Any] | None = None,
        manifest: str = "",
        lease: Lease | None = None,
        expected: Callable[[BatchRow | None], bool] = lambda _: True,
        more: Mapping[str, Any] | None = None,
    ) -> bool:
        """Write a batch's new state; what is not given stays. A state of rest ends the lease.
        `more` is told beside the detail that is given, or was.

        `expected` looks at the batch as it is: where it says no, nothing is written, and the
        answer is False.
        """

        def decide(table: Table) -> tuple[list[Row], bool]:
            old = self._batches_at(table, pipeline).get(batch_id)
            if not expected(old):
                return [], False
            row = old or BatchRow(pipeline, batch_id, attempt, state)
            row = replace(row, state=state, at=self._clock())
            row = replace(row, attempt=attempt or row.attempt, manifest=manifest or row.manifest)
            told = {**(row.details if detail is None else detail), **(more or {})}
            if state in FINISHED:
                told.pop(HALF_PUBLISHED, None)
            row = row.telling(told)
            if lease is not None:
                return [self._leased(row, lease)], True
            return [asdict(row.without_lease() if state in AT_REST else row)], True

        return self._tables.append(BATCHES, decide)

    def keep_waiting(self, pipeline: str, batch_ids: Iterable[str]) -> None:
        """Say anew of those of the batches that are landed, and that nobody holds, that they are:
        they wait behind others, and are not left."""

        def decide(table: Table) -> tuple[list[Row], None]:
            known = self._batches_at(table, pipeline)
            rows = [known[batch] for batch in batch_ids if batch in known]
            waiting = [row for row in rows if row.state == LANDED and not row.holder]
            return [asdict(replace(row, at=self._clock())) for row in waiting], None

        self._tables.append(BATCHES, decide)

    def batch(self, pipeline: str, batch_id: str) -> BatchRow | None:
        """The batch as it is now, or None."""
        told = self._tables.read(BATCHES, of_pipeline(pipeline))
        return latest(BatchRow, having(told, "batch_id", [batch_id]), "batch_id").get(batch_id)

    def batches(self, pipeline: str, limit: int | None = None) -> list[BatchRow]:
        """The batches, the one that changed last first."""
        found = latest(BatchRow, self._tables.read(BATCHES, of_pipeline(pipeline)), "batch_id")
        rows = (row for row in found.values() if row.batch_id != MAINTENANCE)
        return sorted(rows, key=lambda row: row.seq, reverse=True)[:limit]

    def unfinished(self, pipeline: str) -> list[BatchRow]:
        """The batches that are neither published nor rolled back: what is halfway, for nothing else
        can be loaded before that is complete, then oldest first.

        One whose files are claimed but whose landing died before it was recorded is `landed`;
        so is one that was rolled back, and whose released files were claimed anew.
        """
        recorded = {row.batch_id: row for row in self.batches(pipeline)}
        found = self._files(pipeline)
        for file in rows_of(FileRow, having(found, "state", [FILE_CLAIMED])):
            known = recorded.get(file.batch_id)
            if landed_anew(known):
                row = known or BatchRow(pipeline, file.batch_id, "", LANDED)
                recorded[file.batch_id] = replace(row, state=LANDED, at=file.at)
        rows = (row for row in recorded.values() if row.state not in FINISHED)
        return sorted(rows, key=lambda row: (not row.halfway, row.at or self._clock()))

    def published_batches(self, pipeline: str) -> set[str]:
        """The batches whose rows are in the tables."""
        return {row.batch_id for row in self.batches(pipeline) if row.state == PUBLISHED}

    def epochs(self, pipeline: str) -> dict[str, int | None]:
        """The epoch that each batch was loaded at; None for one that is not known."""
        return {row.batch_id: row.details.get(EPOCH) for row in self.batches(pipeline)}

    def _batches_at(self, table: Table, pipeline: str) -> dict[str, BatchRow]:
        return latest(BatchRow, self._tables.scan(table, of_pipeline(pipeline)), "batch_id")

    # --- the lease of a pipeline

    def acquire_lease(
        self,
        pipeline: str,
        batch_id: str,
        attempt: str,
        lease: Lease,
        half: Callable[[], bool] = lambda: False,
    ) -> None:
        """Take the pipeline's lease for a batch, which is `loading` from now on.

        A batch takes over its own: the attempt named here is the current one. Raises LeaseHeld
        while another batch has it, where another is half published or half rolled back, for what
        its tables hold is in no list of published batches, and where this one is closed. `half`,
        asked of one that somebody began to publish: whether any table has it, which is remembered
        until all have it or none.
        """

        def decide(table: Table) -> tuple[list[Row], None]:
            batches = self._batches_at(table, pipeline)
            refuse_held(batches.values(), batch_id, self.has_lapsed)
            refuse_halfway(batches.values(), {batch_id})
            old = batches.get(batch_id) or BatchRow(pipeline, batch_id, attempt, LOADING)
            refuse_closed(old, attempt)
            row = replace(old, state=LOADING, attempt=attempt)
            if old.state == PUBLISHING and half():
                row = row.telling(row.details | {HALF_PUBLISHED: True})
            return self._taken(batches, row, lease), None

        self._tables.append(BATCHES, decide)

    def lease_maintenance(self, pipeline: str, attempt: str, lease: Lease, *undone: str) -> None:
        """Take the pipeline's lease for maintenance, under the batch id MAINTENANCE, or to go on
        with the batches that are `undone`.

        Raises LeaseHeld while a batch or another maintenance has it, or another batch is half
        published or half rolled back.
        """

        def decide(table: Table) -> tuple[list[Row], None]:
            batches = self._batches_at(table, pipeline)
            refuse_held(batches.values(), "", self.has_lapsed)
            refuse_halfway(batches.values(), undone)
            row = BatchRow(pipeline, MAINTENANCE, attempt, MAINTAINING)
            return self._taken(batches, row, lease), None

        self._tables.append(BATCHES, decide)

    def renew_lease(self, pipeline: str, batch_id: str, attempt: str, lease: Lease) -> None:
        """Push the lease's end out; raises LeaseHeld when it went to another attempt or batch, or
        the batch is closed."""

        def decide(table: Table) -> tuple[list[Row], None]:
            batches = self._batches_at(table, pipeline)
            refuse_held(batches.values(), batch_id, self.has_lapsed)
            old = batches.get(batch_id)
            if old is None or old.attempt != attempt:
                raise LeaseHeld(taken_over(pipeline, batch_id, attempt, old))
            refuse_closed(old, attempt)
            return self._taken(batches, old, lease), None

        self._tables.append(BATCHES, decide)

    def release_lease(self, pipeline: str, batch_id: str, attempt: str) -> None:
        """Give the lease back; nothing to do when it went to another attempt."""

        def decide(table: Table) -> tuple[list[Row], None]:
            old = self._batches_at(table, pipeline).get(batch_id)
            if old is None or old.attempt != attempt or not old.holder:
                return [], None
            return [asdict(replace(old.without_lease(), at=self._clock()))], None

        self._tables.append(BATCHES, decide)

    def has_lapsed(self, row: BatchRow) -> bool:
        """True when nobody holds the batch's lease: never taken, run out, or its holder is dead."""
        if not row.holder or row.lease_until is None or row.lease_until <= self._clock():
            return True
        return is_dead(row.holder)

    def _taken(self, batches: Mapping[str, BatchRow], row: BatchRow, lease: Lease) -> list[Row]:
        others = overtaken(batches.values(), row.batch_id)
        return [*map(asdict, others), self._leased(row, lease)]

    def _leased(self, row: BatchRow, lease: Lease) -> Row:
        now = self._clock()
        until = now + timedelta(seconds=lease.seconds)
        return asdict(replace(row, holder=lease.holder, lease_until=until, at=now))

    # --- publications

    def record_publications(self, rows: Iterable[Publication]) -> None:
        """Write what is about to happen, or what happened, to a batch's tables, in one commit.

        A record that was read is written only where nobody has told of its table since.
        """
        given = list(rows)

        def decide(table: Table) -> tuple[list[Row], None]:
            read = {row.batch_id for row in given if row.seq}
            new = untold(given, self._tables.scan(table, of_batches(read))) if read else given
            return [asdict(replace(row, at=self._clock())) for row in new], None

        self._tables.append(PUBLICATIONS, decide)

    def publications(self, pipeline: str, *batch_ids: str) -> list[Publication]:
        """The newest record of each table of each of the batches."""
        where = And(of_pipeline(pipeline), of_batches(batch_ids))
        return publications_of(self._tables.read(PUBLICATIONS, where))
