"""Names and texts from files, as SQL that contains them."""

from __future__ import annotations

from collections.abc import Iterable

from pyspark.sql import Column
from pyspark.sql import functions as F


def quoted(name: str) -> str:
    """Quote an identifier in backticks, so that text from files never becomes SQL."""
    return "`" + name.replace("`", "``") + "`"


def by_name(names: Iterable[str]) -> list[Column]:
    """Return columns by name, whatever characters the names have."""
    return [F.col(quoted(name)) for name in names]


def literal(text: str) -> str:
    """Return a text as a SQL literal."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
