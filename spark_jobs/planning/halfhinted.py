"""A renamed column of which a hint under one of its names says what its values are.

Most hints cannot be forgotten under the other name: its type is another then, and the batch stops.
Two of them leave the type as it is and change the values.
"""

from __future__ import annotations

from collections.abc import Iterable

from sluice.coltypes import UNSIGNED
from sluice.errors import PlanError
from spark_jobs.planning.plan import TablePlan
from spark_jobs.planning.plannedcolumn import PlannedColumn


def is_hinted(plan: TablePlan, column: PlannedColumn) -> bool:
    """Whether `columns:` has it."""
    return column.name.lower() in {name.lower() for name in plan.config.columns}


def is_described(column: PlannedColumn) -> bool:
    """Whether the batch's events say its type."""
    return set(column.readings) != {None}


def refuse_half_hinted(
    plan: TablePlan, now: PlannedColumn, former: Iterable[PlannedColumn]
) -> None:
    """Raise PlanError where a hint changes a column's values, and its events under the other name
    would be read without it."""
    for one in former:
        for hinted, bare in ((now, one), (one, now)):
            if _changes_values(plan, hinted) and is_described(bare) and not is_hinted(plan, bare):
                raise PlanError(
                    f"table {plan.source.name}: column {now.name!r} was called {one.name!r} "
                    f"before, and the hint of {hinted.name!r} changes its values; hint "
                    f"{bare.name!r} too in `columns:`, or, where its values are right as they "
                    "come, with the type that its events tell"
                )


def _changes_values(plan: TablePlan, column: PlannedColumn) -> bool:
    """Whether its hint says more of a value than a type: of a sign, or of zeros at the end."""
    kinds = column.readings.values()
    return is_hinted(plan, column) and any(k.encoding == UNSIGNED or k.width for k in kinds)
