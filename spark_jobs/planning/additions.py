"""Columns that DDL adds: rows from below the statement get the default that it states.

Unlike the events' descriptions (`spark_jobs/planning/defaults.py`), a statement gives the position
at which the column was added: a change below lacks it, even if it has another column of that name.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

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
    the others as in `sluice.ddl.defaults.AddedColumn`.
    """

    at: str
    name: str
    default: str | None = None
    verbatim: bool = True
    stored: str = ""
    of_session: bool = False
    stated: str = ""


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
    added = set()
    for one in statements:
        for column in one.added:
            now = spelled.get(name_at(renames, column.name, one.position).lower())
            if now is not None:
                default = (column.default, column.verbatim, types[now], column.of_session)
                added.add(Addition(one.position, now, *default, column.name))
    return tuple(sorted(added, key=_place))


def _place(one: Addition) -> tuple[str, str, bool, str, bool, bool, str]:
    default = (one.default is None, one.default or "", one.verbatim, one.of_session)
    return one.at, one.name, *default, one.stated


def with_stated_defaults(defaults: Defaults, additions: Additions) -> Defaults:
    """Combine defaults, by current names, with those of DDL; the first of several statements that
    add a column counts."""
    combined = dict(defaults)
    for one in {one.name: one for one in reversed(additions)}.values():
        of_events = combined.get(one.name, NOTHING)
        stated = StatedDefault(one.at, one.default, one.verbatim, one.stored, one.of_session)
        combined[one.name] = Default(of_events.firsts, of_events.text, of_events.kind, stated)
    return combined


def report_unreadable_defaults(
    spark: SparkSession,
    table: str,
    types: Mapping[str, str],
    of_events: Defaults,
    additions: Additions,
) -> None:
    """Report stored columns whose default in DDL cannot be read as the column's type."""
    held = {n: d for n, d in with_stated_defaults(of_events, additions).items() if d.limits}
    values = [default.value(types[name]).alias(name) for name, default in held.items()]
    row = spark.range(1).select(*values).first() if values else None
    for name in (name for name in held if row is not None and row[name] is None):
        emit(
            f"{table}: the default in DDL of column {name!r} cannot be read as "
            f"{types[name]}: rows from before the column are NULL there"
        )
