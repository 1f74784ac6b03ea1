"""Reads of the ledger's tables, cached by snapshot and file: neither ever changes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
from pyiceberg.expressions import BooleanExpression
from pyiceberg.table import DataScan, FileScanTask, Table

from sluice.catalog.damage import explained_damage
from sluice.catalog.scan_files import read_files

ALL_COLUMNS: Final = ("*",)
_KEPT: Final = 16
# The ledger of a million files is too large to keep in memory.
_KEPT_BYTES: Final = 16 << 20


@dataclass(frozen=True)
class _Query:
    table: object
    schema: int
    where: BooleanExpression
    columns: tuple[str, ...]


@dataclass(frozen=True)
class _Cached:
    """`rows` of a snapshot; None for `files` if the rows of more files may not be added to them."""

    snapshot: int | None
    files: frozenset[str] | None
    rows: pa.Table


def scan(
    table: Table, where: BooleanExpression, columns: tuple[str, ...] = ALL_COLUMNS
) -> pa.Table:
    """Read rows of the table object's snapshot into Arrow; raises LedgerDamagedError over a damaged
    file."""
    wanted = table.scan(row_filter=where, selected_fields=columns)
    with explained_damage(wanted, table.name()):
        return wanted.to_arrow()


class Scans:
    """A cache of the last result of each query.

    Between two writes a run asks for the same rows many times, and each read opens several files.
    A write adds a file to those there are, so after it only that one is read.
    """

    def __init__(self) -> None:
        self._last: list[tuple[_Query, _Cached]] = []

    def read(
        self, table: Table, where: BooleanExpression, columns: tuple[str, ...] = ALL_COLUMNS
    ) -> pa.Table:
        """Return the rows that `scan` returns, in any order, from the cache if the snapshot is the
        same. Raises as `scan` does."""
        metadata, snapshot = table.metadata, table.current_snapshot()
        query = _Query(metadata.table_uuid, metadata.current_schema_id, where, columns)
        at = snapshot.snapshot_id if snapshot else None
        known = next((cached for other, cached in self._last if other == query), None)
        if known is not None and known.snapshot == at:
            return known.rows
        wanted = table.scan(row_filter=where, selected_fields=columns)
        with explained_damage(wanted, table.name()):
            files, rows = _read_on(wanted, known)
        self._keep(query, _Cached(at, files, rows))
        return rows

    def _keep(self, query: _Query, result: _Cached) -> None:
        """Replace the list instead of changing it: threads that renew leases read it meanwhile."""
        others = [(other, cached) for other, cached in self._last if other != query]
        new = [(query, result)] if result.rows.nbytes <= _KEPT_BYTES else []
        self._last = (new + others)[:_KEPT]


def _read_on(wanted: DataScan, known: _Cached | None) -> tuple[frozenset[str] | None, pa.Table]:
    """Return the files of a scan and their rows; those of files that are known are not read."""
    tasks = list(wanted.plan_files())
    files = _files_to_add_to(tasks)
    read = known.files if known else None
    if known is None or read is None or files is None or not read <= files:
        return files, read_files(wanted, tasks)
    new = [task for task in tasks if task.file.file_path not in read]
    rows = [known.rows, read_files(wanted, new)]
    return files, pa.concat_tables(rows, promote_options="permissive")


def _files_to_add_to(tasks: Sequence[FileScanTask]) -> frozenset[str] | None:
    """Return the files of a scan; None if rows of one are deleted beside it: they may come back."""
    if any(task.delete_files for task in tasks):
        return None
    return frozenset(task.file.file_path for task in tasks)
