"""Column changes from the DDL of each batch: the ledger's table `sluice.renames`.

It has renamed, dropped and added columns, since a column may be added under the former name of
another one; statements that could not be parsed, with the `problem`; statements that dropped a
table whose target they empty, with one column without a name; and, without columns, those that
dropped or emptied a table before it had a target. A batch's rows count once it is published.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from pyiceberg.catalog import Catalog

from sluice.config.formats import WIRE_FORMATS
from sluice.ddl.defaults import AddedColumn, ColumnChange
from sluice.ddl.stated_names import may_be
from sluice.ledger import ddl_log
from sluice.ledger.tables import RENAMES, Row
from sluice.source_names import stored_name

_ALL_COLUMNS: Final = (None, None)


@dataclass(frozen=True)
class ColumnStatement:
    """One statement, and the position below which events use the former names.

    `added`: the added columns of which the statement states the value in earlier rows.
    `drops_table`: whether what is above it under the table's name is another table.
    """

    source_table: str
    position: str
    columns: tuple[ColumnChange, ...]
    statement: str
    problem: str | None = None
    batch_id: str = ""
    added: tuple[AddedColumn, ...] = ()
    drops_table: bool = False


def record(
    catalog: Catalog, pipeline: str, batch_id: str, stated: Collection[ColumnStatement]
) -> None:
    """Write a batch's statements, also when it has none, in place of an earlier attempt's."""
    nothing = ColumnStatement("", "", (), "", "nothing is left of what the batch told before")
    batch = (pipeline, batch_id)
    ddl_log.record(catalog, RENAMES, batch, list(map(_row, stated)), _row(nothing))


def _row(statement: ColumnStatement) -> Row:
    added = {column.name.lower(): column for column in statement.added}
    listed = [(old, new, *_default(added, old, new)) for old, new in statement.columns]
    dropped = [_ALL_COLUMNS] if statement.drops_table else []
    columns = json.dumps([*listed, *dropped], ensure_ascii=False)
    return {
        "source_table": statement.source_table, "position": statement.position, "columns": columns,
        "problem": statement.problem, "statement": statement.statement,
    }  # fmt: skip


def _default(added: Mapping[str, AddedColumn], old: str | None, new: str | None) -> tuple[Any, ...]:
    """Return all of an added column but its name; () for other columns."""
    column = added.get(new.lower()) if old is None and new is not None else None
    return () if column is None else column[1:]


def recorded(catalog: Catalog, pipeline: str) -> list[ColumnStatement]:
    """Return the parsed statements of a pipeline's batches, published or not."""
    rows = ddl_log.recorded(catalog, RENAMES, pipeline)
    return [_statement(row) for row in rows if row["problem"] is None]


def tables_named_in(
    stated: Iterable[ColumnStatement], sources: Collection[str], format_name: str
) -> frozenset[str]:
    """Return the source tables that the statements concern.

    If the format has table names as typed, they are matched with the stored `sources`: a table may
    have been unknown when its statement came.
    """
    names = {one.source_table for one in stated}
    if not WIRE_FORMATS[format_name].ddl_as_typed:
        return frozenset(names)
    return frozenset(s for s in sources if any(may_be(name, s, lambda: sources) for name in names))


def _statement(row: dict[str, Any]) -> ColumnStatement:
    """Return a recorded statement; earlier releases recorded taken names as the source has them."""
    told = json.loads(row["columns"])
    listed = [column for column in told if tuple(column) != _ALL_COLUMNS]
    columns = tuple((old and stored_name(old), new and stored_name(new)) for old, new, *_ in listed)
    added = tuple(AddedColumn(stored_name(new), *default) for _, new, *default in listed if default)
    return ColumnStatement(
        row["source_table"],
        row["position"],
        columns,
        row["statement"],
        batch_id=row["batch_id"],
        added=added,
        drops_table=len(listed) < len(told),
    )
