"""`consistency: table`: load each table of a batch on its own, so that a failure stops only one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import reduce
from operator import or_
from typing import Final, TypeVar

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from sluice.catalog.failures import is_permanent
from sluice.config.pipeline import Pipeline
from sluice.errors import LakeMovedError, LedgerDamagedError, ResetSuspectedError, TerminalError
from sluice.escaping import LINES, shown
from sluice.result import LeftOut
from spark_jobs.canonical import OUTCOME_IGNORE
from spark_jobs.decoding.decode import is_of
from spark_jobs.decoding.staged_files import is_of_a_file
from spark_jobs.driver_messages import emit
from spark_jobs.expressions import changed_where
from spark_jobs.failures import typed
from spark_jobs.job import Job, unpublished
from spark_jobs.planning.table_summary import TableSummary
from spark_jobs.threads import map_concurrently

S = TypeVar("S")
T = TypeVar("T")

_OF_THE_LAKE: Final = (LakeMovedError, LedgerDamagedError, ResetSuspectedError)


def for_each_table(
    pipeline: Pipeline, tables: Iterable[S], source: Callable[[S], str], work: Callable[[S], T]
) -> list[T]:
    """Run `work` for every table, a few at a time.

    The first error ends the run. With `consistency: table` every table is tried, and one
    TerminalError then names all that cannot be loaded. `source` returns a table's source name.
    """
    if not pipeline.each_table_alone:
        return map_concurrently(tables, work)
    wrong: dict[str, str] = {}

    def attempt(table: S) -> list[T]:
        try:
            return [work(table)]
        except Exception as error:
            wrong[source(table)] = _reason(error, pipeline)
            return []

    results = map_concurrently(tables, attempt)
    if wrong:
        raise TerminalError("\n".join(wrong[name] for name in sorted(wrong))).of_tables(wrong)
    return [one for each_of in results for one in each_of]


def _reason(error: Exception, pipeline: Pipeline) -> str:
    """Return why a table cannot be loaded.

    Raises the error itself if a later try may succeed, or if it concerns a file, the lake or the
    whole source rather than the table.
    """
    failure = typed(error, unpublished(pipeline))
    of_the_lake = isinstance(failure, _OF_THE_LAKE) or is_permanent(error)
    if is_of_a_file(error) or of_the_lake or not isinstance(failure, TerminalError):
        raise error
    return f"{type(failure).__name__}: {failure}"


def can_leave_out(pipeline: Pipeline, error: TerminalError, gone: Mapping[str, str]) -> bool:
    """Whether the batch can go on without the tables that `error` names: False if all of them were
    left out before (`gone`)."""
    return pipeline.each_table_alone and bool(error.tables.keys() - gone.keys())


def report_left_out(error: TerminalError) -> None:
    """Print to standard error which tables the batch goes on without."""
    for source, wrong in sorted(error.tables.items()):
        emit(f"goes on without {shown(source)}: {wrong}", LINES)


def ignore_left_out(
    job: Job, envelope: DataFrame, summaries: list[TableSummary]
) -> tuple[DataFrame, list[TableSummary]]:
    """Return the batch with the records of tables to be left out ignored, and the other tables.

    The records stay in the envelope: records of containers and Parquet are numbered by it.
    """
    kept = [summary for summary in summaries if summary.source.name not in job.left_out]
    gone = [is_of(summary.source) for summary in summaries if summary.source.name in job.left_out]
    if gone:
        ignored = changed_where(reduce(or_, gone), {"outcome": F.lit(OUTCOME_IGNORE)})
        envelope = envelope.withColumns(ignored)
    return envelope, kept


def left_out(job: Job, summaries: list[TableSummary]) -> tuple[LeftOut, ...]:
    """Return the left-out tables, with the number of their records."""
    return tuple(
        LeftOut(summary.source.name, summary.total, job.left_out[summary.source.name])
        for summary in summaries
        if summary.source.name in job.left_out
    )
