"""Questions for the list of tables, which the catalog answers: DuckDB knows only the tables that a
statement names, so its own lists are empty."""

from __future__ import annotations

from typing import Final

import pyarrow as pa

from sluice.errors import TerminalError
from sluice.names import NAMESPACES_OF_SQL, full_name
from sluice.output.sql_filter import BASE_TABLE, Node, nodes

# `SHOW TABLES` and `SHOW ALL TABLES` in DuckDB's syntax tree.
_OF_ALL: Final = ('"tables"', "__show_tables_expanded")
_FUNCTIONS: Final = (
    "duckdb_columns", "duckdb_databases", "duckdb_schemas", "duckdb_tables", "duckdb_views",
)  # fmt: skip


def lists_are_asked_for(tree: Node) -> bool:
    """Whether a statement asks DuckDB for a list of tables, columns or the like."""
    return any(_is_list(node) for node in nodes(tree))


def answered_list(tables: list[tuple[str, ...]], tree: Node) -> pa.Table:
    """Answer SHOW TABLES in columns `namespace` and `name`.

    Raises TerminalError, with the tables that there are, for a query of another list.
    """
    namespace = _asked_namespace(tree)
    if namespace is None:
        existing = ", ".join(full_name(t[0], t[-1]) for t in tables) or "none yet"
        raise TerminalError(
            "information_schema, pg_catalog and the like do not list the lake; SHOW TABLES does; "
            f"there are: {existing}"
        )
    found = [t for t in tables if namespace in ("", t[0].lower())]
    columns = [pa.array([t[at] for t in found], pa.string()) for at in (0, -1)]
    return pa.Table.from_arrays(columns, names=["namespace", "name"])


def _asked_namespace(tree: Node) -> str | None:
    """Return the namespace whose tables SHOW TABLES asks for, in lower case, or "" for all; None if
    the statement is another one."""
    shown = tree["statements"][0]["node"].get("from_table") or {}
    if shown.get("type") != "SHOW_REF":
        return None
    if shown["show_type"] == "SHOW_FROM":
        return str(shown["schema_name"]).lower()
    return "" if shown["table_name"] in _OF_ALL else None


def _is_list(node: Node) -> bool:
    kind = node.get("type")
    if kind == "TABLE_FUNCTION":
        return node["function"]["function_name"].lower() in _FUNCTIONS
    if kind == BASE_TABLE:
        return str(node["schema_name"]).lower() in NAMESPACES_OF_SQL
    return kind == "SHOW_REF" and node["query"] is None
