"""TRUNCATEs that a format gives as DDL, for their table is not told: they change nothing."""

from __future__ import annotations

from typing import Final

from pyspark.sql import DataFrame

from sluice.config.project import Pipeline
from spark_jobs.decoding.statements import ddl_events, told_columns
from spark_jobs.formats import FORMATS
from spark_jobs.planning.discover import Found, source_of
from spark_jobs.telling import tell

_MOST: Final = 100


def tell_of_untold(pipeline: Pipeline, envelope: DataFrame, found: list[Found]) -> None:
    """Say of whose database or logical table they are; only of formats that have such."""
    pattern = FORMATS[pipeline.format].untold_truncates
    if not (pattern and any(table.ddl for table in found)):
        return
    rows = ddl_events(envelope, pattern).select(*told_columns()).limit(_MOST).collect()
    for name in sorted({source_of(row).name for row in rows}):
        tell(
            f"{name}: a TRUNCATE came as a statement whose table is not told, or of a part of a "
            "table: it changes nothing, and the rows stay"
        )
