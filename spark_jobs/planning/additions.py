"""Columns that DDL adds: rows from below the statement hold the default that it tells.

Unlike what events tell (`spark_jobs/planning/defaults.py`), a statement says where the column came:
a change below it lacks the column, whatever another of that name held before.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from pyspark.sql import SparkSession

from sluice.column_renames import Renames, name_at
from sluice.config.project import TableConfig
from sluice.ledger.rename_log import ToldRename
from spark_jobs.planning.defaults import NOTHING, Default, Defaults, StatedDefault
from spark_jobs.telling import tell


@dataclass(frozen=True)
class Addition:
    """`at`: the statement's position; the rest as in `sluice.ddl.defaults.AddedColumn`, the name as
    the table has it now. `stored`: the column's type in the table, '' where it is not kept."""

    at: str
    name: str
    default: str | None = None
    verbatim: bool = True
    stored: str = ""


Additions = tuple[Addition, ...]


def additions_of(
    told: Iterable[ToldRename], config: TableConfig, types: Mapping[str, str], renames: Renames
) -> Additions:
    """Which of a table's columns, by their stored types, its statements added, in the order of the
    source.

    Of several sources each adds for its own rows alone, and nothing in those says whose they are.
    """
    if config.sources:
        return ()
    known = {name.lower(): name for name in types}
    found = set()
    for one in told:
        for column in one.added:
            now = known.get(name_at(renames, column.name, one.position).lower())
            if now is not None:
                default = (column.default, column.verbatim)
                found.add(Addition(one.position, now, *default, types[now]))
    return tuple(sorted(found, key=_place))


def _place(one: Addition) -> tuple[str, str, bool, str, bool]:
    return one.at, one.name, one.default is None, one.default or "", one.verbatim


def overlaid(defaults: Defaults, additions: Additions) -> Defaults:
    """Defaults by the names of now, with what DDL tells of them.

    Of several statements that add a column the first counts.
    """
    found = dict(defaults)
    for one in {one.name: one for one in reversed(additions)}.values():
        told = found.get(one.name, NOTHING)
        stated = StatedDefault(one.at, one.default, one.verbatim, one.stored)
        found[one.name] = Default(told.firsts, told.text, told.kind, stated)
    return found


def tell_unfit(
    spark: SparkSession, table: str, types: Mapping[str, str], told: Defaults, additions: Additions
) -> None:
    """Say of which stored columns, by their types, nobody tells a default that DDL gives them."""
    held = {n: d for n, d in overlaid(told, additions).items() if d.limits}
    values = [default.value(types[name]).alias(name) for name, default in held.items()]
    row = spark.range(1).select(*values).first() if values else None
    for name in (name for name in held if row is not None and row[name] is None):
        tell(
            f"{table}: what DDL tells as the default of column {name!r} cannot be read as "
            f"{types[name]}: rows from before the column are NULL there"
        )
