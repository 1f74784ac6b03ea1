"""What a wire format is to the rest of Sluice."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar, Final

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from sluice.ddl.defaults import ENUM, SET
from sluice.manifest import SourceFile
from sluice.types.columns import ColumnType

COUNTS: Final = frozenset({"int", "bigint", "float", "double", "boolean"})
"""Types whose values every format writes in one way."""
NUMBERS: Final = COUNTS | {"decimal"}
"""The same of formats that write no decimals as bytes."""
NUMBERS_AND_TIMES: Final = NUMBERS | {"date", "timestamp", "timestamp_ntz"}
"""The same of formats that write dates and times as ISO text."""


@dataclass(frozen=True)
class SourceColumn:
    """One column as the events describe it.

    `default` is the text that rows without the column hold (ADD COLUMN … DEFAULT), as the
    images would carry it. `typed`: the file has values of the type, and their text is a reader's.
    """

    name: str
    type: ColumnType
    default: str | None = None
    typed: bool = False


@dataclass(frozen=True)
class Known:
    """What the pipeline's earlier batches tell; a decoder may use it to do less.

    `old_columns`: of `before` nobody needs more than these. `partial` False: every image had all
    its values so far; then `absent` need not name them, but only be no NULL where some are.
    `transactions`: the envelope has to have its columns `transaction` and `ends`.
    """

    old_columns: frozenset[str] | None = None
    partial: bool = True
    transactions: bool = False

    @property
    def nothing(self) -> bool:
        """Whether no earlier batch tells anything."""
        return self.old_columns is None and self.partial


NOTHING_KNOWN: Final = Known()


class Format(ABC):
    """A decoder. One file a format, registered in `FORMATS`."""

    name: ClassVar[str]
    tells_defaults: ClassVar[bool] = False
    """Whether the descriptions of columns name the default that one was added with."""

    untold_truncates: ClassVar[str] = ""
    """Pattern of DDL that is a TRUNCATE, whose table nobody can tell, or of a part of its table;
    '' where all are told."""

    states_other_tables: ClassVar[bool] = False
    """Whether statements come of tables whose rows do not, so that a TRUNCATE that comes first of
    its table stops no batch."""

    drops_to_load: ClassVar[bool] = False
    """Whether a DROP TABLE may be what a full load begins with, whose rows are below it."""

    whole_rows: ClassVar[bool] = False
    """Whether a row has all columns of its table, so that one which it does not name is NULL."""

    plain: ClassVar[frozenset[str]] = NUMBERS
    """Types whose values are plain texts in records that describe none; a column that only a script
    of DDL says is of another stays text."""

    labels: ClassVar[frozenset[str]] = frozenset({ENUM, SET})
    """Of MySQL's types those whose labels the events have as MySQL writes them, not as a number or
    as a list; where the source is MySQL also `CHAR`, which it fills up with no blanks, `BIT`, which
    is a number there, and `TIMESTAMP`, which is an instant."""

    ignorable: ClassVar[str] = ""
    """Pattern of records that decode to nothing and are no mistake; '' where there are none."""

    seeming: ClassVar[frozenset[str]] = frozenset()
    """Reasons why records are ignored that may hold more than the reader looks at."""

    @abstractmethod
    def read(
        self,
        spark: SparkSession,
        files: tuple[SourceFile, ...],
        options: Any,
        known: Known = NOTHING_KNOWN,
    ) -> DataFrame:
        """Decode files into the columns of `canonical.ENVELOPE`, lazily, one row a record.

        `options`: the format's own, as `sluice.config.formats.WIRE_FORMATS` has them.
        """

    def columns(self, types: str, options: Any) -> list[SourceColumn]:
        """Read one distinct value of the envelope's `types`; [] where it says nothing.

        A column that nothing describes is text until a hint says more.
        """
        return []

    def is_event(self, line: Column) -> Column:
        """Whether a line is by its text none of `seeming`; cheap, and in doubt it is false."""
        return F.lit(False)

    def holds_more(self, line: Column) -> Column:
        """Whether a line of one of `seeming` has more in it than such a record has."""
        return F.lit(False)
