"""The files of a pipeline: the row of an object with the highest `seq` is its current state."""

from __future__ import annotations

from collections.abc import Callable, Collection, Container, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, fields, replace
from datetime import datetime
from functools import partial
from typing import Final

import pyarrow as pa
from pyiceberg.table import Table

from sluice.ledger import states
from sluice.ledger.appends import LedgerTables
from sluice.ledger.arrow_rows import (
    batch_by_content,
    latest,
    newest,
    replaced_rows,
    rows_of,
    unclaimed_or_changed,
    where_in,
    with_checksums,
)
from sluice.ledger.batches import Batches
from sluice.ledger.claims import (
    Claim,
    ClaimRequest,
    ContentKey,
    available,
    copies_among,
    file_row,
    fresh_content,
)
from sluice.ledger.filters import copied, not_copied
from sluice.ledger.rows import FileRow, FileState
from sluice.ledger.scans import ALL_COLUMNS
from sluice.ledger.tables import FILES, Row
from sluice.objects.store import StoredObject

# The columns of questions about all files: whole rows of a year take several times the memory.
_STATE: Final = tuple(field.name for field in fields(FileState))
_CONTENT: Final = ("object_key", "sha256", "batch_id", "state", "seq")


@dataclass
class Files:
    """The files of one pipeline."""

    _tables: LedgerTables
    _pipeline: str
    _batches: Batches
    _clock: Callable[[], datetime]

    def known(self) -> dict[str, FileRow]:
        """Return every object that a batch ever claimed, by key."""
        return latest(FileRow, self._rows(), "object_key")

    def unclaimed_or_changed(
        self, listed: Sequence[StoredObject]
    ) -> tuple[list[StoredObject], dict[str, FileRow]]:
        """Return the listed objects that no batch has in this version, and the rows of their keys.

        Most of a lake's files belong to a batch and need no second look.
        """
        left, rows = unclaimed_or_changed(self._newest(), listed)
        return left, {row.object_key: row for row in rows_of(FileRow, rows)}

    def held(self) -> list[FileState]:
        """Return the objects whose batch was rolled back and that are not released yet."""
        return self._in_state(states.FILE_HELD)

    def undone(self) -> list[FileState]:
        """Return the objects whose batch was rolled back, held or released, and that no batch has
        claimed since."""
        return self._in_state(states.FILE_HELD, states.FILE_RELEASED)

    def claimed(self) -> list[FileState]:
        """Return the objects that a batch has claimed and not loaded."""
        return self._in_state(states.FILE_CLAIMED)

    def copies(self) -> dict[str, FileRow]:
        """Return the objects whose bytes another object had when they were read, by key; their
        `batch_id` is the batch of that object."""
        rows = self._tables.read(FILES, copied(self._pipeline))
        return latest(FileRow, rows, "object_key")

    def known_contents(
        self,
        content: ContentKey,
        *,
        epochs: Container[int] | None,
        among: Collection[str] | None = None,
    ) -> set[str]:
        """Return the contents of the objects that are claimed, loaded or held.

        Contents loaded at other `epochs` are left out: there the same bytes are other events;
        None: all epochs count.
        `among`: the checksums that matter; None: all.
        """
        rows = self._rows(*_CONTENT)
        rows = rows if among is None else with_checksums(rows, among)
        return set(self._batch_by_content(rows, content, epochs))

    def replaced(self, among: Collection[str] | None = None) -> list[FileRow]:
        """Return the objects that published batches loaded, and for which a later batch took
        another object of the same key. `among`: the keys that matter; None: all."""
        rows = self._rows()
        rows = rows if among is None else where_in(rows, "object_key", among)
        return list(rows_of(FileRow, self._replaced(rows)))

    def of_batch(self, batch_id: str) -> list[FileRow]:
        """Return the files that the batch has now, by key."""
        rows = where_in(self._newest(), "batch_id", [batch_id])
        return sorted(rows_of(FileRow, rows), key=lambda row: row.object_key)

    def once_of(self, batch_ids: Iterable[str]) -> list[FileState]:
        """Return the objects that one of the batches ever claimed, as they are now: another batch
        may have them."""
        rows = self._rows(*_STATE)
        keys = where_in(rows, "batch_id", batch_ids)["object_key"].unique().to_pylist()
        return list(rows_of(FileState, where_in(newest(rows, "object_key"), "object_key", keys)))

    def of_keys(self, keys: Collection[str]) -> list[FileRow]:
        """Return the rows of those of the objects that a batch ever claimed."""
        return list(rows_of(FileRow, where_in(self._newest(), "object_key", keys)))

    def batches_without(self, keys: Collection[str]) -> set[str]:
        """Return the batches that have claimed files and none of these objects. They read no object
        that they have not claimed."""
        claimed = where_in(self._newest(*_STATE), "state", [states.FILE_CLAIMED])
        sharing = where_in(claimed, "object_key", keys)
        batches, excepted = (rows["batch_id"].unique().to_pylist() for rows in (claimed, sharing))
        return set(batches).difference(excepted)

    def claim(self, request: ClaimRequest) -> Claim:
        """Claim the files that no batch has."""
        return self._tables.append(FILES, partial(self._decide, request))

    def mark(self, batch_id: str, state: str, seen: Container[FileRow] | None = None) -> int:
        """Set the state of those of the batch's files whose present state allows it (FOLLOWS);
        return how many.

        `seen`: the rows that the caller read; files whose row changed since are left alone.
        """

        def decide(table: Table) -> tuple[list[Row], int]:
            files = newest(self._tables.scan(table, not_copied(self._pipeline)), "object_key")
            may = where_in(where_in(files, "batch_id", [batch_id]), "state", states.FOLLOWS[state])
            rows = [r for r in rows_of(FileRow, may) if seen is None or r in seen]
            return [asdict(replace(r, state=state, at=self._clock())) for r in rows], len(rows)

        return self._tables.append(FILES, decide)

    def _decide(self, request: ClaimRequest, table: Table) -> tuple[list[Row], Claim]:
        """Decide a claim on the table's snapshot: the files that it wins, and the copies."""
        known = self._tables.scan(table, not_copied(self._pipeline))
        of_keys = where_in(known, "object_key", (file.key for file in request.files))
        free = available(request.files, latest(FileRow, of_keys, "object_key"), request.replaced)
        row = partial(file_row, self._pipeline, request.modified, self._clock())
        content = request.content_key
        rivals = with_checksums(known, {file.sha256 for file in free})
        brought = self._batch_by_content(rivals, content, request.epochs)
        won = fresh_content(free, set(brought), content)
        batch_id = request.batch_id_for(won) if won else ""
        claimed = [row(file, batch_id) for file in won]
        copies = [
            row(file, batch, states.FILE_COPY)
            for file, batch in copies_among(free, won, batch_id, brought, content)
        ]
        rows = [*claimed, *self._loaded_again(copies, rivals)]
        return [asdict(row) for row in rows], Claim(batch_id, won)

    def _loaded_again(self, copies: Iterable[FileRow], files: pa.Table) -> Iterator[FileRow]:
        """Yield the copies; one whose batch loaded these bytes under this key is loaded again."""
        put_back = {_bytes_of(row) for row in rows_of(FileRow, self._replaced(files))}
        for copy in copies:
            yield replace(copy, state=states.FILE_LOADED) if _bytes_of(copy) in put_back else copy

    def _in_state(self, *wanted: str) -> list[FileState]:
        return list(rows_of(FileState, where_in(self._newest(*_STATE), "state", wanted)))

    def _rows(self, *columns: str) -> pa.Table:
        """Return all rows of the objects that a batch ever claimed, with all columns or these."""
        return self._tables.read(FILES, not_copied(self._pipeline), columns or ALL_COLUMNS)

    def _newest(self, *columns: str) -> pa.Table:
        """Return the newest row of every object that a batch ever claimed."""
        return newest(self._rows(*columns), "object_key")

    def _replaced(self, files: pa.Table) -> pa.Table:
        rows = replaced_rows(files)
        published = self._batches.published() if rows.num_rows else set()
        return where_in(rows, "batch_id", published)

    def _batch_by_content(
        self, files: pa.Table, content: ContentKey, epochs: Container[int] | None
    ) -> dict[str, str]:
        other = [] if epochs is None else self._batches_of_other(epochs)
        now, before = newest(files, "object_key"), self._replaced(files)
        return batch_by_content(now, content, other) | batch_by_content(before, content, other)

    def _batches_of_other(self, epochs: Container[int]) -> list[str]:
        """Return the batches that were loaded at another epoch than these."""
        loaded_at = self._batches.epochs().items()
        return [batch for batch, at in loaded_at if at is not None and at not in epochs]


def _bytes_of(row: FileRow) -> tuple[str, str, str]:
    return row.object_key, row.sha256, row.batch_id
