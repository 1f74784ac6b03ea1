"""Columns that DDL adds: rows from below the statement get the default that it states.

Unlike the events' descriptions (`spark_jobs/planning/defaults.py`), a statement gives the position
at which the column was added: a change below lacks it, even if it has another column of that name.
A table that is created again under the name of a dropped one has columns of its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from pyspark.sql import SparkSession

from sluice.column_renames import Renames, name_at
from sluice.config.pipeline import TableConfig
from sluice.ledger.column_log import ColumnStatement
from spark_jobs.driver_messages import emit
from spark_jobs.planning.defaults import NOTHING, Default, Defaults, StatedDefault


@dataclass(frozen=True)
class Addition:
    """A column that DDL added.

    `at`: the statement's position; `name`: the column's current name in the table; `stored`: its
    type in the table, "" if that was not recorded; `stated`: its name in the statement, or "";
    `dropped_at`: the position of the last DROP TABLE up to the statement, or ""; the others as in
    `sluice.ddl.defaults.AddedColumn`.
    """

    at: str
    name: str
    default: str | None = None
    verbatim: bool = True
    stored: str = ""
    of_session: bool = False
    stated: str = ""
    dropped_at: str = ""

    @property
    def to_fill(self) -> StatedDefault:
        """The default of rows from before the addition."""
        return StatedDefault(
            self.at, self.default, self.verbatim, self.stored, self.of_session, self.dropped_at
        )


Additions = tuple[Addition, ...]


def additions_of(
    statements: Iterable[ColumnStatement],
    config: TableConfig,
    types: Mapping[str, str],
    renames: Renames,
) -> Additions:
    """Return the columns that a table's statements added, in the source's order.

    `types`: the table's columns and their stored types. A table of several `sources` has none: each
    statement concerns the rows of one source, and rows do not show from which source they are.
    """
    if config.sources:
        return ()
    spelled = {name.lower(): name for name in types}
    statements, added = list(statements), set[Addition]()
    drops = [one.position for one in statements if one.drops_table]
    for one in statements:
        dropped_at = max((drop for drop in drops if drop <= one.position), default="")
        for column in one.added:
            now = spelled.get(name_at(renames, column.name, one.position).lower())
            if now is not None:
                default = (column.default, column.verbatim, types[now], column.of_session)
                added.add(Addition(one.position, now, *default, column.name, dropped_at))
    return tuple(sorted(added, key=_place))


def _place(one: Addition) -> tuple[str, str, bool, str, bool, bool, str]:
    default = (one.default is None, one.default or "", one.verbatim, one.of_session)
    return one.at, one.name, *default, one.stated


def with_stated_defaults(defaults: Defaults, additions: Additions) -> Defaults:
    """Combine defaults, by current names, with those of DDL; the first of several statements that
    add a column counts, for the rows of the table before a DROP and for those since."""
    firsts: dict[str, dict[str, Addition]] = {}
    for one in additions:
        firsts.setdefault(one.name, {}).setdefault(one.dropped_at, one)
    stated = {n: _of_tables(defaults.get(n, NOTHING), of.values()) for n, of in firsts.items()}
    return {**defaults, **stated}


def _of_tables(of_events: Default, firsts: Iterable[Addition]) -> Default:
    """Return the default of a column with, in order, its first additions to the tables that had the
    name one after the other.

    The events' default belongs to the table that was there when it was described.
    """
    parts, untold = [replace(of_events, text=None)], of_events
    for one in firsts:
        if untold.text is not None and untold.since < one.dropped_at:
            parts[-1] = replace(parts[-1], text=untold.text, kind=untold.kind)
            untold = replace(untold, text=None)
        parts.append(Default(of_events.firsts, stated=one.to_fill))
    last = replace(parts[-1], text=untold.text, kind=untold.kind)
    return replace(last, earlier=tuple(one for one in parts[:-1] if one.stated or one.limits))


def report_unreadable_defaults(
    spark: SparkSession,
    table: str,
    types: Mapping[str, str],
    of_events: Defaults,
    additions: Additions,
) -> None:
    """Report stored columns whose default in DDL cannot be read as the column's type."""
    known = with_stated_defaults(of_events, additions)
    held = [(name, part) for name, default in known.items() for part in default.parts]
    values = [part.value(types[name]).alias(name) for name, part in held]
    row = spark.range(1).select(*values).first() if values else None
    lost = [name for (name, _), value in zip(held, row or (), strict=False) if value is None]
    for name in dict.fromkeys(lost):
        emit(
            f"{table}: the default in DDL of column {name!r} cannot be read as "
            f"{types[name]}: rows from before the column are NULL there"
        )
