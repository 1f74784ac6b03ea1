"""PostgreSQL as a source to compare with: its tables, their columns and their rows as text.

Values come as the server's own text, so that nothing on the way there rounds, pads or zones them.
Each table is read by one statement over one connection: that is one state of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from pyspark.sql import DataFrame, SparkSession

from sluice.errors import TerminalError
from sluice.livesource import credentials
from spark_jobs.kept import keep

_DRIVER: Final = "org.postgresql.Driver"
_SESSION: Final = (
    "SET TIME ZONE 'UTC'; SET datestyle = 'ISO, YMD'; SET extra_float_digits = 1; "
    "SET default_transaction_read_only = on"
)
_ROWS_AT_ONCE: Final = "10000"
_BYTES: Final = "bytea"
ENUM: Final = "e"
"""Of `pg_type.typtype`."""

_TABLES: Final = """
SELECT n.nspname::text AS schema, c.relname::text AS name, c.oid::bigint AS oid
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE c.relkind IN ('r', 'p', 'f') AND n.nspname NOT IN ('pg_catalog', 'information_schema')
"""
_COLUMNS: Final = """
SELECT a.attname::text AS name, coalesce(b.typname, t.typname)::text AS kind,
       coalesce(b.typtype, t.typtype)::text AS sort
FROM pg_attribute a JOIN pg_type t ON t.oid = a.atttypid
LEFT JOIN pg_type b ON b.oid = t.typbasetype AND t.typtype = 'd'
WHERE a.attrelid = {oid} AND a.attnum > 0 AND NOT a.attisdropped
"""


@dataclass(frozen=True)
class SourceTable:
    """A table of the database; `oid` is PostgreSQL's own number for it."""

    schema: str
    name: str
    oid: int

    @property
    def text(self) -> str:
        """Its dotted name."""
        return f"{self.schema}.{self.name}"

    def is_called(self, source: str) -> bool:
        """Whether an event may call it so; the database may have had another name then."""
        return source in (self.name, self.text) or source.endswith(f".{self.text}")

    @property
    def sql(self) -> str:
        """Its quoted name."""
        return f"{_quoted(self.schema)}.{_quoted(self.name)}"


@dataclass(frozen=True)
class SourceColumn:
    """A column; of a domain `kind` and `sort` are those of the type behind it."""

    name: str
    kind: str
    sort: str

    @property
    def text(self) -> str:
        """SQL for its value as text: bytes in hex, blanks of a `char` as they are stored."""
        column = _quoted(self.name)
        if self.kind == _BYTES:
            return f"encode({column}, 'hex')"
        if self.kind == "bpchar":  # a cast to text strips the blanks, output does not
            return f"CASE WHEN {column} IS NOT NULL THEN concat({column}) END"
        if self.kind == "money":
            return f"{column}::numeric::text"
        return f"{column}::text"


class Postgres:
    """One database, read over JDBC."""

    def __init__(self, spark: SparkSession, address: str) -> None:
        self._reader = spark.read.format("jdbc").options(
            url=address, driver=_DRIVER, sessionInitStatement=_SESSION,
            fetchsize=_ROWS_AT_ONCE, **credentials(),
        )  # fmt: skip
        self._tables = [
            SourceTable(row["schema"], row["name"], row["oid"])
            for row in self._query(_TABLES).collect()
        ]

    def table(self, source: str) -> SourceTable | None:
        """The table that events call so; None where there is none.

        Raises TerminalError where several could be meant.
        """
        found = [table for table in self._tables if table.is_called(source)]
        if len(found) > 1:
            listed = ", ".join(table.text for table in found)
            raise TerminalError(f"the source has more than one table {source}: {listed}")
        return found[0] if found else None

    def columns(self, table: SourceTable) -> list[SourceColumn]:
        """Its columns, by name."""
        rows = self._query(_COLUMNS.format(oid=table.oid)).orderBy("name").collect()
        return [SourceColumn(*row) for row in rows]

    def rows(self, table: SourceTable, columns: Sequence[SourceColumn]) -> DataFrame:
        """All rows, every column as text under its own name; read once."""
        listed = ", ".join(f"{c.text} AS c{at}" for at, c in enumerate(columns))
        rows = self._query(f"SELECT {listed} FROM {table.sql}")
        return keep(rows.toDF(*(c.name for c in columns)))

    def _query(self, sql: str) -> DataFrame:
        return self._reader.option("query", sql).load()


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
