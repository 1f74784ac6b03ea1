"""Conditions of a query that Iceberg can apply itself, so that fewer files are read.

DuckDB applies all conditions again; a filter only must not drop rows that the query wants.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from functools import reduce
from typing import Any, Final

from pyiceberg.expressions import AlwaysTrue, And, BooleanExpression
from pyiceberg.schema import Schema
from pyiceberg.types import StringType

from sluice.catalog.expressions import equals

Node = dict[str, Any]
BASE_TABLE: Final = "BASE_TABLE"
_COLUMN: Final = "COLUMN_REF"
_SELECT: Final = "SELECT_NODE"
_EVERY_ROW: Final[BooleanExpression] = AlwaysTrue()


def row_filter(tree: Node, schema: Schema) -> BooleanExpression:
    """Return the conditions `column = 'text'` that every row of a query's only table has to meet.

    `tree`: the statement in the form of DuckDB's `json_serialize_sql`.
    """
    select = _of_one_table(tree)
    by_name = {f.name.lower(): f for f in schema.fields}
    if select is None or len(by_name) < len(schema.fields):
        return _EVERY_ROW
    equalities = [
        (_column(path, select["from_table"], by_name), text) for path, text in _texts(select)
    ]
    fields = [(by_name[c], text) for c, text in equalities if c in by_name]
    conditions = [
        equals(f.name, text) for f, text in fields if isinstance(f.field_type, StringType)
    ]
    return reduce(And, conditions, _EVERY_ROW)


def nodes(tree: Any) -> Iterator[Node]:
    """Yield every node of a statement, the outermost first."""
    if isinstance(tree, dict):
        yield tree
        tree = list(tree.values())
    if isinstance(tree, list):
        for part in tree:
            yield from nodes(part)


def _of_one_table(tree: Node) -> Node | None:
    """Return the query if it reads exactly one table; else None."""
    node: Node = tree["statements"][0]["node"]
    selects = [n for n in nodes(tree) if n.get("type") == _SELECT]
    tables = [n for n in nodes(tree) if n.get("type") == BASE_TABLE]
    if [*selects, *tables] != [node, node.get("from_table")] or node.get("sample"):
        return None
    return None if _sampled_or_renamed(tables[0]) else node


def _sampled_or_renamed(table: Node) -> bool:
    """Whether a table is sampled, which happens before any condition, or its columns are renamed by
    `t(a, b)`."""
    return bool(table.get("sample") or table["column_name_alias"])


def _column(path: list[str], table: Node, columns: Collection[str]) -> str | None:
    """Return the column that a name means; None if it may be a field of a struct."""
    path = [part.lower() for part in path]
    known_as = (table["alias"] or table["table_name"]).lower()
    if path[:-1] == [known_as] and known_as not in columns:
        return path[-1]
    return path[0] if len(path) == 1 else None


def _texts(select: Node) -> Iterator[tuple[list[str], str]]:
    """Yield name and text of each equality that has to hold."""
    for part in _all_of(select.get("where_clause")):
        if part["type"] != "COMPARE_EQUAL":
            continue
        sides = sorted((part["left"], part["right"]), key=_is_constant)
        literal = sides[1].get("literal") or {}
        if sides[0]["type"] == _COLUMN and literal.get("kind") == "STRING":
            yield sides[0]["column_names"], literal["text"]


def _all_of(condition: Node | None) -> Iterator[Node]:
    if condition is None:
        return
    if condition["type"] != "CONJUNCTION_AND":
        yield condition
        return
    for part in condition["children"]:
        yield from _all_of(part)


def _is_constant(side: Node) -> bool:
    return bool(side["type"] != _COLUMN)
