"""The rules that concern whole records of a batch."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from spark_jobs.canonical import OUTCOME_IGNORE, OUTCOME_REJECT
from spark_jobs.decoding import (
    drop_tables,
    lookalikes,
    quarantine,
    table_renames,
    transactions,
    truncates,
)
from spark_jobs.decoding.ddl_table_names import with_spelling_of_rows
from spark_jobs.decoding.envelope_parts import PART, in_parts
from spark_jobs.expressions import changed_where
from spark_jobs.formats import FORMATS
from spark_jobs.job import Job
from spark_jobs.planning.discover import discover
from spark_jobs.planning.name_limits import refuse_too_many, without_unusable_names
from spark_jobs.planning.sources import refuse_unclear
from spark_jobs.planning.table_summary import TableSummary
from spark_jobs.record_places import PLACE

# Returns the batch's records with other outcomes or names; None where it changes none.
Rule = Callable[[Job, DataFrame, list[TableSummary]], DataFrame | None]


def apply_record_rules(job: Job, envelope: DataFrame) -> tuple[DataFrame, list[TableSummary]]:
    """Return the envelope after all rules about whole records, and a summary of each table."""
    summaries = discover(envelope)
    refuse_unclear(job.pipeline, summaries)
    refuse_too_many(job.pipeline, summaries)
    envelope, summaries = _after(_OUTCOMES, job, envelope, summaries)
    truncates.report_unclear(job.pipeline, envelope, summaries)
    table_renames.by_policy(job, envelope, summaries)
    envelope, summaries = _after((_respelled,), job, envelope, summaries)
    envelope, summaries = drop_tables.by_policy(job, envelope, summaries)
    return envelope, truncates.with_lone_truncates(job, envelope, summaries)


def _after(
    rules: Iterable[Rule], job: Job, envelope: DataFrame, summaries: list[TableSummary]
) -> tuple[DataFrame, list[TableSummary]]:
    for rule in rules:
        changed = rule(job, envelope, summaries)
        if changed is not None:
            envelope, summaries = changed, discover(changed)
    return envelope, summaries


def _without_lookalikes(
    job: Job, envelope: DataFrame, summaries: list[TableSummary]
) -> DataFrame | None:
    may_seem = any(summary.ignored > 0 and not summary.source.table for summary in summaries)
    return lookalikes.rejected(job, envelope) if may_seem else None


def _without_tombstones(
    job: Job, envelope: DataFrame, summaries: list[TableSummary]
) -> DataFrame | None:
    """Ignore empty records that the format recognises by their text, such as tombstones."""
    ignorable = FORMATS[job.pipeline.format].ignorable
    if not ignorable or not any(summary.rejected for summary in summaries):
        return None
    lines = quarantine.texts(job.spark, job.manifest.files)
    known = lines.where(F.col("value").rlike(ignorable))
    marks = F.broadcast(known.select(*PLACE, F.lit(True).alias("known")))
    marked = envelope.join(marks, list(PLACE), "left")
    passed = F.col("known") & (F.col("outcome") == OUTCOME_REJECT)
    ignored = changed_where(passed, {"outcome": F.lit(OUTCOME_IGNORE)})
    return marked.withColumns(ignored).drop("known")


def _without_unfit_names(
    job: Job, envelope: DataFrame, summaries: list[TableSummary]
) -> DataFrame | None:
    return without_unusable_names(job.pipeline, envelope, summaries)


def _without_open_transactions(
    job: Job, envelope: DataFrame, _: list[TableSummary]
) -> DataFrame | None:
    return transactions.hold_back(job, envelope) if transactions.holds(job) else None


def _respelled(job: Job, envelope: DataFrame, summaries: list[TableSummary]) -> DataFrame | None:
    respelled = with_spelling_of_rows(job, envelope, summaries)
    if respelled is None or PART not in envelope.columns:
        return respelled
    return in_parts(respelled)


_OUTCOMES: Final[tuple[Rule, ...]] = (
    _without_lookalikes,
    _without_tombstones,
    _without_unfit_names,
    _without_open_transactions,
)
