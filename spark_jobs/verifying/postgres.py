"""PostgreSQL as a source to compare with."""

from __future__ import annotations

from typing import ClassVar, Final

from pyspark.sql import SparkSession

from spark_jobs.verifying.source_database import LiveColumn, SourceDatabase, SourceTable, TextForm

_DRIVER: Final = "org.postgresql.Driver"
_SESSION: Final = (
    "SET TIME ZONE 'UTC'; SET datestyle = 'ISO, YMD'; SET extra_float_digits = 1; "
    "SET default_transaction_read_only = on"
)
_ENUM: Final = "e"
"""The value of `pg_type.typtype` for enums."""

# Ordinary, partitioned and foreign tables.
_TABLES: Final = """
SELECT n.nspname::text AS schema, c.relname::text AS name
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE c.relkind IN ('r', 'p', 'f') AND n.nspname NOT IN ('pg_catalog', 'information_schema')
"""
# A domain counts as its base type.
_COLUMNS: Final = """
SELECT a.attname::text AS name, coalesce(b.typname, t.typname)::text AS kind,
       coalesce(b.typtype, t.typtype)::text AS sort
FROM pg_attribute a JOIN pg_type t ON t.oid = a.atttypid
LEFT JOIN pg_type b ON b.oid = t.typbasetype AND t.typtype = 'd'
JOIN pg_class c ON c.oid = a.attrelid JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE n.nspname = {schema} AND c.relname = {name} AND a.attnum > 0 AND NOT a.attisdropped
"""
_KINDS: Final = {
    TextForm.NUMBER: "int2 int4 int8 oid numeric money",
    TextForm.DOUBLE: "float4 float8",
    TextForm.BOOLEAN: "bool",
    TextForm.MOMENT: "date timestamp timestamptz",
    TextForm.CLOCK: "time",
    TextForm.TEXT: "text varchar bpchar char name citext uuid json jsonb xml inet cidr macaddr "
    "macaddr8",
    TextForm.BYTES: "bytea",
}
_FORMS: Final = {kind: form for form, kinds in _KINDS.items() for kind in kinds.split()}


class Postgres(SourceDatabase):
    """One database."""

    tables: ClassVar[str] = _TABLES

    def __init__(self, spark: SparkSession, address: str) -> None:
        super().__init__(spark, address, {"driver": _DRIVER, "sessionInitStatement": _SESSION})

    @staticmethod
    def quoted(name: str) -> str:
        """Return a name as a quoted identifier."""
        return '"' + name.replace('"', '""') + '"'

    def columns(self, table: SourceTable) -> list[LiveColumn]:
        """Return the table's columns, sorted by name."""
        query = _COLUMNS.format(schema=_literal(table.schema), name=_literal(table.name))
        rows = self.query(query).orderBy("name").collect()
        return [
            LiveColumn(name, kind, _form(kind, sort), _text(self.quoted(name), kind))
            for name, kind, sort in rows
        ]


def _form(kind: str, sort: str) -> TextForm | None:
    return TextForm.TEXT if sort == _ENUM else _FORMS.get(kind)


def _text(column: str, kind: str) -> str:
    """Return SQL for a value as text; a `char` keeps its trailing blanks."""
    if kind == "bytea":
        return f"encode({column}, 'hex')"
    if kind == "bpchar":  # a cast to text strips the blanks, concat does not
        return f"CASE WHEN {column} IS NOT NULL THEN concat({column}) END"
    if kind == "money":
        return f"{column}::numeric::text"
    return f"{column}::text"


def _literal(text: str) -> str:
    return f"convert_from(decode('{text.encode().hex()}', 'hex'), 'UTF8')"
