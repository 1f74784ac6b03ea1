"""Values of a live source and of a target in one spelling, so that equal values are equal texts.

The source's values come as the server's text, the target's by Iceberg type. A text that is no value
of the target's type stays as it is, and so differs from whatever the target holds. Only a zero date
becomes NULL, as connectors make it.
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

from spark_jobs.verifying.source_database import LiveColumn, TextForm

Types = tuple[type[DataType], ...]

_MOMENTS: Final[Types] = (DateType, TimestampType, TimestampNTZType)
_FLOATS: Final[Types] = (FloatType, DoubleType)
_HELD_AS: Final[dict[TextForm, Types]] = {
    TextForm.NUMBER: (NumericType, StringType, BooleanType),
    TextForm.DOUBLE: _FLOATS,
    TextForm.SINGLE: _FLOATS,
    TextForm.BOOLEAN: (BooleanType,),
    TextForm.MOMENT: _MOMENTS,
    TextForm.CLOCK: (StringType,),
    TextForm.TEXT: (StringType,),
    TextForm.JSON: (StringType,),
    TextForm.BYTES: (BinaryType,),
}
_ZERO_DATE: Final = r"^\d{4}-(00-|\d{2}-00)"


def comparable(column: LiveColumn, held: DataType) -> bool:
    """Whether a source column and a target column of type `held` have a common spelling."""
    return column.form is not None and isinstance(held, _HELD_AS[column.form])


def spelled_source(text: Column, column: LiveColumn, held: DataType) -> Column:
    """Return the server's text of a column in the common spelling."""
    if column.form == TextForm.MOMENT:
        text = F.when(~text.rlike(_ZERO_DATE), _signed(text))
    if isinstance(held, (*_MOMENTS, BooleanType)):
        return F.coalesce(text.try_cast(held).cast("string"), text)
    if isinstance(held, _FLOATS):
        return F.coalesce(_float(text.try_cast(held), column), text)
    return _spelled(text, column)


def spelled_target(value: Column, column: LiveColumn, held: DataType) -> Column:
    """Return a target's value in the common spelling."""
    if isinstance(held, BinaryType):
        return F.lower(F.hex(value))
    if isinstance(held, _FLOATS):
        return _float(value, column)
    return _spelled(value.cast("string"), column)


def _spelled(text: Column, column: LiveColumn) -> Column:
    """1.50 and 1.5 are equal, and so are documents that differ only by blanks and order, and a time
    with the `Z` of Debezium's IsoTime."""
    if column.form == TextForm.NUMBER:
        return _short(text)
    if column.form == TextForm.CLOCK:
        return _short(F.rtrim(text, F.lit("Z")))
    if column.form == TextForm.JSON:
        return F.coalesce(F.to_json(F.try_parse_json(text)), text)
    return text


def _short(text: Column) -> Column:
    """Strip the zeros at the end of a fraction, and the point where no digit is left."""
    return F.regexp_replace(F.regexp_replace(text, r"(\.(?:\d*[1-9])?+)0++$", "$1"), r"\.$", "")


def _float(value: Column, column: LiveColumn) -> Column:
    """-0.0 and 0.0 are equal, as in SQL."""
    if column.form == TextForm.SINGLE:
        value = value.cast("float")
    return F.when(value == 0, F.lit("0.0")).otherwise(value.cast("string"))


def _signed(text: Column) -> Column:
    """Return the year `0044-… BC` as -0043: ISO 8601 has a year 0."""
    year = F.split_part(text, F.lit("-"), F.lit(1)).try_cast("int") - 1
    rest = F.regexp_replace(text, r"^\d+(-.*) BC$", "$1")
    signed = F.concat(
        F.when(year > 0, "-").otherwise(""), F.lpad(year.cast("string"), 4, "0"), rest
    )
    return F.when(text.endswith(" BC"), signed).otherwise(text)
