"""Reject records that were ignored because the reader saw too little of them.

Readers skip fields that no schema names, so only the record's text shows whether it holds more. The
text is read only for batches with such records (docs/formats/debezium.md).
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from sluice.manifest import JSON_LINES
from spark_jobs.canonical import OUTCOME_IGNORE, OUTCOME_REJECT
from spark_jobs.expressions import changed_where
from spark_jobs.formats import FORMATS
from spark_jobs.job import Job
from spark_jobs.record_places import PLACE, text_lines

_REASON: Final = "not_an_envelope"


def needs_second_look(reasons: frozenset[str]) -> Column:
    """Whether a record was ignored for one of the reasons that need a second look."""
    among = F.col("reason").isin(*sorted(reasons)) if reasons else F.lit(False)
    return (F.col("outcome") == OUTCOME_IGNORE) & among


def has_lookalikes(job: Job) -> bool:
    """Whether, by its text, any line of the batch may be a change that the reader ignored as
    something else."""
    fmt = FORMATS[job.pipeline.format]
    text = F.col("value")
    return not _lines(job).where(~fmt.is_event(text) & fmt.holds_more(text)).isEmpty()


def rejected(job: Job, envelope: DataFrame) -> DataFrame | None:
    """Return the envelope with the ignored records that hold a change rejected; None if there is
    none."""
    fmt = FORMATS[job.pipeline.format]
    found = envelope.where(needs_second_look(fmt.seeming)).select(*PLACE)
    if not fmt.seeming or found.isEmpty():
        return None
    lines = _lines(job).join(F.broadcast(found), list(PLACE), "left_semi")
    marks = lines.where(fmt.holds_more(F.col("value"))).select(*PLACE, F.lit(True).alias("more"))
    if marks.isEmpty():
        return None
    marked = envelope.join(F.broadcast(marks), list(PLACE), "left")
    rejected = {"outcome": F.lit(OUTCOME_REJECT), "reason": F.lit(_REASON)}
    return marked.withColumns(changed_where(F.col("more"), rejected)).drop("more")


def _lines(job: Job) -> DataFrame:
    return text_lines(job.spark, (f for f in job.manifest.files if f.container == JSON_LINES))
