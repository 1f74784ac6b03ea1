"""The interface between a wire format and the rest of Sluice."""

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
"""Types whose values all formats write alike."""
NUMBERS: Final = COUNTS | {"decimal"}
"""Types of plain values in formats that never write a decimal as bytes."""
NUMBERS_AND_TIMES: Final = NUMBERS | {"date", "timestamp", "timestamp_ntz"}
"""Types of plain values in formats that also write dates and times as ISO text."""


@dataclass(frozen=True)
class SourceColumn:
    """One column as the events describe it.

    `default`: the value of rows that lack the column (ADD COLUMN … DEFAULT), spelled as in images.
    `typed`: the file holds typed values, and the reader made their text.
    """

    name: str
    type: ColumnType
    default: str | None = None
    typed: bool = False


@dataclass(frozen=True)
class PriorFacts:
    """Facts from the pipeline's earlier batches, with which a decoder has less to do.

    `old_columns`: the only columns of `before` that are needed; None for all. `partial`: False if
    all images so far had all values; then `absent` need not name columns, and only be not NULL if
    some are absent. `transactions`: the envelope needs its columns `transaction` and `ends`.
    """

    old_columns: frozenset[str] | None = None
    partial: bool = True
    transactions: bool = False

    @property
    def nothing(self) -> bool:
        """Whether there are no facts from earlier batches."""
        return self.old_columns is None and self.partial


NO_PRIOR_FACTS: Final = PriorFacts()


class Format(ABC):
    """A decoder: one file or folder for each format, registered in `FORMATS`."""

    name: ClassVar[str]
    describes_defaults: ClassVar[bool] = False
    """Whether descriptions of columns include their defaults."""

    unclear_truncates: ClassVar[str] = ""
    """Pattern of DDL statements that are a TRUNCATE of an unknown table or of a part of a table; ''
    where there are none."""

    states_other_tables: ClassVar[bool] = False
    """Whether DDL may be of tables that are not captured, so that a TRUNCATE of an unknown table
    must not stop a batch."""

    drops_to_load: ClassVar[bool] = False
    """Whether a full load may begin with a DROP TABLE, and its rows rank below that."""

    whole_rows: ClassVar[bool] = False
    """Whether rows have all columns of their table, so that a missing one is NULL."""

    plain: ClassVar[frozenset[str]] = NUMBERS
    """Types that records without descriptions write as plain text; a column to which only a DDL
    script gives another type stays text."""

    bytes_as: ClassVar[str] = ""
    """The encoding of bytes in records without descriptions; '' if the format has several."""

    labels: ClassVar[frozenset[str]] = frozenset({ENUM, SET})
    """MySQL types whose values events write as MySQL does: ENUM and SET as their labels, CHAR
    without padding, BIT as a number, TIMESTAMP as an instant."""

    ignorable: ClassVar[str] = ""
    """Pattern of records that decode to nothing without being an error; '' where there are none."""

    seeming: ClassVar[frozenset[str]] = frozenset()
    """Reasons to ignore a record that may hold more than the reader looks at."""

    @abstractmethod
    def read(
        self,
        spark: SparkSession,
        files: tuple[SourceFile, ...],
        options: Any,
        facts: PriorFacts = NO_PRIOR_FACTS,
    ) -> DataFrame:
        """Decode files into the columns of `canonical.ENVELOPE`, lazily, one row a record,
        or one for each row of a record that has several.

        `options`: the format's own, as `sluice.config.formats.WIRE_FORMATS` has them.
        """

    def columns(self, types: str, options: Any) -> list[SourceColumn]:
        """Read one distinct value of the envelope's `types`; [] if it describes no columns.

        A column without a description is text until it has a hint.
        """
        return []

    def is_event(self, line: Column) -> Column:
        """Whether a line's text shows that the record is none of `seeming`; cheap,
        false in doubt."""
        return F.lit(False)

    def holds_more(self, line: Column) -> Column:
        """Whether a line that looks like one of `seeming` has fields that such a record lacks."""
        return F.lit(False)
