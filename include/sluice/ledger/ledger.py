"""The ledger: files, batches and publications, in Iceberg tables of their own.

The tables are append-only: the row with the highest `seq` is the current state. All writes are
compare-and-set on the table (see `tables.py`), so two runs never both win a claim.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Container, Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any, Final

from pyiceberg.catalog import Catalog
from pyiceberg.expressions import And
from pyiceberg.table import Table

from sluice.errors import LeaseHeldError
from sluice.ledger import rows as states
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
    still_newest,
    unsettled,
    with_checksums,
)
from sluice.ledger.refusals import (
    overtaken,
    refuse_closed,
    refuse_halfway,
    refuse_held,
    taken_over,
)
from sluice.ledger.rows import BatchRow, FileRow, Publication, landed_anew
from sluice.ledger.tables import BATCHES, FILES, PUBLICATIONS, QUARANTINE, LedgerTables, Row
from sluice.manifest import SourceFile
from sluice.objects.store import StoredObject

_NOW: Final = partial(datetime.now, UTC)


class Ledger:
    """The ledger of all pipelines of one lake. Its tables are created on first use."""

    def __init__(self, catalog: Catalog, clock: Callable[[], datetime] = _NOW) -> None:
        self._tables = LedgerTables(catalog)
        self._clock = clock

    def ensure(self) -> None:
        """Create missing tables; others (renames, comments …) follow on first use."""
        for name in (FILES, BATCHES, PUBLICATIONS, QUARANTINE):
            self._tables.open(name)

    # --- files

    def known_files(self, pipeline: str) -> dict[str, FileRow]:
        """Return every object that a batch ever claimed, by key."""
        return latest(FileRow, self._tables.read(FILES, taken(pipeline)), "object_key")

    def unsettled(
        self, pipeline: str, listed: Sequence[StoredObject]
    ) -> tuple[list[StoredObject], dict[str, FileRow]]:
        """Return the listed objects that no batch has in this version, and the rows of their keys:
        most of a lake's files are settled and need no second look."""
        left, rows = unsettled(self._files(pipeline), listed)
        return left, {row.object_key: row for row in rows_of(FileRow, rows)}

    def held_files(self, pipeline: str) -> list[FileRow]:
        """Return the objects whose batch was rolled back and that are not released yet."""
        return list(rows_of(FileRow, having(self._files(pipeline), "state", [states.FILE_HELD])))

    def copies(self, pipeline: str) -> dict[str, FileRow]:
        """Return the objects whose bytes another object had when they were read, by key; their
        `batch_id` is that object's."""
        return latest(FileRow, self._tables.read(FILES, copied(pipeline)), "object_key")

    def known_contents(
        self,
        pipeline: str,
        content: Content,
        epochs: Container[int] | None = None,
        among: Collection[str] | None = None,
    ) -> set[str]:
        """Return the contents of the objects that are claimed, loaded or held.

        Contents loaded at other `epochs` do not count: there the same bytes are other events.
        `among`: the checksums that matter; None: all.
        """
        rows = self._tables.read(FILES, taken(pipeline))
        rows = rows if among is None else with_checksums(rows, among)
        return set(self._contents(pipeline, rows, content, epochs))

    def replaced_files(self, pipeline: str, among: Collection[str] | None = None) -> list[FileRow]:
        """Return the objects that published batches loaded and for which a later batch took another
        object of the same key. `among`: the keys that matter; None: all."""
        rows = self._tables.read(FILES, taken(pipeline))
        rows = rows if among is None else having(rows, "object_key", among)
        return list(rows_of(FileRow, self._replaced(pipeline, rows)))

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
        """Claim the files that no batch has, under the batch id that `name` returns for them.

        `name` is called before each try to commit; it may write the manifest, so that no claim is
        without one. A changed object (other ETag, version or size) under a known key is claimed
        only where the key's row is still one of `replaced`. With `once_by`, an object whose content
        another one had (at one of `epochs`, if given) is recorded as a copy instead.
        Returns ("", ()) when nothing is left.
        """
        times = modified or {}

        def decide(table: Table) -> tuple[list[Row], tuple[str, tuple[SourceFile, ...]]]:
            known = self._tables.scan(table, taken(pipeline))
            of_keys = having(known, "object_key", (file.key for file in files))
            won = free = available(files, latest(FileRow, of_keys, "object_key"), replaced)
            brought: dict[str, str] = {}
            if once_by is not None:
                rivals = with_checksums(known, {file.sha256 for file in free})
                brought = self._contents(pipeline, rivals, once_by, epochs)
                won = fresh_content(free, set(brought), once_by)
            batch_id = name(won) if won else ""
            now = self._clock()
            rows = [file_row(pipeline, batch_id, f, times.get(f.key), now) for f in won]
            if once_by is not None:
                rows += [
                    file_row(pipeline, batch, f, times.get(f.key), now, states.FILE_COPY)
                    for f, batch in copies_among(free, won, batch_id, brought, once_by)
                ]
            return [asdict(row) for row in rows], (batch_id, won)

        return self._tables.append(FILES, decide)

    def mark_files(
        self, pipeline: str, batch_id: str, state: str, seen: Container[FileRow] | None = None
    ) -> int:
        """Give the batch's files the state, where theirs allows it (FOLLOWS); returns how many.

        `seen`: the rows that the caller read; files whose row changed since are left alone.
        """

        def decide(table: Table) -> tuple[list[Row], int]:
            files = newest(self._tables.scan(table, taken(pipeline)), "object_key")
            may = having(having(files, "batch_id", [batch_id]), "state", states.FOLLOWS[state])
            rows = [r for r in rows_of(FileRow, may) if seen is None or r in seen]
            return [asdict(replace(r, state=state, at=self._clock())) for r in rows], len(rows)

        return self._tables.append(FILES, decide)

    def batch_files(self, pipeline: str, batch_id: str) -> list[FileRow]:
        """Return the files that the batch has now, by key."""
        rows = having(self._files(pipeline), "batch_id", [batch_id])
        return sorted(rows_of(FileRow, rows), key=lambda row: row.object_key)

    def _files(self, pipeline: str) -> Any:
        """Return the newest row of every object that a batch ever claimed."""
        return newest(self._tables.read(FILES, taken(pipeline)), "object_key")

    def _replaced(self, pipeline: str, files: Any) -> Any:
        rows = replaced_rows(files)
        published = self.published_batches(pipeline) if rows.num_rows else set()
        return having(rows, "batch_id", published)

    def _contents(
        self, pipeline: str, files: Any, content: Content, epochs: Container[int] | None
    ) -> dict[str, str]:
        loaded_at = {} if epochs is None else self.epochs(pipeline)
        other = [b for b, at in loaded_at.items() if at is not None and at not in (epochs or ())]
        now, before = newest(files, "object_key"), self._replaced(pipeline, files)
        return contents(now, content, other) | contents(before, content, other)

    # --- batches

    def record_batch(
        self,
        pipeline: str,
        batch_id: str,
        state: str,
        *,
        attempt: str = "",
        manifest: str = "",
        lease: Lease | None = None,
        replace_details: Mapping[str, Any] | None = None,
        add_details: Mapping[str, Any] | None = None,
        expected: Callable[[BatchRow | None], bool] = lambda _: True,
    ) -> bool:
        """Write a batch's new state; arguments left out keep their values. AT_REST ends the lease.

        Where `expected` rejects the current row, nothing is written and False is returned.
        """

        def decide(table: Table) -> tuple[list[Row], bool]:
            old = self._batches_at(table, pipeline).get(batch_id)
            if not expected(old):
                return [], False
            row = old or BatchRow(pipeline, batch_id, attempt, state)
            row = replace(row, state=state, at=self._clock())
            row = replace(row, attempt=attempt or row.attempt, manifest=manifest or row.manifest)
            details = dict(row.details if replace_details is None else replace_details)
            details |= add_details or {}
            if state in states.FINISHED:
                details.pop(HALF_PUBLISHED, None)
            row = row.with_details(details)
            if lease is not None:
                return [self._leased(row, lease)], True
            return [asdict(row.without_lease() if state in states.AT_REST else row)], True

        return self._tables.append(BATCHES, decide)

    def keep_waiting(self, pipeline: str, batch_ids: Iterable[str]) -> None:
        """Write the rows of landed batches that nobody holds again: a new `at` shows that they wait
        behind others and are not abandoned."""

        def decide(table: Table) -> tuple[list[Row], None]:
            known = self._batches_at(table, pipeline)
            rows = [known[batch] for batch in batch_ids if batch in known]
            waiting = [row for row in rows if row.state == states.LANDED and not row.holder]
            return [asdict(replace(row, at=self._clock())) for row in waiting], None

        self._tables.append(BATCHES, decide)

    def batch(self, pipeline: str, batch_id: str) -> BatchRow | None:
        """Return the batch's current row, or None."""
        rows = self._tables.read(BATCHES, of_pipeline(pipeline))
        return latest(BatchRow, having(rows, "batch_id", [batch_id]), "batch_id").get(batch_id)

    def batches(self, pipeline: str, limit: int | None = None) -> list[BatchRow]:
        """Return the batches, the one that changed last first."""
        known = latest(BatchRow, self._tables.read(BATCHES, of_pipeline(pipeline)), "batch_id")
        rows = (row for row in known.values() if row.batch_id != states.MAINTENANCE)
        return sorted(rows, key=lambda row: row.seq, reverse=True)[:limit]

    def unfinished(self, pipeline: str) -> list[BatchRow]:
        """Return the batches that are neither published nor rolled back, oldest first, after those
        that are halfway: nothing else can be loaded before these are complete.

        A batch counts as `landed` too where its files are claimed and nothing is recorded (landing
        died), or where it was rolled back and its released files are claimed again.
        """
        recorded = {row.batch_id: row for row in self.batches(pipeline)}
        claimed = having(self._files(pipeline), "state", [states.FILE_CLAIMED])
        for file in rows_of(FileRow, claimed):
            known = recorded.get(file.batch_id)
            if landed_anew(known):
                row = known or BatchRow(pipeline, file.batch_id, "", states.LANDED)
                recorded[file.batch_id] = replace(row, state=states.LANDED, at=file.at)
        rows = (row for row in recorded.values() if row.state not in states.FINISHED)
        return sorted(rows, key=lambda row: (not row.halfway, row.at or self._clock()))

    def published_batches(self, pipeline: str) -> set[str]:
        """Return the batches whose rows are in the tables."""
        return {row.batch_id for row in self.batches(pipeline) if row.state == states.PUBLISHED}

    def epochs(self, pipeline: str) -> dict[str, int | None]:
        """Return the epoch that each batch was loaded at; None where it is unknown."""
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
        undone: Collection[str] = (),
        expected: Callable[[BatchRow | None], bool] = lambda _: True,
    ) -> None:
        """Take the pipeline's lease for a batch and make it `loading` under this attempt.

        Raises LeaseHeldError while another batch has the lease, where another is half published or
        half rolled back (its changes are in no list of published batches), or where this one is
        closed, or `expected` rejects its row: a later attempt has it. `half`, called for a batch in
        `publishing`: whether any table has it; that is recorded until all tables have it or none.
        `undone`: batches that this one takes out of the tables; they may be half rolled back.
        """

        def decide(table: Table) -> tuple[list[Row], None]:
            batches = self._batches_at(table, pipeline)
            refuse_held(batches.values(), batch_id, self.has_lapsed)
            refuse_halfway(batches.values(), {batch_id, *undone})
            old = batches.get(batch_id) or BatchRow(pipeline, batch_id, attempt, states.LOADING)
            refuse_closed(old, attempt)
            if not expected(batches.get(batch_id)):
                raise LeaseHeldError(taken_over(pipeline, batch_id, attempt, old))
            row = replace(old, state=states.LOADING, attempt=attempt)
            if old.state == states.PUBLISHING and half():
                row = row.with_details(row.details | {HALF_PUBLISHED: True})
            return self._taken(batches, row, lease), None

        self._tables.append(BATCHES, decide)

    def lease_maintenance(self, pipeline: str, attempt: str, lease: Lease, *undone: str) -> None:
        """Take the pipeline's lease under the batch id MAINTENANCE, for maintenance or a rollback.

        Raises LeaseHeldError while a batch or another maintenance has it, or where a batch that is
        not one of `undone` is half published or half rolled back.
        """

        def decide(table: Table) -> tuple[list[Row], None]:
            batches = self._batches_at(table, pipeline)
            refuse_held(batches.values(), "", self.has_lapsed)
            refuse_halfway(batches.values(), undone)
            row = BatchRow(pipeline, states.MAINTENANCE, attempt, states.MAINTAINING)
            return self._taken(batches, row, lease), None

        self._tables.append(BATCHES, decide)

    def renew_lease(self, pipeline: str, batch_id: str, attempt: str, lease: Lease) -> None:
        """Extend the lease; raises LeaseHeldError when another attempt or batch took it, or the
        batch is closed."""

        def decide(table: Table) -> tuple[list[Row], None]:
            batches = self._batches_at(table, pipeline)
            refuse_held(batches.values(), batch_id, self.has_lapsed)
            old = batches.get(batch_id)
            if old is None or old.attempt != attempt:
                raise LeaseHeldError(taken_over(pipeline, batch_id, attempt, old))
            refuse_closed(old, attempt)
            return self._taken(batches, old, lease), None

        self._tables.append(BATCHES, decide)

    def release_lease(self, pipeline: str, batch_id: str, attempt: str) -> None:
        """Give the lease back, unless another attempt has taken it."""

        def decide(table: Table) -> tuple[list[Row], None]:
            old = self._batches_at(table, pipeline).get(batch_id)
            if old is None or old.attempt != attempt or not old.holder:
                return [], None
            return [asdict(replace(old.without_lease(), at=self._clock()))], None

        self._tables.append(BATCHES, decide)

    def has_lapsed(self, row: BatchRow) -> bool:
        """Whether nobody holds the batch's lease: never taken, expired, or its holder is dead."""
        until = row.lease_until
        return not row.holder or until is None or until <= self._clock() or is_dead(row.holder)

    def _taken(self, batches: Mapping[str, BatchRow], row: BatchRow, lease: Lease) -> list[Row]:
        others = overtaken(batches.values(), row.batch_id)
        return [*map(asdict, others), self._leased(row, lease)]

    def _leased(self, row: BatchRow, lease: Lease) -> Row:
        now = self._clock()
        until = now + timedelta(seconds=lease.seconds)
        return asdict(replace(row, holder=lease.holder, lease_until=until, at=now))

    # --- publications

    def record_publications(self, rows: Iterable[Publication]) -> None:
        """Write intended or completed publications of a batch's tables, in one commit.

        A row that was read from the ledger (`seq`) is written only while it is the newest one.
        """
        given = list(rows)

        def decide(table: Table) -> tuple[list[Row], None]:
            read = {row.batch_id for row in given if row.seq}
            new = still_newest(given, self._tables.scan(table, of_batches(read))) if read else given
            return [asdict(replace(row, at=self._clock())) for row in new], None

        self._tables.append(PUBLICATIONS, decide)

    def publications(self, pipeline: str, *batch_ids: str) -> list[Publication]:
        """Return the newest row of each table of each batch."""
        where = And(of_pipeline(pipeline), of_batches(batch_ids))
        return publications_of(self._tables.read(PUBLICATIONS, where))
