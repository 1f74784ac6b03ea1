"""The option `table`: the source table of records that name none, as Flink's sinks write them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from sluice.config.format_options import NAME


@dataclass(frozen=True)
class ToldTable:
    """A table's name in its parts; None for those that nobody told."""

    table: str | None = None
    schema: str | None = None
    database: str | None = None


NONE_TOLD: Final = ToldTable()


def in_database(name: str) -> ToldTable:
    """`database.table`, or the table alone: of sources whose tables have no schema."""
    database, _, table = name.rpartition(".")
    return ToldTable(table or None, database=database or None)


def in_schema(name: str) -> ToldTable:
    """`database.schema.table` or the end of it."""
    return ToldTable(*(part.strip('"') for part in reversed(re.findall(NAME, name))))
