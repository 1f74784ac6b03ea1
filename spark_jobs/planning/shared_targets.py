"""Refuse two source tables with one target: a target has the rows of one."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from sluice.config.formats import options_model
from sluice.errors import PlanError
from sluice.names import events_table, full_name, history_table
from spark_jobs.planning.plan import TablePlan
from spark_jobs.planning.table_summary import Source

_DATABASE: Final = "database"
_AROUND: Final = (_DATABASE, "schema")
_NEITHER: Final = (
    "no `table_name` tells them apart: list one alone in `tables:`, or load the other by a "
    "pipeline with another `namespace`"
)
_APART: Final = "tell them apart in `table_name`, for example {}"


def refuse_shared_targets(plans: Iterable[TablePlan], format_name: str) -> None:
    """Raise PlanError if two source tables have one target, where each would overwrite the
    other's rows."""
    owners: dict[str, TablePlan] = {}
    for plan in plans:
        for name in _written(plan):
            other = owners.setdefault(name.lower(), plan)
            if other is not plan:
                raise PlanError(
                    f"tables {other.source.name} and {plan.source.name} both go to "
                    f"{full_name(plan.namespace, name)}: "
                    f"{_advice(other.source, plan.source, format_name)}"
                )


def _advice(one: Source, other: Source, format_name: str) -> str:
    """Advise how to separate two tables, or how to join them if events name one
    table in two ways."""
    apart = advice_to_separate(one, other)
    if not _may_be_one(one.name, other.name):
        return apart
    short, long = sorted((one, other), key=lambda source: len(source.name))
    named = f"name {long.name} in the `sources` of {short.name}"
    if (
        _DATABASE in options_model(format_name).model_fields
        and long.database
        and not short.database
    ):
        named = f"set `database: {long.database}` in `format_options`"
    return f"where they are one table, {named}; else {apart}"


def advice_to_separate(one: Source, other: Source) -> str:
    """Advise a `table_name` with the parts of their names in which two source tables differ."""
    around = [part for part in _AROUND if getattr(one, part) != getattr(other, part)]
    if around:
        return _APART.format("_".join(f"{{{part}}}" for part in (*around, "table")))
    # One may be named as the other's history is.
    return _NEITHER if one.table.lower() == other.table.lower() else _APART.format("{table}_src")


def _may_be_one(one: str, other: str) -> bool:
    """Whether one dotted name is the end of the other, so that both may mean one table."""
    return f".{one}".endswith(f".{other}") or f".{other}".endswith(f".{one}")


def _written(plan: TablePlan) -> list[str]:
    modes = ((plan.history, history_table), (plan.append, events_table))
    return [plan.target, *(name(plan.target) for enabled, name in modes if enabled)]
