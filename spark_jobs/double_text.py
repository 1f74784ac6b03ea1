"""Distinguish a double's own spelling from a decimal with more digits than a double holds."""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column
from pyspark.sql import functions as F

_PLACES: Final = 18
_BELOW_LONG: Final = 2.0**63 - 1024  # the greatest double below
_EXPONENT: Final = r"[eE]([+-]?\d+)$"


def is_rounded_double(text: Column, value: Column) -> Column:
    """Whether a text is its double rounded to the text's last digit, as C and others write it.

    The double is taken exactly: from 1 on it is a whole number of 2^-52. False below 1, from 2^63
    on, and for more than 18 decimal places.
    """
    size, places = F.abs(value), _places(text)
    known = size.between(1.0, _BELOW_LONG) & (places <= _PLACES)
    return F.coalesce(F.when(known, _is_within(text, size, places)), F.lit(False))


def _places(text: Column) -> Column:
    """Return the number of decimal places of a text's last digit; an exponent moves the point."""
    fraction = F.length(F.regexp_extract(text, r"\.(\d*)", 1))
    exponent = F.regexp_extract(text, _EXPONENT, 1).try_cast("int")
    return fraction - F.coalesce(exponent, F.lit(0))


def _is_within(text: Column, size: Column, places: Column) -> Column:
    """Whether text and double differ by at most half a unit of the text's last digit.

    Both count from the double's whole number, in units of 2^-52; no step exceeds 38 digits.
    """
    whole = F.floor(size)
    units, half = (F.lit(2**power).cast("decimal(16,0)") for power in (52, 51))
    parts = ((size - whole) * F.lit(2.0**52)).cast("bigint").cast("decimal(19,0)")
    beyond = F.abs(text.try_cast("decimal(37,18)")) - whole.cast("decimal(19,0)")
    distance = (beyond.try_cast("decimal(21,18)") * units).try_cast("decimal(37,18)") - parts
    last = F.concat(F.lit("1e"), -places).try_cast("decimal(21,18)")
    return F.abs(distance) <= last * half
