"""Positions as expressions: the text of `sluice.positions`, made of a record's columns."""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column
from pyspark.sql import functions as F

from sluice.positions import KIND_ARRIVAL, KIND_AT, KIND_FULL_LOAD, KIND_SOURCE

_LENGTHS: Final = ",".join(f"{length:02}" for length in range(1, 100))


def number(text: Column) -> Column:
    """Return `sluice.positions.encode_number` as an expression; NULL if the text is
    not all digits."""
    # Patterns only: a failing cast creates an exception first, which costs far more.
    stripped = F.nullif(F.regexp_extract(text, r"^0*(0|[1-9]\d{0,98})$", 1), F.lit(""))
    # Two calls: inside a condition Spark computes a repeated subexpression each time.
    plain = text.rlike(r"^(0|[1-9]\d{0,98})\z")
    return F.when(plain, _with_length(text)).otherwise(_with_length(stripped))


def _with_length(digits: Column) -> Column:
    # A lookup of the two digits costs a third of formatting them.
    length = F.try_element_at(F.split(F.lit(_LENGTHS), F.lit(",")), F.length(digits))
    return F.concat(length, digits)


def hex_number(digits: Column) -> Column:
    """Convert up to 16 hexadecimal digits to decimal; NULL for other text (`conv` may fail)."""
    return F.when(digits.rlike("^[0-9a-fA-F]{1,16}$"), F.conv(digits, 16, 10))


def source_position(*components: Column) -> Column:
    """Return a position in the source's own order; NULL if a component is NULL."""
    return F.concat(F.lit(f"{KIND_SOURCE}."), _join(components))


def full_load_position(*components: Column) -> Column:
    """Return a full-load row's position, which is below every change whatever its components."""
    return F.concat(F.lit(f"{KIND_FULL_LOAD}."), _join(components))


def _join(components: tuple[Column, ...]) -> Column:
    parts: list[Column] = []
    for component in components:
        parts += [component, F.lit(".")]
    return F.concat(*parts[:-1])


def by_arrival(position: Column) -> Column:
    """Whether a position is an order of arrival, for records to which the source gave none."""
    return _kind(position) == KIND_ARRIVAL


def by_source(position: Column) -> Column:
    """Whether a position is the source's own order of changes, and not that of a full load."""
    return _kind(position) == KIND_SOURCE


def _kind(position: Column) -> Column:
    return F.substring(position, KIND_AT, 1)
