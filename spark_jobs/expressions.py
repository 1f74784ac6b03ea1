"""Expressions for any columns: texts replaced or cut, columns changed where a condition holds."""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import Column
from pyspark.sql import functions as F


def replaced(text: Column, texts: Mapping[str, str], otherwise: Column) -> Column:
    """Return the text that stands for this one in `texts`, or what `otherwise` is."""
    if not texts:
        return otherwise
    known = F.create_map(*(F.lit(part) for pair in texts.items() for part in pair))
    return F.coalesce(F.try_element_at(known, text), otherwise)


def cut(text: Column, characters: int) -> Column:
    """Return a text to be shown, with `…` for what it has beyond so many characters."""
    start = F.concat(F.substring(text, 1, characters), F.lit("…"))
    return F.when(F.length(text) > characters, start).otherwise(text)


def changed_where(condition: Column, values: Mapping[str, Column]) -> dict[str, Column]:
    """Return columns with other values where a condition holds, for `withColumns`."""
    return {name: F.when(condition, v).otherwise(F.col(name)) for name, v in values.items()}
