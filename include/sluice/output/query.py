"""SQL on the lake without a JVM: pyiceberg reads, DuckDB answers.

DuckDB parses the statement first; only the tables and columns that it names are read. A table is
`namespace.table`; `namespace.table VERSION AS OF 'batch-…'` reads a tag, a branch or a snapshot by
its number.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

import duckdb
import pyarrow as pa
from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import NoSuchTableError
from pyiceberg.expressions import AlwaysTrue
from pyiceberg.table import Table

from sluice.catalog.client import load_table, open_catalog
from sluice.catalog.damage import explained_damage
from sluice.catalog.failures import EXPECTED, as_sluice_error
from sluice.catalog.listing import all_tables
from sluice.config.project import Project
from sluice.errors import SluiceError, TerminalError
from sluice.names import CATALOG, full_name
from sluice.output.sql_filter import BASE_TABLE, Node, nodes, row_filter
from sluice.output.table_lists import answered_list, lists_are_asked_for

# DuckDB has these schemas itself, and refuses a name with two meanings.
_DATABASES: Final = ("memory", "system", "temp", CATALOG)
_ALL_COLUMNS: Final = ("STAR", "POSITIONAL_REFERENCE")
_WHOLE_ROWS: Final = ("SHOW_REF", "PIVOT")
# These look tables up by a text or bare name that is not visible here; `summary` of a name hangs.
_BY_NAME: Final = (
    "histogram", "histogram_values", "json_execute_serialized_sql", "query", "query_table",
    "summary",
)  # fmt: skip
_VERSION_AS_OF: Final = ["VERSION", "AS", "OF"]
_TOO_LARGE: Final = (
    "the query needs more memory than there is: name fewer columns, or a condition that is applied "
    "while reading; for large tables use an engine that reads Iceberg"
)
_LITERAL: Final = tuple("'0123456789")


@dataclass(frozen=True)
class TableReference:
    """A table as a statement names it; `version` is a tag, a branch or a snapshot's number."""

    namespace: str
    name: str
    version: str | int | None

    @property
    def full_name(self) -> str:
        """The name as the statement has it; its namespace may be missing."""
        return full_name(self.namespace, self.name) if self.namespace else self.name

    @property
    def view(self) -> str:
        """The name in DuckDB, inside its schema."""
        return self.name if self.version is None else f"{self.name}@{self.version}"


def run_sql(project: Project, statement: str) -> pa.Table:
    """Answer one query.

    Raises TerminalError for SQL that does not parse or run, for tables that pyiceberg cannot read,
    and for unknown ones, listing the existing ones, or if there is not enough memory;
    TransientError while a store or the catalog fails.
    """
    connection = duckdb.connect(":memory:")
    try:
        return _answer(connection, open_catalog(project), statement)
    except (MemoryError, duckdb.OutOfMemoryException) as error:
        what = str(error).partition("\n")[0] or type(error).__name__
        raise TerminalError(f"{_TOO_LARGE} ({what})") from error
    except duckdb.Error as error:
        raise TerminalError(f"the query failed: {error}").in_lines() from error
    finally:
        connection.close()


def _answer(connection: duckdb.DuckDBPyConnection, catalog: Catalog, statement: str) -> pa.Table:
    connection.execute(f"ATTACH ':memory:' AS {CATALOG}")
    connection.execute(f"USE {CATALOG}")
    connection.execute("SET TimeZone = 'UTC'")
    connection.execute("SET python_enable_replacements = false")
    statement, tree = _parse(connection, statement)
    _refuse_by_name(tree)
    if lists_are_asked_for(tree):
        return answered_list(all_tables(catalog), tree)
    columns = _columns(tree)
    for number, (reference, table) in enumerate(_loaded(catalog, tree)):
        _register(connection, _scan(table, reference, columns, tree), reference, f"loaded_{number}")
    _forbid_files(connection)
    relation = connection.sql(statement)
    return _integers(relation, relation.to_arrow_table())


def _forbid_files(connection: duckdb.DuckDBPyConnection) -> None:
    """Restrict DuckDB to the registered tables: `read_text` and similar functions would show this
    process's files and environment to whoever sends the query."""
    connection.execute("SET enable_external_access = false")
    connection.execute("SET lock_configuration = true")


def _parse(connection: duckdb.DuckDBPyConnection, statement: str) -> tuple[str, Node]:
    """Return the statement in DuckDB's own spelling, and its syntax tree."""
    statement = _at_versions(statement)
    tree = _tree(connection, statement)
    # `deepcopy` reaches Python's limit of recursion at statements half as deep.
    original = json.loads(json.dumps(tree))
    for node in _base_tables(tree):
        _name_in_full(node)
        if node["at_clause"]:
            _point_to_view(node)
    if tree == original:
        return statement, tree
    return _one(connection, "SELECT json_deserialize_sql(?)", json.dumps(tree)), original


def _one(connection: duckdb.DuckDBPyConnection, statement: str, parameter: str) -> str:
    return str(connection.execute(statement, [parameter]).fetchall()[0][0])


def _at_versions(statement: str) -> str:
    """Return the statement with `VERSION AS OF v` in DuckDB's syntax."""
    parts = _tokens(statement)
    words = [part.strip().upper() for part in parts]
    for at in range(len(parts) - 3):
        if words[at : at + 3] == _VERSION_AS_OF and words[at + 3][:1] in _LITERAL:
            # Four parts replace four, so the places of later ones stay the same.
            parts[at : at + 4] = ["AT ", "(VERSION ", "=> ", f"{parts[at + 3].strip()}) "]
    return "".join(parts)


def _tokens(statement: str) -> list[str]:
    """Return DuckDB's tokens of the statement, which respect quotes and comments; places
    are in bytes."""
    text = statement.encode()
    ends = [start for start, _ in duckdb.tokenize(statement)] + [len(text)]
    return [text[a:b].decode() for a, b in pairwise([0, *ends])]


def _tree(connection: duckdb.DuckDBPyConnection, statement: str) -> Node:
    tree: Node = json.loads(_one(connection, "SELECT json_serialize_sql(?)", statement))
    if tree.get("error_type") == "not implemented":
        raise TerminalError("this is not a query: only SELECT and its like are answered")
    if tree.get("error"):
        raise TerminalError(f"this is not a query: {tree.get('error_message')}")
    if len(tree["statements"]) != 1:
        raise TerminalError(f"expected one query, got {len(tree['statements'])}")
    return tree


def _base_tables(tree: Node) -> Iterator[Node]:
    return (n for n in nodes(tree) if n.get("type") == BASE_TABLE)


def _reference(node: Node) -> TableReference:
    return TableReference(
        str(node["schema_name"]), str(node["table_name"]), _version(node["at_clause"])
    )


def _version(at_clause: Node | None) -> str | int | None:
    if at_clause is None:
        return None
    literal = at_clause["expr"].get("literal")
    if at_clause["unit"].upper() != "VERSION" or literal is None:
        raise TerminalError("expected VERSION AS OF 'tag' or VERSION AS OF snapshot-number")
    return int(literal["text"]) if literal["kind"] == "INTEGER" else str(literal["text"])


def _name_in_full(node: Node) -> None:
    if not node["catalog_name"] and node["schema_name"].lower() in _DATABASES:
        node["catalog_name"] = CATALOG
        node["qualified_name"]["path"].insert(0, CATALOG)


def _point_to_view(node: Node) -> None:
    view = _reference(node).view
    node["alias"] = node["alias"] or node["table_name"]
    node["table_name"] = node["qualified_name"]["path"][-1] = view
    node["at_clause"] = None


def _refuse_by_name(tree: Node) -> None:
    for node in nodes(tree):
        if node.get("type") != "TABLE_FUNCTION":
            continue
        function = node["function"]
        name = function["function_name"].lower()
        if name in _BY_NAME and not all(_is_query(a) for a in function["arguments"]):
            raise TerminalError(f"{name}(…) is not answered: name the table in FROM or SUMMARIZE")


def _is_query(argument: Node) -> bool:
    return bool(argument["expression"]["type"] == "SUBQUERY")


def _tables(catalog: Catalog, tree: Node) -> set[TableReference]:
    queries = {entry["key"].lower() for node in nodes(tree) for entry in _ctes(node)}
    references = {_reference(node) for node in _base_tables(tree)}
    for table in references:
        if not table.namespace and table.name.lower() not in queries:
            raise TerminalError(_unknown(catalog, table))
    return {t for t in references if t.namespace}


def _loaded(catalog: Catalog, tree: Node) -> list[tuple[TableReference, Table]]:
    """Load each table and version once, however often the statement names it."""
    loaded = [(ref, _load(catalog, ref)) for ref in sorted(_tables(catalog, tree), key=str)]
    return list({(table.name(), ref.version): (ref, table) for ref, table in loaded}.values())


def _ctes(node: Node) -> list[Node]:
    found: list[Node] = (node.get("cte_map") or {}).get("map", [])
    return found


def _columns(tree: Node) -> set[str] | None:
    """Return all column names in the statement, in lower case; None if it may need every column."""
    names: set[str] = set()
    tables: set[str] = set()
    for node in nodes(tree):
        if node.get("class") in _ALL_COLUMNS or node.get("type") in _WHOLE_ROWS:
            return None
        if node.get("ref_type") == "NATURAL":
            return None
        names |= set(_path(node))
        names |= {str(n).lower() for n in node.get("using_columns") or []}
        if node.get("type") == BASE_TABLE:
            tables |= {node["table_name"].lower(), node["alias"].lower()}
            if node["column_name_alias"]:
                return None
    return None if any(_ends_with(n, tables) for n in nodes(tree)) else names


def _ends_with(node: Node, tables: set[str]) -> bool:
    """Whether a path is a name like `orders` or `shop.orders`, which may mean the whole row."""
    return any(last in tables for last in _path(node)[-1:])


def _path(node: Node) -> list[str]:
    """Return the parts of a name in lower case: of a column, or what a method such as
    `name.upper()` is called on."""
    path = node.get("column_names") or []
    if node.get("class") == "FUNCTION":
        path = node["qualified_name"]["path"][:-1]
    return [str(part).lower() for part in path]


def _scan(
    table: Table, reference: TableReference, columns: set[str] | None, tree: Node
) -> pa.Table:
    scan = table.scan(
        row_filter=row_filter(tree, table.schema()) if reference.version is None else AlwaysTrue(),
        selected_fields=_selected(table, None if reference.version else columns),
        snapshot_id=_snapshot(table, reference),
    )
    try:
        with explained_damage(scan, table.name()):
            return scan.to_arrow()
    except (SluiceError, MemoryError):
        raise
    except EXPECTED as error:
        known = as_sluice_error(error)
        raise type(known)(f"{reference.full_name}: {known}") from error


def _register(
    connection: duckdb.DuckDBPyConnection, rows: pa.Table, reference: TableReference, loaded: str
) -> None:
    connection.register(loaded, rows)
    schema = f"{CATALOG}.{_quoted(reference.namespace)}"
    connection.execute(f"CREATE SCHEMA IF NOT EXISTS {schema}")
    connection.execute(f"CREATE VIEW {schema}.{_quoted(reference.view)} AS SELECT * FROM {loaded}")


def _selected(table: Table, columns: set[str] | None) -> tuple[str, ...]:
    names = [field.name for field in table.schema().fields]
    # DuckDB numbers names that differ only in case, except the first: K beside k is K_1.
    if columns is None or len({name.lower() for name in names}) < len(names):
        return ("*",)
    return tuple(name for name in names if name.lower() in columns) or tuple(names[:1])


def _snapshot(table: Table, reference: TableReference) -> int | None:
    if reference.version is None:
        return None
    if isinstance(reference.version, int):
        found = table.snapshot_by_id(reference.version)
    else:
        found = table.snapshot_by_name(reference.version)
    if found is None:
        known = ", ".join(sorted(table.refs())) or "none"
        raise TerminalError(
            f"{reference.full_name} has no version {reference.version!r}; there are: {known}"
        )
    return found.snapshot_id


def _load(catalog: Catalog, reference: TableReference) -> Table:
    """Load a table by its exact name, else by the only name that matches ignoring
    case, as in SQL."""
    with suppress(NoSuchTableError):
        return load_table(catalog, (reference.namespace, reference.name))
    wanted = reference.full_name.lower()
    near = [i for i in all_tables(catalog) if ".".join(i).lower() == wanted]
    if len(near) == 1:
        with suppress(NoSuchTableError):  # dropped since
            return load_table(catalog, near[0])
    raise TerminalError(_unknown(catalog, reference))


def _unknown(catalog: Catalog, reference: TableReference) -> str:
    existing = ", ".join(".".join(name) for name in all_tables(catalog)) or "none yet"
    name = reference.full_name
    return f"there is no table {name}; there are: {existing}"


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _integers(relation: duckdb.DuckDBPyRelation, answer: pa.Table) -> pa.Table:
    """Mark HUGEINT columns, the type of every sum, which DuckDB exports to Arrow as decimals."""
    fields = [
        field.with_metadata({"integer": "yes"}) if str(kind) == "HUGEINT" else field
        for field, kind in zip(answer.schema, relation.types, strict=True)
    ]
    return pa.Table.from_arrays(answer.columns, schema=pa.schema(fields))
