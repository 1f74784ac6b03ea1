"""TRUNCATEs that a format gives as DDL: their table is not told, or they are of a part of it."""

from __future__ import annotations

from typing import Final

from pyspark.sql import DataFrame

from sluice.config.project import Pipeline
from spark_jobs.decoding.statements import ddl_events, told_columns
from spark_jobs.formats import FORMATS
from spark_jobs.planning.discover import Found, source_of
from spark_jobs.planning.plan import table_config
from spark_jobs.telling import tell

_MOST: Final = 100


def tell_of_untold(pipeline: Pipeline, envelope: DataFrame, found: list[Found]) -> None:
    """Say of whose database or table they are, of those that are loaded; only of formats that have
    such."""
    pattern = FORMATS[pipeline.format].untold_truncates
    if not (pattern and any(table.ddl for table in found)):
        return
    rows = ddl_events(envelope, pattern).select(*told_columns()).limit(_MOST).collect()
    sources = {source_of(row) for row in rows}
    listed = (s for s in sources if not s.table or table_config(pipeline, s) is not None)
    for name in sorted(source.name for source in listed):
        tell(
            f"{name or 'an event without a table'}: a TRUNCATE came as a statement whose table is "
            "not told, or of a part of a table: it changes nothing, and the rows stay"
        )
