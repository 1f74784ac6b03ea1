"""A target belongs to one source table, across batches too."""

from __future__ import annotations

from sluice.config.pipeline import TableConfig
from sluice.errors import FROM_BEFORE, PlanError
from spark_jobs.lake.table_id import TableId
from spark_jobs.planning.discover import TableSummary


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
    raise PlanError(
        f"tables {former} and {summary.source.name} both go to {target.full_name}, which has rows "
        "of the former: where they are one table, name the other in its `sources`; else tell them "
        "apart in `table_name`, for example {database}_{table}, and fill the new targets "
        f"{FROM_BEFORE}"
    )
