"""TRUNCATEs among the changes of a batch."""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from sluice import names
from sluice.result import Counts
from spark_jobs.row_conditions import is_truncate


@dataclass(frozen=True)
class Truncation:
    """The TRUNCATEs of a batch: the newest position, and the number of records."""

    position: str | None
    records: int

    def counts(self, newest: str | None) -> Counts:
        """Return the outcomes: the one that is the table's newest is applied, the others
        are superseded."""
        if self.position is None:
            return Counts()
        applied = int(self.records > 0 and newest == self.position)
        return Counts(read=self.records, applied=applied, superseded=self.records - applied)


def truncation(mine: DataFrame) -> Truncation:
    """Return the TRUNCATEs among a batch's changes of one table."""
    found = mine.where(is_truncate())
    records = F.count_if(F.col(names.COUNTED)).alias("records")
    row = found.agg(F.max(names.POSITION).alias("position"), records).first()
    return Truncation(None, 0) if row is None else Truncation(row["position"], row["records"])
