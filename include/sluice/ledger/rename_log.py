"""Renames of columns in the ledger: what the DDL of each batch told, `sluice.renames`.

Columns that were dropped and added are there too, for one may be added again under a name that
another had. What is told counts once its batch is published, as all that a batch tells does.
Statements that nobody could read are there too, with the `problem`, and, without columns, those
that dropped a table before it had a target.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from pyiceberg.catalog import Catalog

from sluice.config.formats import WIRE_FORMATS
from sluice.ddl.defaults import AddedColumn, ColumnChange
from sluice.ddl.stated_names import is_of
from sluice.ledger import ddl_log
from sluice.ledger.tables import RENAMES, Row


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
    nothing = ToldRename("", "", (), "", "nothing is left of what the batch told before")
    batch = (pipeline, batch_id)
    ddl_log.record(catalog, RENAMES, batch, list(map(_row, told)), _row(nothing))


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
    rows = ddl_log.recorded(catalog, RENAMES, pipeline)
    return [_told(row) for row in rows if row["problem"] is None]


def tables_told(
    told: Iterable[ToldRename], sources: Collection[str], format_name: str
) -> frozenset[str]:
    """The source tables that statements are of, among those that are stored; where the format has
    their names as typed, also a table that was not known when its statement came."""
    stated = {one.source_table for one in told}
    if not WIRE_FORMATS[format_name].ddl_as_typed:
        return frozenset(stated)
    return frozenset(s for s in sources if any(is_of(name, s, lambda: sources) for name in stated))


def _told(row: dict[str, Any]) -> ToldRename:
    listed = json.loads(row["columns"])
    columns = tuple((old, new) for old, new, *_ in listed)
    added = tuple(AddedColumn(new, *told) for _, new, *told in listed if told)
    told = (row["source_table"], row["position"], columns, row["statement"])
    return ToldRename(*told, batch_id=row["batch_id"], added=added)
