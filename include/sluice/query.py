"""SQL on the lake without a JVM: pyiceberg reads, DuckDB answers.

Only the tables that a statement names are read; their names are data, never SQL text.
"""

from __future__ import annotations

import base64
import csv
import json
import math
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any, Final, TextIO

import duckdb
import pyarrow as pa
import sqlglot
from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import NoSuchNamespaceError, NoSuchTableError
from rich.console import Console
from rich.table import Table
from sqlglot import exp
from sqlglot.errors import SqlglotError

from sluice.catalog import open_catalog
from sluice.config import Project
from sluice.errors import TerminalError

FORMATS: Final = ("table", "jsonl", "csv")
_EXACT_IN_JSON: Final = 1 << 53


def run_sql(project: Project, statement: str) -> pa.Table:
    """Answer one SELECT over `namespace.table` names.

    Raises TerminalError for SQL that does not parse or run, and for unknown tables, naming those
    there are.
    """
    catalog = open_catalog(project)
    connection = duckdb.connect(":memory:")
    try:
        for namespace, name in sorted(_tables(statement)):
            _register(connection, catalog, namespace, name)
        answer = connection.sql(statement)
        if answer is None:
            raise TerminalError("this is not a query: only statements with rows, such as SELECT")
        return answer.to_arrow_table()
    except duckdb.Error as error:
        raise TerminalError(f"the query failed: {error}") from error
    finally:
        connection.close()


def _tables(statement: str) -> set[tuple[str, str]]:
    try:
        parsed = sqlglot.parse_one(statement, read="duckdb")
    except SqlglotError as error:
        raise TerminalError(f"this is not a query: {error}") from error
    return {(t.db, t.name) for t in parsed.find_all(exp.Table) if t.db}


def _register(
    connection: duckdb.DuckDBPyConnection, catalog: Catalog, namespace: str, name: str
) -> None:
    if namespace.lower() in ("information_schema", "pg_catalog"):
        return
    try:
        found = catalog.load_table((namespace, name))
    except NoSuchTableError as error:
        raise TerminalError(_unknown(catalog, namespace, name)) from error
    loaded = found.scan().to_arrow()
    view = f"{_quoted(namespace)}.{_quoted(name)}"
    connection.execute(f"CREATE SCHEMA IF NOT EXISTS {_quoted(namespace)}")
    connection.register("sluice_loading", loaded)
    connection.execute(f"CREATE TABLE {view} AS SELECT * FROM sluice_loading")
    connection.unregister("sluice_loading")


def _unknown(catalog: Catalog, namespace: str, name: str) -> str:
    try:
        known = [".".join(ident) for ident in catalog.list_tables(namespace)]
    except NoSuchNamespaceError:
        known = [".".join(n) + ".*" for n in catalog.list_namespaces()]
    return f"there is no table {namespace}.{name}; there are: {', '.join(sorted(known)) or 'none'}"


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def print_sql(project: Project, statement: str, output: str, to: TextIO) -> None:
    """Answer a SELECT and write it as `table`, `jsonl` or `csv`."""
    if output not in FORMATS:
        raise TerminalError(f"unknown format {output!r}; known: {', '.join(FORMATS)}")
    answer = run_sql(project, statement)
    {"table": _write_table, "jsonl": _write_jsonl, "csv": _write_csv}[output](answer, to)


def _write_table(answer: pa.Table, to: TextIO) -> None:
    shown = Table(*answer.column_names)
    for row in answer.to_pylist():
        shown.add_row(*("" if v is None else str(plain(v)) for v in row.values()))
    Console(file=to).print(shown)


def _write_jsonl(answer: pa.Table, to: TextIO) -> None:
    for batch in answer.to_batches():
        for row in batch.to_pylist():
            to.write(json.dumps({k: plain(v) for k, v in row.items()}, ensure_ascii=False) + "\n")


def _write_csv(answer: pa.Table, to: TextIO) -> None:
    writer = csv.writer(to, lineterminator="\n")
    writer.writerow(answer.column_names)
    for row in answer.to_pylist():
        writer.writerow("" if v is None else plain(v) for v in row.values())


def plain(value: Any) -> Any:
    """A value as JSON holds it exactly: large integers and decimals as text, bytes as base64,
    timestamps as ISO 8601 with microseconds, in UTC where they have a zone."""
    if isinstance(value, bool) or value is None or isinstance(value, str):
        return value
    if isinstance(value, int):
        return value if abs(value) <= _EXACT_IN_JSON else str(value)
    if isinstance(value, float):
        return _float(value)
    if isinstance(value, datetime):
        return _timestamp(value)
    return _other(value)


def _float(value: float) -> float | str:
    if math.isnan(value):
        return "NaN"
    return value if math.isfinite(value) else ("Infinity" if value > 0 else "-Infinity")


def _timestamp(value: datetime) -> str:
    if value.tzinfo is None:
        return value.isoformat(timespec="microseconds")
    moment = value.astimezone(UTC).replace(tzinfo=None)
    return moment.isoformat(timespec="microseconds") + "Z"


def _other(value: Any) -> Any:
    if isinstance(value, Decimal):
        return format(value, "f")
    if isinstance(value, bytes):
        return base64.b64encode(value).decode("ascii")
    if isinstance(value, date | time):
        return value.isoformat()
    if isinstance(value, list):
        return [plain(v) for v in value]
    if isinstance(value, dict):
        return {str(k): plain(v) for k, v in value.items()}
    return str(value)
