"""What of a query's conditions Iceberg can look up itself, so that fewer files are read.

DuckDB asks them all again: what is passed on here only has to leave out no row that it wants.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import reduce
from typing import Any, Final

from pyiceberg.expressions import AlwaysTrue, And, BooleanExpression
from pyiceberg.schema import Schema
from pyiceberg.types import StringType

from sluice.ledger.tables import equals

Node = dict[str, Any]
BASE_TABLE: Final = "BASE_TABLE"
_COLUMN: Final = "COLUMN_REF"
_SELECT: Final = "SELECT_NODE"


def row_filter(tree: Node, schema: Schema) -> BooleanExpression:
    """The conditions `column = 'text'` that every row of a query's only table has to meet.

    `tree`: the statement as DuckDB's `json_serialize_sql` shows it.
    """
    texts = {f.name for f in schema.fields if isinstance(f.field_type, StringType)}
    by_name = {name.lower(): name for name in texts}
    spelled = [f.name.lower() for f in schema.fields]
    found: BooleanExpression = AlwaysTrue()
    told = [(c.lower(), text) for c, text in _texts(_where(tree))]
    known = [equals(by_name[c], text) for c, text in told if spelled.count(c) == 1 and c in by_name]
    return reduce(And, known, found)


def nodes(tree: Any) -> Iterator[Node]:
    """Every node of a statement, from the outermost on."""
    if isinstance(tree, dict):
        yield tree
        tree = list(tree.values())
    if isinstance(tree, list):
        for part in tree:
            yield from nodes(part)


def _where(tree: Node) -> Node | None:
    """The condition of a query of one table; None where there is more to it than that."""
    node = tree["statements"][0]["node"]
    selects = [n for n in nodes(tree) if n.get("type") == _SELECT]
    tables = [n for n in nodes(tree) if n.get("type") == BASE_TABLE]
    if [*selects, *tables] != [node, node.get("from_table")] or node.get("sample"):
        return None
    where: Node | None = node.get("where_clause")
    return where


def _texts(condition: Node | None) -> Iterator[tuple[str, str]]:
    """Column and text of each equality that has to hold."""
    if condition is None:
        return
    if condition["type"] == "CONJUNCTION_AND":
        for part in condition["children"]:
            yield from _texts(part)
    elif condition["type"] == "COMPARE_EQUAL":
        sides = sorted((condition["left"], condition["right"]), key=_is_constant)
        literal = sides[1].get("literal") or {}
        if sides[0]["type"] == _COLUMN and literal.get("kind") == "STRING":
            yield sides[0]["column_names"][-1], literal["text"]


def _is_constant(side: Node) -> bool:
    return bool(side["type"] != _COLUMN)
