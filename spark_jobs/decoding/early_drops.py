"""DROP TABLE or TRUNCATE statements of a table that has no rows yet, so that its key is unknown.

There is no target to empty, and no changelog for the event. The ledger records it with the other
DDL (`sluice.renames`), and rows above it need nothing more. A batch with rows below it stops: if
they had arrived before the statement, they would be gone.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from sluice import names
from sluice.config.pipeline import Pipeline, TableConfig
from sluice.config.policies import APPLY, EMPTY
from sluice.config.source_tables import truncate_policy
from sluice.ddl.statements import dropped_tables
from sluice.errors import PlanError, TransientError
from sluice.ledger.column_log import ColumnStatement
from spark_jobs.formats import FORMATS
from spark_jobs.formats.common.truncates import is_stated
from spark_jobs.job import Job
from spark_jobs.lake.table_id import TableId, changelog_id
from spark_jobs.planning.plan import TablePlan
from spark_jobs.planning.renames_known import statements_on
from spark_jobs.planning.table_summary import Drop, Source, TableSummary
from spark_jobs.planning.targets import table_config, target_name
from spark_jobs.row_conditions import is_truncate, of_batches


def unplanned_drops(
    pipeline: Pipeline, summaries: Iterable[TableSummary], plans: Iterable[TablePlan]
) -> list[ColumnStatement]:
    """Return the batch's statements that drop or empty tables without a plan; they are recorded."""
    unplanned = _unplanned(pipeline, summaries, plans)
    return [ColumnStatement(source.name, drop.at, (), drop.text) for source, drop in unplanned]


def refuse_made_since(
    job: Job, summaries: Iterable[TableSummary], plans: Iterable[TablePlan]
) -> None:
    """Raise TransientError if another batch created the target of a dropped table while this
    batch was decoded."""
    for source, _ in _unplanned(job.pipeline, summaries, plans):
        target = TableId(job.pipeline.namespace, target_name(job.pipeline, source))
        if job.lake.load(target) is not None:
            raise TransientError(
                f"{target.full_name}: it was made while {job.manifest.batch_id}, which drops it, "
                "was decoded; run again"
            )


def _unplanned(
    pipeline: Pipeline, summaries: Iterable[TableSummary], plans: Iterable[TablePlan]
) -> Iterator[tuple[Source, Drop]]:
    planned = {plan.source for plan in plans}
    for summary in summaries:
        if summary.source not in planned:
            config = table_config(pipeline, summary.source)
            for drop in sorted(set(summary.drops)):
                if _empties(pipeline, config, drop.text):
                    yield summary.source, drop


def _empties(pipeline: Pipeline, config: TableConfig | None, statement: str) -> bool:
    """Whether a statement empties a table's target: a TRUNCATE, or a DROP TABLE by its policy."""
    if config is None or truncate_policy(pipeline, config) != APPLY:
        return False
    if dropped_tables(statement):
        return pipeline.on_drop_table == EMPTY
    return is_stated(statement)


def refuse_rows_below_drop(job: Job, plan: TablePlan, mine: DataFrame) -> None:
    """Raise PlanError if a batch has changes below a statement that dropped or emptied its table
    before the target existed, unless a TRUNCATE at or above it is in a changelog."""
    states_others = FORMATS[job.pipeline.format].states_other_tables
    if job.pipeline.on_drop_table != EMPTY and not states_others:
        return
    drop = _newest_above(mine, _drops(job, plan))
    if drop is None or _has_truncate(mine, drop.position):
        return
    if not _has_published_truncate(job, plan, drop.position):
        raise PlanError(_below(job.pipeline.name, plan.source.name, drop))


def _drops(job: Job, plan: TablePlan) -> list[ColumnStatement]:
    """Return the statements that dropped or emptied a table before its target existed."""
    statements = statements_on(job.lake.catalog, job.pipeline.name, plan, job.attempt.published)
    return [
        one
        for one in statements
        if not (one.columns or one.drops_table)
        and _empties(job.pipeline, plan.config, one.statement)
    ]


def _newest_above(mine: DataFrame, drops: Iterable[ColumnStatement]) -> ColumnStatement | None:
    """Return the newest of the statements that are above one of the changes."""
    above = (one for one in drops if not mine.where(_position() < one.position).isEmpty())
    return max(above, key=lambda one: one.position, default=None)


def _below(pipeline: str, table: str, drop: ColumnStatement) -> str:
    """Return the message about rows below a drop."""
    return (
        f"table {table}: batch {drop.batch_id} {_verb(drop)} at "
        f"{drop.position}, before any of its rows; this one has rows from before that, "
        "which are gone at the source. Load that batch once more, now that the table has rows: "
        f"sluice rollback {pipeline} --batch {drop.batch_id}, run again, then sluice "
        f"release {pipeline} --batch {drop.batch_id}, and run once more. A full load "
        f"that was read since is a new epoch instead: sluice raise-epoch {pipeline} "
        "--full-load"
    )


def _verb(drop: ColumnStatement) -> str:
    dropped = dropped_tables(drop.statement)
    return "dropped or replaced it" if dropped else "truncated it"


def _position() -> Column:
    return F.col(names.POSITION)


def _has_truncate(changes: DataFrame, position: str) -> bool:
    return not changes.where(is_truncate() & (_position() >= position)).isEmpty()


def _has_published_truncate(job: Job, plan: TablePlan, position: str) -> bool:
    """Whether a published batch has a TRUNCATE at or above the position."""
    changelog = changelog_id(plan)
    if job.lake.load(changelog) is None:
        return False
    published = of_batches(job.attempt.published)
    return _has_truncate(job.spark.table(changelog.sql()).where(published), position)
