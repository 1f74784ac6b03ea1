"""Convert binary numbers (two's complement bytes of any length) to exact decimal text."""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column
from pyspark.sql import functions as F

from spark_jobs.evaluated_once import bound

MOST_BYTES: Final = 4096
MOST_SCALE: Final = 20_000
"""Above PostgreSQL's 16,383 digits after the point."""
_CHUNK: Final = 1 << 32
_LIMB: Final = 1_000_000_000


def decimal_text(raw: Column, scale: Column) -> Column:
    """Return two's complement bytes with a scale as decimal text; fast up to 16 bytes.

    NULL for no bytes, and for a scale beyond MOST_SCALE, whose text would be as long.
    """
    whole = F.coalesce(unscaled_text(raw), whole_number(raw))
    shown = bound(whole, lambda digits: shift_point(digits, scale))
    return F.when(scale.between(-MOST_SCALE, MOST_SCALE), shown)


def unscaled_text(raw: Column) -> Column:
    """Return a big-endian two's complement integer of up to 16 bytes as text (Connect Decimal).

    A negative number is the complement of its bytes plus one, so no step exceeds the result.
    """
    padded = bound(F.hex(raw), lambda digits: _padded(digits, 32 - F.length(digits)))
    return F.when(F.length(raw).between(1, 16), bound(padded, _text_of_16_bytes))


def _text_of_16_bytes(digits: Column) -> Column:
    negative = _is_negative(digits)
    total = F.lit(0).cast("decimal(38,0)")
    for at in (1, 9, 17, 25):
        chunk = F.conv(F.substring(digits, at, 8), 16, 10).cast("bigint")
        size = F.when(negative, F.lit(_CHUNK - 1) - chunk).otherwise(chunk)
        total = _add(F.try_multiply(total, F.lit(_CHUNK).cast("decimal(10,0)")), size)
    total = _add(total, F.when(negative, F.lit(1)).otherwise(F.lit(0)))
    sign = F.when(negative, F.lit("-")).otherwise(F.lit(""))
    return F.concat(sign, total.cast("string"))


def _add(total: Column, chunk: Column) -> Column:
    wide = "decimal(38,0)"
    return F.try_add(total.try_cast(wide), chunk.cast(wide)).try_cast(wide)


def whole_number(raw: Column) -> Column:
    """Return a big-endian two's complement integer of any size as text, without a decimal type.

    Long multiplication on limbs of nine digits, four bytes a step; a negative number is the
    complement of its bytes plus one. NULL beyond MOST_BYTES: the work grows with the square.
    """
    padded = bound(F.hex(raw), lambda digits: _padded(digits, (8 - F.length(digits) % 8) % 8))
    return F.when(F.length(raw).between(1, MOST_BYTES), bound(padded, _decimal_digits))


def _padded(digits: Column, places: Column) -> Column:
    """Return hexadecimal digits with so many more at the left, of the same sign."""
    fill = F.when(_is_negative(digits), F.lit("F")).otherwise(F.lit("0"))
    return F.concat(F.repeat(fill, places), digits)


def _is_negative(digits: Column) -> Column:
    return F.substring(digits, 1, 1) >= "8"


def _decimal_digits(padded: Column) -> Column:
    negative = _is_negative(padded)
    words = F.transform(
        F.sequence(F.lit(1), F.length(padded), F.lit(8)),
        lambda at: F.conv(F.substr(padded, at, F.lit(8)), 16, 10).cast("bigint"),
    )
    size = F.transform(words, lambda w: F.when(negative, (2**32 - 1) - w).otherwise(w))
    limbs = F.aggregate(size, _limbs_for(padded), lambda acc, word: _times(acc, 2**32, word))
    limbs = _times(limbs, 1, F.when(negative, F.lit(1)).otherwise(F.lit(0)).cast("bigint"))
    sign = F.when(negative, F.lit("-")).otherwise(F.lit(""))
    return F.concat(sign, _join_limbs(limbs))


def _limbs_for(padded: Column) -> Column:
    """Return zero in as many limbs as the bytes can need: a hex digit is 1.21 decimal digits."""
    return F.array_repeat(F.lit(0).cast("bigint"), (F.length(padded) / 7 + 1).cast("int"))


def _times(limbs: Column, factor: int, addend: Column) -> Column:
    """Return `limbs * factor + addend`, lowest limb first."""
    none = F.array().cast("array<bigint>")
    start = F.struct(none.alias("done"), addend.alias("carry"))

    def step(state: Column, limb: Column) -> Column:
        value = limb * F.lit(factor) + state["carry"]
        return F.struct(
            F.concat(state["done"], F.array(value % _LIMB)).alias("done"),
            F.call_function("div", value, F.lit(_LIMB).cast("bigint")).alias("carry"),
        )

    return F.aggregate(limbs, start, step)["done"]


def _join_limbs(limbs: Column) -> Column:
    shown = F.transform(F.reverse(limbs), lambda limb: F.lpad(limb.cast("string"), 9, "0"))
    digits = F.ltrim(F.array_join(shown, ""), F.lit("0"))
    return F.coalesce(F.nullif(digits, F.lit("")), F.lit("0"))


def shift_point(unscaled: Column, scale: Column) -> Column:
    """Return digits as text with a decimal point `scale` places from the right."""
    sign = F.when(unscaled.startswith("-"), F.lit("-")).otherwise(F.lit(""))
    digits = F.ltrim(unscaled, F.lit("-"))
    padded = F.when(F.length(digits) > scale, digits).otherwise(
        F.lpad(digits, scale + 1, F.lit("0"))
    )
    whole = F.substring(padded, F.lit(1), F.length(padded) - scale)
    fraction = F.substring(padded, F.length(padded) - scale + 1, scale)
    return F.when(scale <= 0, F.concat(sign, digits, F.repeat(F.lit("0"), -scale))).otherwise(
        F.concat(sign, whole, F.lit("."), fraction)
    )
