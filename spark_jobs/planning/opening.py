"""The opening of an epoch that begins with a full load: a TRUNCATE of each table before all of it.

An operator declares the full load (`full_loads` of the pipeline). Every batch that brings a table
events of such an epoch has the opening of that table among its changes, at one position whatever
batch it is. So it follows from the set of events alone, outlives the rollback of any one batch,
and a table of which the epoch has no event keeps its rows.
"""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from sluice import names
from sluice.config.project import Pipeline
from sluice.positions import epoch_prefix, opening_position
from spark_jobs.canonical import OP_TRUNCATE, quoted


@dataclass(frozen=True)
class Opening:
    """Which epoch, and when rows of older ones ended by the operator's word."""

    epoch: int
    at: str

    @property
    def position(self) -> str:
        """The lowest of the epoch."""
        return opening_position(self.epoch)

    def stored_by(self, truncated_at: str | None) -> bool:
        """Whether a table has had the opening, by the position of its newest TRUNCATE.

        One of the epoch will do: the batch that brought it brought the opening too.
        """
        return truncated_at is not None and truncated_at.startswith(epoch_prefix(self.epoch))


def opening_of(pipeline: Pipeline) -> Opening | None:
    """What the pipeline declares of the epoch that it is at."""
    declared = (one for one in pipeline.full_loads if one.epoch == pipeline.epoch)
    return next((Opening(one.epoch, one.at) for one in declared), None)


def write(spark: SparkSession, changelog: str, opening: Opening, batch_id: str) -> None:
    """Append the opening to a batch's partition of a changelog; no record counts for it."""
    columns = spark.table(changelog).columns
    row = _row(spark, opening, batch_id)
    known = [quoted(c) if c in row.columns else F.lit(None).alias(c) for c in columns]
    row.select(*known).writeTo(changelog).append()


def _row(spark: SparkSession, opening: Opening, batch_id: str) -> DataFrame:
    told = {
        names.OP: F.lit(OP_TRUNCATE),
        names.POSITION: F.lit(opening.position),
        names.SOURCE_TS: F.lit(opening.at).cast("timestamp"),
        names.BATCH_ID: F.lit(batch_id),
        names.COUNTED: F.lit(False),
    }
    return spark.range(1).select(*(value.alias(name) for name, value in told.items()))
