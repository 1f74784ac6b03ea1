"""The DDL statements of a batch, as a driver reads them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from sluice.ddl.statements import LONGEST
from sluice.errors import PlanError, landed_again
from sluice.positions import epoch_prefix
from spark_jobs.canonical import OP_DDL, OUTCOME_EVENT, SOURCE_PARTS
from spark_jobs.decoding.decode import by_place, with_origin
from spark_jobs.job import Job
from spark_jobs.planning.table_summary import Drop, Source, TableSummary, source_of
from spark_jobs.record_places import PLACE


@dataclass(frozen=True)
class Statement:
    """The statement of a DDL event or of a TRUNCATE.

    `source`: the table that the event names; `lost`: whether the source gives no position; `at`:
    its position, with epoch; `place`: the record's PLACE.
    """

    source: Source
    text: str
    lost: bool
    at: str
    place: tuple[str | int, ...]


def has_statements(summaries: Iterable[TableSummary]) -> bool:
    """Whether a table of the batch has DDL events."""
    return any(summary.ddl for summary in summaries)


def ordered_tables(summaries: Iterable[TableSummary]) -> set[Source]:
    """Return the tables whose rows all have a position from the source."""
    return {
        summary.source for summary in summaries if summary.has_changes and not summary.unordered
    }


def ddl_events(envelope: DataFrame, pattern: str) -> DataFrame:
    """Return the DDL events whose statement matches the pattern."""
    ddl = (F.col("outcome") == OUTCOME_EVENT) & (F.col("op") == OP_DDL)
    return envelope.where(ddl & F.col("ddl").rlike(pattern))


def statements_of(job: Job, events: DataFrame) -> list[Statement]:
    """Return the statements of events that have one, in any order."""
    located = with_origin(events, job.spark, job.manifest.files)
    return _read(located.select(*_columns(_position(job))))


def placed_statements(
    job: Job, envelope: DataFrame, pattern: str, at_most: int, may: str
) -> list[Statement]:
    """Return the statements that match the pattern, in record order.

    Raises PlanError for more than a driver can read. `may`: what they may do, for the message.
    """
    located = with_origin(ddl_events(envelope, pattern), job.spark, job.manifest.files)
    ordered = located.orderBy(by_place()).select(*_columns(_position(job)))
    found = _read(ordered.limit(at_most + 1))
    if len(found) > at_most:
        again = landed_again(job.pipeline.name, job.manifest.batch_id)
        raise PlanError(
            f"the batch has more than {at_most} DDL statements that may {may}: lower "
            f"max_files_per_batch; {again}"
        )
    return found


def any_statements(envelope: DataFrame, pattern: str, at_most: int) -> list[Statement]:
    """Return at most so many statements that match the pattern, in any order and with "" as their
    position."""
    return _read(ddl_events(envelope, pattern).select(*_columns(F.lit(""))).limit(at_most))


def with_drops(
    summaries: Iterable[TableSummary], statements: Iterable[Statement]
) -> list[TableSummary]:
    """Return the summaries, those of the statements' tables with these statements as `drops`."""
    drops: dict[Source, list[Drop]] = {}
    for one in statements:
        drops.setdefault(one.source, []).append(Drop(one.at, one.text))
    return [
        replace(summary, drops=tuple(drops[summary.source])) if summary.source in drops else summary
        for summary in summaries
    ]


def _columns(at: Column) -> list[Column]:
    text, lost = F.substring("ddl", 1, LONGEST), F.col("position").isNull()
    named = (text.alias("text"), lost.alias("lost"), at.alias("at"))
    return [*map(F.col, SOURCE_PARTS), *named, *map(F.col, PLACE)]


def _position(job: Job) -> Column:
    """Return the position, with epoch, of an event to which `with_origin` was applied."""
    position = F.coalesce("position", by_place())
    return F.concat_ws(".", F.lit(epoch_prefix(job.pipeline.epoch)), position)


def _read(rows: DataFrame) -> list[Statement]:
    return [
        Statement(source_of(row), row["text"], row["lost"], row["at"], tuple(row[n] for n in PLACE))
        for row in rows.collect()
    ]
