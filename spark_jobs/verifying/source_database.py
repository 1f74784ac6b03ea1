"""A database as a source to compare with: its tables, their columns and their rows as text.

The server itself turns values into text, so that no driver rounds, pads or shifts them. Each table
is read by one statement over one connection, which gives a consistent state of it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import ClassVar, Final

from py4j.protocol import Py4JJavaError
from pyspark.sql import DataFrame, SparkSession

from sluice.config.live_source import credentials
from sluice.environment import ENV_SOURCE_PASSWORD, ENV_SOURCE_USER
from sluice.errors import TerminalError
from spark_jobs.failures import causes, is_java
from spark_jobs.materialize import materialize

_ROWS_AT_ONCE: Final = "10000"
# The first two characters of a SQLSTATE: authorization, database name, rights and names.
_REFUSED: Final = ("28", "3D", "42")
# PostgreSQL's SQLSTATE for a missing password; of other causes it may be temporary.
_REJECTED: Final = "08004"


class TextForm(StrEnum):
    """How a server writes the values of a type; other types are not compared."""

    NUMBER = "number"
    DOUBLE = "double"
    SINGLE = "single"
    """32 bits, written in as many digits as needed and compared as such."""
    BOOLEAN = "boolean"
    MOMENT = "moment"
    """Dates and timestamps."""
    CLOCK = "clock"
    """Times of day and spans of time."""
    TEXT = "text"
    JSON = "json"
    """Text whose blanks and order of names depend on the server."""
    BYTES = "bytes"
    """Hexadecimal digits in lower case."""


@dataclass(frozen=True)
class SourceTable:
    """A table's schema and name in its database, and its quoted name in SQL."""

    schema: str
    name: str
    sql: str

    @property
    def text(self) -> str:
        """Schema and name, dotted."""
        return f"{self.schema}.{self.name}"

    def is_called(self, source: str) -> bool:
        """Whether events may name the table so; its database may have been renamed since."""
        return source in (self.name, self.text) or source.endswith(f".{self.text}")


@dataclass(frozen=True)
class LiveColumn:
    """A column: its name, its type, the form of its values' text, and SQL for that text."""

    name: str
    kind: str
    form: TextForm | None
    sql: str


class SourceDatabase(ABC):
    """A database, or a server with several, read over JDBC; subclasses have the dialect.

    `tables`: SQL for the schema and name of every table but the system's.
    """

    tables: ClassVar[str]

    def __init__(self, spark: SparkSession, address: str, options: Mapping[str, str]) -> None:
        self._reader = spark.read.format("jdbc").options(
            url=address, fetchsize=_ROWS_AT_ONCE, **options, **credentials()
        )
        self._tables = [
            SourceTable(schema, name, f"{self.quoted(schema)}.{self.quoted(name)}")
            for schema, name in self.query(self.tables).collect()
        ]

    @staticmethod
    @abstractmethod
    def quoted(name: str) -> str:
        """Return a name as a quoted identifier."""

    @abstractmethod
    def columns(self, table: SourceTable) -> list[LiveColumn]:
        """Return the table's columns, sorted by name."""

    def table(self, source: str) -> SourceTable | None:
        """Return the table that events name so; None if there is none.

        Raises TerminalError if several match.
        """
        found = [table for table in self._tables if table.is_called(source)]
        if len(found) > 1:
            listed = ", ".join(table.text for table in found)
            raise TerminalError(f"the source has more than one table {source}: {listed}")
        return found[0] if found else None

    def rows(self, table: SourceTable, columns: Sequence[LiveColumn]) -> DataFrame:
        """Return all rows, every column as text under its own name; the table is read once."""
        listed = ", ".join(f"{c.sql} AS c{at}" for at, c in enumerate(columns))
        rows = self.query(f"SELECT {listed} FROM {table.sql}")
        return materialize(rows.toDF(*(c.name for c in columns)))

    def query(self, sql: str) -> DataFrame:
        """Run a statement of the dialect; raises TerminalError if the database refuses the user or
        the statement."""
        try:
            return self._reader.option("query", sql).load()
        except Py4JJavaError as error:
            refused = refusal(error)
            if refused is None:
                raise
            raise refused from error


def refusal(error: Exception) -> TerminalError | None:
    """Return a database's refusal as a TerminalError; None for errors that may be temporary."""
    for cause in causes(error):
        if is_java(cause, "java.sql.SQLException"):
            state = str(cause.getSQLState() or "")
            no_password = state == _REJECTED and "password" not in credentials()
            if no_password or state.startswith(_REFUSED):
                message = (str(cause.getMessage()).splitlines() or [""])[0]
                return TerminalError(
                    f"the source refuses (SQLSTATE {state}): {message}. User and password are "
                    f"those of {ENV_SOURCE_USER} and {ENV_SOURCE_PASSWORD}, the database that of "
                    "--source"
                )
    return None
