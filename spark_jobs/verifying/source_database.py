"""A database as a source to compare with: its tables, their columns and their rows as text.

Values come as the server's own text, so that nothing on the way there rounds, pads or zones them.
Each table is read by one statement over one connection: that is one state of it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import ClassVar, Final

from py4j.protocol import Py4JJavaError
from pyspark.sql import DataFrame, SparkSession

from sluice.config.live_source import ENV_PASSWORD, ENV_USER, credentials
from sluice.errors import TerminalError
from spark_jobs.failures import causes, is_java
from spark_jobs.kept import keep

_ROWS_AT_ONCE: Final = "10000"
# The first two characters of a SQLSTATE: who asks, which database, and rights and names in it.
_REFUSED: Final = ("28", "3D", "42")
# PostgreSQL's word for one who gives no password; elsewhere it may pass.
_REJECTED: Final = "08004"


class TextForm(StrEnum):
    """How a server writes the values of a type; those of no such kind are not compared."""

    NUMBER = "number"
    DOUBLE = "double"
    SINGLE = "single"
    """Of 32 bits: told in as many digits as it takes, compared as such."""
    BOOLEAN = "boolean"
    MOMENT = "moment"
    """Dates and timestamps."""
    CLOCK = "clock"
    """Times of day and spans of time."""
    TEXT = "text"
    JSON = "json"
    """Text whose blanks and order of names the server chose itself."""
    BYTES = "bytes"
    """In hex, lower case."""


@dataclass(frozen=True)
class SourceTable:
    """A table by the two names that it has in its database, and by its quoted name in SQL."""

    schema: str
    name: str
    sql: str

    @property
    def text(self) -> str:
        """Its dotted name."""
        return f"{self.schema}.{self.name}"

    def is_called(self, source: str) -> bool:
        """Whether an event may call it so; the database may have had another name then."""
        return source in (self.name, self.text) or source.endswith(f".{self.text}")


@dataclass(frozen=True)
class LiveColumn:
    """A column, its type's name, the form of its values' text, and SQL for it."""

    name: str
    kind: str
    form: TextForm | None
    sql: str


class SourceDatabase(ABC):
    """One database, or one server of several, read over JDBC; a dialect says in which words.

    `tables`: SQL for the schema and name of every table but the server's own.
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
        """A name as an identifier."""

    @abstractmethod
    def columns(self, table: SourceTable) -> list[LiveColumn]:
        """Its columns, by name."""

    def table(self, source: str) -> SourceTable | None:
        """The table that events call so; None where there is none.

        Raises TerminalError where several could be meant.
        """
        found = [table for table in self._tables if table.is_called(source)]
        if len(found) > 1:
            listed = ", ".join(table.text for table in found)
            raise TerminalError(f"the source has more than one table {source}: {listed}")
        return found[0] if found else None

    def rows(self, table: SourceTable, columns: Sequence[LiveColumn]) -> DataFrame:
        """All rows, every column as text under its own name; read once."""
        listed = ", ".join(f"{c.sql} AS c{at}" for at, c in enumerate(columns))
        rows = self.query(f"SELECT {listed} FROM {table.sql}")
        return keep(rows.toDF(*(c.name for c in columns)))

    def query(self, sql: str) -> DataFrame:
        """What a statement of the dialect gives; raises TerminalError where the database refuses
        who asks, or what is asked for."""
        try:
            return self._reader.option("query", sql).load()
        except Py4JJavaError as error:
            refused = refusal(error)
            if refused is None:
                raise
            raise refused from error


def refusal(error: Exception) -> TerminalError | None:
    """What a database said that refuses, in one line; None for what may pass."""
    for cause in causes(error):
        if is_java(cause, "java.sql.SQLException"):
            state = str(cause.getSQLState() or "")
            no_password = state == _REJECTED and "password" not in credentials()
            if no_password or state.startswith(_REFUSED):
                said = (str(cause.getMessage()).splitlines() or [""])[0]
                return TerminalError(
                    f"the source refuses (SQLSTATE {state}): {said}. User and password are those "
                    f"of {ENV_USER} and {ENV_PASSWORD}, and the database that of --source"
                )
    return None
