"""Refusals of a batch whose plan became outdated between decoding, which needs no lease, and the
lease.

All of these errors are transient: the next try decodes the batch again.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from sluice.column_renames import Rename, in_order
from sluice.errors import TransientError
from sluice.source_names import is_reserved
from sluice.types.columns import parse_type, widest, widest_or_text
from spark_jobs.planning import defaults
from spark_jobs.planning.column_history import ColumnHistory
from spark_jobs.planning.plan import TablePlan
from spark_jobs.planning.span import Span
from spark_jobs.planning.table_columns import NewColumn
from spark_jobs.planning.type_changes import TypeChange


def refuse_reverted_defaults(
    plan: TablePlan, batch_id: str, span: Span, before: ColumnHistory
) -> None:
    """Raise TransientError if the batch was decoded with defaults that a rollback has
    since removed."""
    recalled = not any(default.firsts for default in plan.defaults.values())
    if recalled and not defaults.covers(before.defaults, plan.defaults, span, plan.described):
        raise TransientError(_stale(plan, batch_id, "a batch was rolled back"))


def refuse_other_types(plan: TablePlan, batch_id: str, stored: Mapping[str, str]) -> None:
    """Raise TransientError if a stored column no longer has the planned type: Spark would
    round values."""
    there = ((parse_type(stored[c.name]), c.stored) for c in plan.columns if c.name in stored)
    if any(widest(known, planned) != known for known, planned in there):
        raise TransientError(_stale(plan, batch_id, "a column got another type"))


def refuse_missing_columns(
    plan: TablePlan, batch_id: str, wanted: Iterable[NewColumn], stored: Collection[str]
) -> None:
    """Raise TransientError if a table no longer has a column that it had, or got, for the plan: a
    rollback restores the schema from before its batch, and a batch may drop columns."""
    if any(column.name not in stored for column in wanted):
        raise TransientError(_stale(plan, batch_id, "a batch was rolled back or dropped a column"))


def refuse_narrowing(table: str, change: TypeChange) -> None:
    """Raise TransientError if a column got, after the plan, a type whose values the planned one
    cannot hold: they would be rounded."""
    stored, planned = parse_type(change.before), parse_type(change.after)
    if widest_or_text(stored, planned) != planned:
        raise TransientError(
            f"{table}: column {change.column!r} is {change.before} meanwhile, not what holds it in "
            f"the plan, {change.after}; run again"
        )


def refuse_other_columns(plan: TablePlan, batch_id: str, stored: Iterable[str]) -> None:
    """Raise TransientError if the target has a column that the plan lacks: the batch's rows may
    need a default there."""
    planned = set(plan.data)
    if any(name not in planned and not is_reserved(name) for name in stored):
        raise TransientError(_stale(plan, batch_id, "a column was added"))


def refuse_other_names(
    plan: TablePlan,
    batch_id: str,
    before: Collection[Rename],
    known: Collection[Rename],
    stated: Collection[Rename],
) -> None:
    """Raise TransientError if columns were renamed since the plan was made.

    Either stored rows have names for which the plan has no columns, or a `stated` rename leads to a
    name that no planned column has. A plan without records (a rebuild's) is made from the tables'
    columns, and has no renames.
    """
    planned = in_order(known, plan.renames)
    unplanned = plan.follows and in_order(planned, stated) != planned
    if (unplanned and plan.summary.records) or in_order(before, known) != in_order(known):
        raise TransientError(_stale(plan, batch_id, "columns were renamed"))


def _stale(plan: TablePlan, batch_id: str, what: str) -> str:
    return f"{plan.name}: {what} while {batch_id} was decoded; run again"
