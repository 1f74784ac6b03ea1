"""A renamed column of which a hint under one of its names says what its values are.

What no event describes is read by it under all names. What events do describe is not, and two of
the hints leave a type that holds both as it is and change the values.
"""

from __future__ import annotations

from collections.abc import Iterable

from spark_jobs.planning.plan import TablePlan
from spark_jobs.planning.planned_column import PlannedColumn
from spark_jobs.planning.stored_types import changes_values, half_hinted


def _is_hinted(plan: TablePlan, column: PlannedColumn) -> bool:
    """Whether `columns:` has it."""
    return column.name.lower() in {name.lower() for name in plan.config.columns}


def _is_described(column: PlannedColumn) -> bool:
    """Whether the batch's events say its type."""
    return set(column.readings) != {None}


def refuse_half_hinted(
    plan: TablePlan, now: PlannedColumn, former: Iterable[PlannedColumn]
) -> None:
    """Raise PlanError where a hint changes a column's values, and its events under the other name
    would be read without it."""
    for one in former:
        for hinted, bare in ((now, one), (one, now)):
            if _changes_values(plan, hinted) and _is_described(bare) and not _is_hinted(plan, bare):
                raise half_hinted(plan.source.name, hinted.name, bare.name)


def _changes_values(plan: TablePlan, column: PlannedColumn) -> bool:
    """Whether its hint says more of a value than a type: of a sign, or of zeros at the end."""
    return _is_hinted(plan, column) and any(map(changes_values, column.readings.values()))
