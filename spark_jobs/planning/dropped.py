"""Columns that leave the target when the source drops them (`on_dropped_column: drop`).

Whether a column stands in the target follows from the set of events: it goes if the last statement
about its name, by position, is a DROP, and no change from above that has a value in it. A change
below a DROP has its values NOWHERE, whatever is known of a column that was added since. So a column
that stands again is NULL in all rows that were stored while it was gone.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from sluice.column_renames import Renames, nowhere_columns
from sluice.config.pipeline import TableConfig
from sluice.config.policies import DROP
from sluice.errors import Evidence, PlanError
from sluice.ledger.column_log import ColumnStatement
from spark_jobs.canonical import OP_DDL
from spark_jobs.quoting import quoted


def leaves_target(config: TableConfig) -> bool:
    """Whether dropped columns leave a table's target; `config`: from `table_config`.

    Of several `sources` each has columns of its own, so a DROP in one says nothing of the others.
    """
    return config.on_dropped_column == DROP and not config.sources


def may_go(
    statements: Iterable[ColumnStatement],
    config: TableConfig,
    columns: Iterable[str],
    aside: Collection[str],
) -> tuple[str, ...]:
    """Return those of a table's columns that go unless a change has a value in them.

    `aside`: see `dropped_since`.
    """
    if not leaves_target(config):
        return ()
    gone = _dropped_last(statements).union(aside)
    return tuple(name for name in columns if name.lower() in gone)


def _dropped_last(statements: Iterable[ColumnStatement]) -> frozenset[str]:
    """Return, in lower case, the names about which the last statement is a DROP.

    At one position the statement that gives a name comes last, as in `renames_from`.
    """
    last: dict[str, tuple[str, bool]] = {}
    for one in statements:
        for old, new in one.columns:
            name = (new or old or "").lower()
            last[name] = max(last.get(name, ("", False)), (one.position, new is not None))
    return frozenset(name for name, (_, stands) in last.items() if not stands)


def without_values(
    columns: Collection[str],
    changes: DataFrame,
    stored: DataFrame | None = None,
    aside: Collection[str] = (),
) -> tuple[str, ...]:
    """Return those of the columns that are NULL in all changes, read under current names.

    `stored`: the rows that stand for expired changes, None if there are none. The columns `aside`
    have values there, which are NOWHERE.
    """
    left = _all_null(changes, columns)
    if stored is None:
        return tuple(left)
    return tuple(_all_null(stored.drop(*(n for n in left if n.lower() in aside)), left))


def _all_null(rows: DataFrame, columns: Collection[str]) -> list[str]:
    there = [name for name in columns if name in rows.columns]
    values = [F.bool_or(F.col(quoted(name)).isNotNull()).alias(name) for name in there]
    found = rows.agg(*values).first() if values else None
    return [name for name in columns if name not in there or not (found and found[name])]


def refuse_fixed(table: str, renames: Renames, fixed: Collection[str]) -> None:
    """Raise PlanError if a dropped column identifies or partitions the target's rows (`fixed`)."""
    gone = nowhere_columns(renames)
    if found := sorted(name for name in fixed if name.lower() in gone):
        raise PlanError(
            f"table {table}: the source dropped columns {found}, and on_dropped_column is drop; "
            "the target's rows are identified or laid out by them, so they cannot go: set "
            "on_dropped_column: keep for the table",
            evidence=Evidence(found, op=OP_DDL),
        )
