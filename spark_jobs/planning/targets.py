"""Which entry of `tables:` and which target a source table has."""

from __future__ import annotations

from sluice.config.pipeline import Pipeline, TableConfig
from sluice.config.schema_change import dropped_column_policy
from sluice.config.source_tables import listed_name
from spark_jobs.planning.table_summary import Source


def table_config(pipeline: Pipeline, source: Source) -> TableConfig | None:
    """Return the configuration of a source table, by its full name or the end of it, with the
    pipeline's policy for dropped columns if it has none.

    None if the pipeline lists tables without this one, or the run does not load it.
    """
    name = listed_name(pipeline.tables or (), source.name)
    if pipeline.tables is None:
        found = TableConfig()
    elif name is not None and pipeline.loads(name):
        found = pipeline.tables[name]
    else:
        return None
    policy = dropped_column_policy(pipeline, found)
    return found.model_copy(update={"on_dropped_column": policy})


def target_name(pipeline: Pipeline, source: Source) -> str:
    """Return the target's name, by the pipeline's `table_name` template."""
    return pipeline.table_name.format(
        database=source.database, schema=source.schema, table=source.table
    )
