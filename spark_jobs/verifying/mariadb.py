"""MariaDB and MySQL as a source to compare with."""

from __future__ import annotations

from typing import ClassVar, Final

from pyspark.sql import SparkSession

from sluice.config.live_source import MARIADB, MYSQL
from spark_jobs.verifying.source_database import LiveColumn, SourceDatabase, SourceTable, TextForm

_SESSION: Final = {
    "driver": "org.mariadb.jdbc.Driver",
    "sessionInitStatement": "SET SESSION TRANSACTION READ ONLY",
    # Spark quotes names in double quotes, which MySQL reads as string literals by default.
    "sessionVariables": "time_zone='+00:00',sql_mode='ANSI_QUOTES'",
}

# A query of a system-versioned table reads its present rows.
_TABLES: Final = """
SELECT table_schema AS place, table_name AS name FROM information_schema.tables
WHERE table_type IN ('BASE TABLE', 'SYSTEM VERSIONED')
AND table_schema NOT IN ('mysql', 'sys', 'information_schema', 'performance_schema')
"""
_COLUMNS: Final = """
SELECT column_name AS name, data_type AS kind FROM information_schema.columns
WHERE table_schema = {schema} AND table_name = {name}
"""
_KINDS: Final = {
    TextForm.NUMBER: "tinyint smallint mediumint int bigint decimal year bit",
    TextForm.DOUBLE: "double",
    TextForm.SINGLE: "float",
    TextForm.MOMENT: "date datetime timestamp",
    TextForm.CLOCK: "time",
    TextForm.TEXT: "char varchar tinytext text mediumtext longtext enum set uuid inet4 inet6",
    TextForm.JSON: "json",
    TextForm.BYTES: "binary varbinary tinyblob blob mediumblob longblob",
}
_FORMS: Final = {kind: form for form, kinds in _KINDS.items() for kind in kinds.split()}


class Mariadb(SourceDatabase):
    """One server with all its databases, which events name as schemas."""

    tables: ClassVar[str] = _TABLES

    def __init__(self, spark: SparkSession, address: str) -> None:
        # MariaDB's driver connects to MySQL too, under its own scheme.
        if address.startswith(MYSQL):
            address = MARIADB + address.removeprefix(MYSQL)
        super().__init__(spark, address, _SESSION)

    @staticmethod
    def quoted(name: str) -> str:
        """Return a name as a quoted identifier."""
        return "`" + name.replace("`", "``") + "`"

    def columns(self, table: SourceTable) -> list[LiveColumn]:
        """Return the table's columns by name; `kind` is the type without length and sign."""
        query = _COLUMNS.format(schema=_literal(table.schema), name=_literal(table.name))
        return [
            LiveColumn(name, kind, _FORMS.get(kind), _text(self.quoted(name), kind))
            for name, kind in self.query(query).orderBy("name").collect()
        ]


def _text(column: str, kind: str) -> str:
    """Return SQL for a value as text in UTF-8."""
    form = _FORMS.get(kind)
    if form == TextForm.BYTES:
        return f"LOWER(HEX({column}))"
    if form == TextForm.NUMBER:  # as a number: BIT has no text, ZEROFILL pads
        column = f"{column} + 0"
    if form in (TextForm.SINGLE, TextForm.DOUBLE):  # the text of a FLOAT has six digits only
        column = f"{column} + 0e0"
    return f"CONVERT({column} USING utf8mb4)"


def _literal(text: str) -> str:
    return f"CONVERT(X'{text.encode().hex()}' USING utf8mb4)"
