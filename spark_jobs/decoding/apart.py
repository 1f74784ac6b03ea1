"""`consistency: table`: the tables of a batch each for itself, where some cannot be loaded."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TypeVar

from pyspark.sql import DataFrame

from sluice.config.project import Pipeline
from sluice.errors import LakeMoved, ResetSuspected, TerminalError
from sluice.escaping import LINES, shown
from sluice.result import LeftOut
from spark_jobs.decoding.copies import is_of_a_file
from spark_jobs.decoding.decode import is_of
from spark_jobs.failures import typed
from spark_jobs.job import Job
from spark_jobs.planning.discover import Found
from spark_jobs.telling import tell
from spark_jobs.threads import side_by_side

S = TypeVar("S")
T = TypeVar("T")


def each(
    pipeline: Pipeline, tables: Iterable[S], source: Callable[[S], str], work: Callable[[S], T]
) -> list[T]:
    """Do the work for every table, a few of them at once.

    The first error ends it; with `consistency: table` all have their turn, and one TerminalError
    blames those of them that cannot be loaded (`source`: a table's name at the source).
    """
    if not pipeline.each_table_alone:
        return side_by_side(tables, work)
    wrong: dict[str, str] = {}

    def tried(table: S) -> list[T]:
        try:
            return [work(table)]
        except Exception as error:
            wrong[source(table)] = _told(error)
            return []

    done = side_by_side(tables, tried)
    if wrong:
        raise TerminalError("\n".join(wrong[name] for name in sorted(wrong))).of_tables(wrong)
    return [one for each_of in done for one in each_of]


def _told(error: Exception) -> str:
    """What is wrong of a table; raises what may pass, and what is of a file, the lake or the
    source."""
    told = typed(error)
    of_no_table = is_of_a_file(error) or isinstance(told, LakeMoved | ResetSuspected)
    if of_no_table or not isinstance(told, TerminalError):
        raise error
    return f"{type(told).__name__}: {told}"


def may_go_without(pipeline: Pipeline, error: TerminalError, gone: Mapping[str, str]) -> bool:
    """Whether the batch's other tables may be loaded without those that are to blame; not where
    it was tried without them (`gone`) already."""
    return pipeline.each_table_alone and bool(error.tables.keys() - gone.keys())


def say_left_out(error: TerminalError) -> None:
    """Tell on standard error what the batch goes on without."""
    for source, wrong in sorted(error.tables.items()):
        tell(f"goes on without {shown(source)}: {wrong}", LINES)


def without(
    job: Job, envelope: DataFrame, found: list[Found]
) -> tuple[DataFrame, list[Found], tuple[LeftOut, ...]]:
    """The batch without the records of the tables that are left out, and these tables."""
    if not job.left_out:
        return envelope, found, ()
    gone = [table for table in found if table.source.name in job.left_out]
    left = [
        LeftOut(
            table.source.name,
            table.records + table.ignored + table.rejected,
            job.left_out[table.source.name],
        )
        for table in gone
    ]
    for table in gone:
        envelope = envelope.where(~is_of(table.source))
    return envelope, [table for table in found if table not in gone], tuple(left)
