"""Notes on a sound batch for the operator: unlisted tables, unknown columns, a wrong format.

They go to the driver's log and into the batch's result.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from sluice.config.pipeline import Pipeline
from sluice.config.source_tables import listed_name
from sluice.counting import are, counted
from spark_jobs.canonical import OUTCOME_REJECT
from spark_jobs.job import Job
from spark_jobs.planning.plan import TablePlan
from spark_jobs.planning.shown_columns import shown_columns
from spark_jobs.planning.table_summary import TableSummary

_MOST: Final = 5


def notes(
    job: Job, envelope: DataFrame, summaries: list[TableSummary], made: Iterable[TablePlan]
) -> tuple[str, ...]:
    """Return the notes, a line each; `made`: the plans of targets that this batch created."""
    general = [*unlisted(job.pipeline, summaries), *_unreadable(job, envelope, summaries)]
    return (*general, *(line for plan in made for line in unknown_columns(plan)))


def unlisted(pipeline: Pipeline, summaries: Iterable[TableSummary]) -> Iterator[str]:
    """Yield a note on source tables with rows that `tables:` does not list.

    A batch that is decoded with cached shapes reports none.
    """
    if pipeline.tables is None:
        return
    others = {
        summary.source.name: summary.records
        for summary in summaries
        if summary.images and listed_name(pipeline.tables, summary.source.name) is None
    }
    if not others:
        return
    most = sorted(others, key=lambda name: (-others[name], name))[:_MOST]
    if len(others) == 1:
        of, name = most[0], most[0]
    else:
        rest = [f"{len(others) - _MOST} more"] if len(others) > _MOST else []
        of, name = ", ".join([*(f"{n} ({others[n]:,})" for n in most), *rest]), "TABLE"
    number = sum(others.values())
    yield (
        f"{counted(number, 'record')} {are(number)} of {of}, which `tables:` does not list; list "
        f"what is to be loaded, then: sluice run {pipeline.name} --table {name}"
    )


def unknown_columns(plan: TablePlan) -> Iterator[str]:
    """Yield a note on configured columns that no event of a new table has."""
    if not plan.summary.images:
        return
    names = {spelling.lower() for c in plan.columns for spelling in c.spellings}
    names |= {c.lower() for rename in plan.renames for pair in rename.columns for c in pair}
    hinted = {name.lower(): name for name in (*plan.config.columns, *plan.config.null_misfits)}
    if strangers := [name for lower, name in hinted.items() if lower not in names]:
        columns = [c.name for c in plan.columns if not c.rule]
        yield (
            f"columns of {plan.source.name} that no event of the batch has: "
            f"{', '.join(strangers)}; its columns are {shown_columns(columns)}"
        )


def _unreadable(job: Job, envelope: DataFrame, summaries: list[TableSummary]) -> Iterator[str]:
    """Yield a note, with the reasons, if no record could be read in the pipeline's format."""
    lost = job.manifest.rejects
    read = sum(summary.total for summary in summaries) + len(lost)
    bad = sum(summary.rejected for summary in summaries if not summary.source.table) + len(lost)
    if not read or bad < read or job.manifest.reprocess is not None:
        return
    rejects = envelope.where(F.col("outcome") == OUTCOME_REJECT).groupBy("reason").count()
    reasons = Counter({row["reason"]: row["count"] for row in rejects.collect()})
    reasons.update(reject.reason for reject in lost)
    why = ", ".join(reason for reason, _ in reasons.most_common(_MOST))
    yield (
        f"of {counted(read, 'record')} none could be read as {job.pipeline.format} ({why}); "
        "is `format:` right?"
    )
