"""Values of a live source and of a target in one spelling, so that equal values are equal texts.

The source's come as its server's text, the target's by their Iceberg type. A text that is no value
of the target's type stays as it is, and so differs from whatever the target holds.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.types import (
    BinaryType,
    BooleanType,
    DataType,
    DateType,
    DoubleType,
    FloatType,
    NumericType,
    StringType,
    TimestampNTZType,
    TimestampType,
)

from spark_jobs.postgres import ENUM, SourceColumn

Types = tuple[type[DataType], ...]

_FLOATS: Final = {"float4", "float8"}
_NUMBERS: Final = {"int2", "int4", "int8", "oid", "numeric", "money"}
_MOMENTS: Final = {"date", "timestamp", "timestamptz"}
_TEXTS: Final = {
    "text", "varchar", "bpchar", "char", "name", "citext", "uuid", "json", "jsonb", "xml", "inet",
    "cidr", "macaddr", "macaddr8", "time",
}  # fmt: skip
_FLOAT_TYPES: Final[Types] = (FloatType, DoubleType)
_PARSED: Final[Types] = (BooleanType, DateType, TimestampType, TimestampNTZType)
_HELD_AS: Final[tuple[tuple[set[str], Types], ...]] = (
    (_FLOATS, _FLOAT_TYPES),
    (_NUMBERS, (NumericType, StringType)),
    (_MOMENTS, _PARSED[1:]),
    (_TEXTS, (StringType,)),
    ({"bool"}, (BooleanType,)),
    ({"bytea"}, (BinaryType,)),
)


def comparable(column: SourceColumn, held: DataType) -> bool:
    """Whether a column has a common spelling with what a target of this type holds of it."""
    if column.sort == ENUM:
        return isinstance(held, StringType)
    return any(column.kind in kinds and isinstance(held, types) for kinds, types in _HELD_AS)


def spelled_source(text: Column, column: SourceColumn, held: DataType) -> Column:
    """The server's text of a column in the common spelling."""
    if isinstance(held, _FLOAT_TYPES):
        return F.coalesce(_float(text.try_cast(held)), text)
    if column.kind in _MOMENTS:
        text = _signed(text)
    if isinstance(held, _PARSED):
        return F.coalesce(text.try_cast(held).cast("string"), text)
    return _short(text) if _has_zeros(column) else text


def spelled_target(value: Column, column: SourceColumn, held: DataType) -> Column:
    """A target's value in the common spelling."""
    if isinstance(held, BinaryType):
        return F.lower(F.hex(value))
    if isinstance(held, _FLOAT_TYPES):
        return _float(value)
    text = value.cast("string")
    return _short(text) if _has_zeros(column) else text


def _has_zeros(column: SourceColumn) -> bool:
    """Whether 1.50 and 1.5 are one value."""
    return column.kind in _NUMBERS or column.kind == "time"


def _short(text: Column) -> Column:
    """Without zeros at the end of a fraction, and without the point where none is left."""
    return F.regexp_replace(F.regexp_replace(text, r"(\.\d*?)0+$", "$1"), r"\.$", "")


def _float(value: Column) -> Column:
    """-0.0 is 0.0, as in SQL."""
    return F.when(value == 0, F.lit("0.0")).otherwise(value.cast("string"))


def _signed(text: Column) -> Column:
    """A year `0044-… BC` as ISO's -0043: there is a year 0."""
    year = F.split_part(text, F.lit("-"), F.lit(1)).try_cast("int") - 1
    rest = F.regexp_replace(text, r"^\d+(-.*) BC$", "$1")
    signed = F.concat(
        F.when(year > 0, "-").otherwise(""), F.lpad(year.cast("string"), 4, "0"), rest
    )
    return F.when(text.endswith(" BC"), signed).otherwise(text)
