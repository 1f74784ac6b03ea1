"""The option `table`: the source table of records that name none, as Flink's sinks write them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from sluice.errors import PlanError
from spark_jobs.formats.envelope import NAME, TABLE_NAME

_OPTION: Final = "table"


@dataclass(frozen=True)
class ToldTable:
    """A table's name in its parts; None for those that nobody told."""

    table: str | None = None
    schema: str | None = None
    database: str | None = None


NONE_TOLD: Final = ToldTable()


def in_database(options: Mapping[str, Any]) -> ToldTable:
    """`database.table`, or the table alone: of sources whose tables have no schema."""
    database, _, table = str(options.get(_OPTION, "")).rpartition(".")
    return ToldTable(table or None, database=database or None)


def in_schema(options: Mapping[str, Any]) -> ToldTable:
    """`database.schema.table` or the end of it; raises PlanError for what is no such name."""
    name = dotted(options)
    names = re.findall(NAME, name or "")
    return ToldTable(*(part.strip('"') for part in reversed(names)))


def dotted(options: Mapping[str, Any]) -> str | None:
    """The same in one text, with its quotes."""
    name = str(options.get(_OPTION, ""))
    if name and not re.fullmatch(TABLE_NAME, name):
        raise PlanError(
            f"format_options.table: {name!r} is no name; expected `table`, `schema.table` or "
            '`database.schema.table`, a part with a dot in it as `"a.b"`'
        )
    return name or None
