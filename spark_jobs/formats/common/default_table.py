"""The option `table`: the source table of records that name none, as Flink's sinks write them."""

from __future__ import annotations

import re
from dataclasses import dataclass

from sluice.config.format_options import NAME


@dataclass(frozen=True)
class DefaultTable:
    """A table's name in its parts; None for a part that the option does not give."""

    table: str | None = None
    schema: str | None = None
    database: str | None = None


def in_database(name: str) -> DefaultTable:
    """Read `database.table` or `table`, for sources whose tables have no schema."""
    database, _, table = name.rpartition(".")
    return DefaultTable(table or None, database=database or None)


def in_schema(name: str) -> DefaultTable:
    """Read `database.schema.table` or the end of it."""
    return DefaultTable(*(part.strip('"') for part in reversed(re.findall(NAME, name))))
