"""What a batch was decoded by, and something else has changed before it took the lease.

Decoding needs no lease. What these refuse is right again when the batch is decoded anew.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from sluice.column_renames import Rename
from sluice.errors import TransientError
from sluice.source_names import is_reserved
from sluice.types.columns import parse_type, widest, widest_or_text
from spark_jobs.planning import defaults
from spark_jobs.planning.plan import TablePlan
from spark_jobs.planning.span import Span
from spark_jobs.planning.told import Told


def refuse_forgotten(plan: TablePlan, batch_id: str, span: Span, before: Told) -> None:
    """Raise TransientError where decode went by defaults that a rollback has taken back since."""
    recalled = not any(default.firsts for default in plan.defaults.values())
    if recalled and not defaults.covers(
        before.defaults, plan.defaults, span.lowest, span.highest, plan.described
    ):
        raise TransientError(_overtaken(plan, batch_id, "a batch was rolled back"))


def refuse_other_types(plan: TablePlan, batch_id: str, stored: Mapping[str, str]) -> None:
    """Raise TransientError where a stored column does not hold the planned type any more: Spark
    would round what it writes there."""
    there = ((parse_type(stored[c.name]), c.stored) for c in plan.columns if c.name in stored)
    if any(widest(known, planned) != known for known, planned in there):
        raise TransientError(_overtaken(plan, batch_id, "a column got another type"))


def refuse_narrowing(table: str, column: str, stored: str, planned: str) -> None:
    """Raise TransientError where a column got a type since the plan that the planned one does not
    hold: written in that, its values would be rounded."""
    if widest_or_text(parse_type(stored), parse_type(planned)) != parse_type(planned):
        raise TransientError(
            f"{table}: column {column!r} is {stored} meanwhile, not what holds it in the plan, "
            f"{planned}; run again"
        )


def refuse_other_columns(plan: TablePlan, batch_id: str, stored: Iterable[str]) -> None:
    """Raise TransientError where the target has a column that the plan lacks: by a default told of
    it the batch's rows may not be NULL there."""
    planned = set(plan.data)
    if any(name not in planned and not is_reserved(name) for name in stored):
        raise TransientError(_overtaken(plan, batch_id, "a column was added"))


def refuse_other_names(
    plan: TablePlan,
    batch_id: str,
    before: Collection[Rename],
    known: Collection[Rename],
    told: Collection[Rename],
) -> None:
    """Raise TransientError where stored rows have names that the plan has no columns for, or where
    DDL has `told` a rename that the plan does not know, to a name that none of its columns has.

    A plan without records of a batch (a rebuild's) is by the tables' columns, and knows none.
    """
    unplanned = plan.follows and set(told).difference(known, plan.renames)
    if (unplanned and plan.found.records) or not set(before) <= set(known):
        raise TransientError(_overtaken(plan, batch_id, "columns were renamed"))


def _overtaken(plan: TablePlan, batch_id: str, what: str) -> str:
    return f"{plan.name}: {what} while {batch_id} was decoded; run again"
