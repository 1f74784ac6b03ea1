"""A target belongs to one source table, across batches too."""

from __future__ import annotations

from sluice.config.fields import TABLE_PLACEHOLDERS
from sluice.config.pipeline import TableConfig
from sluice.errors import FROM_BEFORE, PlanError
from spark_jobs.lake.table_id import TableId
from spark_jobs.planning.shared_targets import advice_to_separate
from spark_jobs.planning.table_summary import Source, TableSummary


def refuse_other_source(
    former: str | None, target: TableId, summary: TableSummary, config: TableConfig
) -> None:
    """Raise PlanError if a target has the rows of another source table, `former`.

    `shared_targets.refuse_shared_targets` only sees the tables of one batch. A shorter name (`t`
    beside `s.t`) is another table: within a batch the two are two tables, and a short name could
    belong to several longer ones. A table with `sources` may have begun under any of these names.
    """
    changes = bool(summary.images or summary.truncates)
    if former is None or config.sources or not changes or former == summary.source.name:
        return
    apart = advice_to_separate(_in_parts(former, summary.source), summary.source)
    raise PlanError(
        f"tables {former} and {summary.source.name} both go to {target.full_name}, which has rows "
        f"of the former: where they are one table, name the other in its `sources`; else {apart}, "
        f"and fill the new targets {FROM_BEFORE}"
    )


def _in_parts(name: str, like: Source) -> Source:
    """Return a dotted name in the parts that another one has, or in all if it has more."""
    parts = name.split(".")
    known = [part for part in TABLE_PLACEHOLDERS if getattr(like, part)]
    own = known if len(parts) <= len(known) else TABLE_PLACEHOLDERS
    named = dict(zip(reversed(own), reversed(parts), strict=False))
    return Source(**{"database": "", "schema": "", "table": "", **named})
