"""Renames of columns in the ledger: what the DDL of each batch told, `sluice.renames`.

Columns that were dropped and added are there too, for one may be added again under a name that
another had. What is told counts once its batch is published, as all that a batch tells does.
Statements that nobody could read are there too, with the `problem`, and, without columns, those
that dropped a table before it had a target.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from pyiceberg.catalog import Catalog
from pyiceberg.table import Table

from sluice.catalog.client import find_table
from sluice.catalog.patience import retry
from sluice.ddldefaults import AddedColumn, ColumnChange
from sluice.ledger.scans import scan
from sluice.ledger.tables import RENAMES, Decision, LedgerTables, Row, equals
from sluice.names import LEDGER_NAMESPACE

_TOLD: Final = ("source_table", "position", "columns", "problem", "statement")


@dataclass(frozen=True)
class ToldRename:
    """One statement, and the position below which events have the former names.

    `added`: of the columns that it added those of which it says what rows from before hold.
    """

    source_table: str
    position: str
    columns: tuple[ColumnChange, ...]
    statement: str
    problem: str | None = None
    batch_id: str = ""
    added: tuple[AddedColumn, ...] = ()


def record(catalog: Catalog, pipeline: str, batch_id: str, told: Collection[ToldRename]) -> None:
    """Write what a batch tells, and be it nothing, in the place of what an earlier attempt at it
    did."""
    rows = [{"pipeline": pipeline, "batch_id": batch_id, **_row(rename)} for rename in told]
    LedgerTables(catalog).append(RENAMES, partial(_unless_there, rows, pipeline, batch_id))


def _unless_there(rows: list[Row], pipeline: str, batch_id: str, table: Table) -> Decision[None]:
    there = [r for r in _newest(_of_pipeline(table, pipeline)) if r["batch_id"] == batch_id]
    told = rows or ([_nothing(pipeline, batch_id)] if there else [])
    known, wanted = ({tuple(row[name] for name in _TOLD) for row in some} for some in (there, told))
    return ([] if known == wanted else told), None


def _nothing(pipeline: str, batch_id: str) -> Row:
    """Of a batch that tells nothing any more, for rows only grow."""
    nothing = ToldRename("", "", (), "", "nothing is left of what the batch told before")
    return {"pipeline": pipeline, "batch_id": batch_id, **_row(nothing)}


def _row(rename: ToldRename) -> Row:
    told = {one.name.lower(): (one.default, one.verbatim) for one in rename.added}
    listed = [(*pair, *_of_added(told, *pair)) for pair in rename.columns]
    columns = json.dumps(listed, ensure_ascii=False)
    return {
        "source_table": rename.source_table, "position": rename.position, "columns": columns,
        "problem": rename.problem, "statement": rename.statement,
    }  # fmt: skip


def _of_added(
    told: Mapping[str, tuple[Any, ...]], old: str | None, new: str | None
) -> tuple[Any, ...]:
    return told.get(new.lower(), ()) if old is None and new is not None else ()


def recorded(catalog: Catalog, pipeline: str) -> list[ToldRename]:
    """What the batches of a pipeline told, published or not, and somebody could read."""
    rows = retry(lambda: _rows(catalog, pipeline), also=(FileNotFoundError,))
    return [_told(row) for row in _newest(rows) if row["problem"] is None]


def _rows(catalog: Catalog, pipeline: str) -> list[dict[str, Any]]:
    table = find_table(catalog, LEDGER_NAMESPACE, RENAMES)
    return [] if table is None else _of_pipeline(table, pipeline)


def _of_pipeline(table: Table, pipeline: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = scan(table, equals("pipeline", pipeline)).to_pylist()
    return found


def _newest(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """What the last attempt at each batch wrote."""
    last = {row["batch_id"]: row["seq"] for row in sorted(rows, key=lambda row: row["seq"])}
    return [row for row in rows if row["seq"] == last[row["batch_id"]]]


def _told(row: dict[str, Any]) -> ToldRename:
    listed = json.loads(row["columns"])
    columns = tuple((old, new) for old, new, *_ in listed)
    added = tuple(AddedColumn(new, *told) for _, new, *told in listed if told)
    told = (row["source_table"], row["position"], columns, row["statement"])
    return ToldRename(*told, batch_id=row["batch_id"], added=added)
