"""A renamed column that has a hint under one of its names only.

Values that no event describes are read by the hint under all names; values that events describe are
not. This is refused if the hint changes values without changing the type.
"""

from __future__ import annotations

from collections.abc import Iterable

from spark_jobs.planning.plan import TablePlan
from spark_jobs.planning.planned_column import PlannedColumn
from spark_jobs.planning.stored_types import changes_values, partial_hint


def _is_hinted(plan: TablePlan, column: PlannedColumn) -> bool:
    """Whether `columns:` has a hint for the column."""
    return column.name.lower() in {name.lower() for name in plan.config.columns}


def _is_described(plan: TablePlan, column: PlannedColumn) -> bool:
    """Whether the batch's events describe the column's type."""
    return not plan.summary.types.keys().isdisjoint(column.readings)


def refuse_partial_hint(
    plan: TablePlan, now: PlannedColumn, former: Iterable[PlannedColumn]
) -> None:
    """Raise PlanError if a hint under one name changes values, and events describe the other name,
    so that they would be read without it."""
    for one in former:
        for hinted, unhinted in ((now, one), (one, now)):
            only_described = _is_described(plan, unhinted) and not _is_hinted(plan, unhinted)
            if only_described and _changes_values(plan, hinted):
                raise partial_hint(plan.source.name, hinted.name, unhinted.name)


def _changes_values(plan: TablePlan, column: PlannedColumn) -> bool:
    """Whether the column's hint changes values: their sign, or their trailing zeros."""
    return _is_hinted(plan, column) and any(map(changes_values, column.readings.values()))
