"""Limits on a batch: names that no table or column may have, and the number of
tables and columns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from sluice.config.pipeline import Pipeline
from sluice.errors import PlanError
from sluice.source_names import LONGEST, is_column_name, is_table_name
from spark_jobs.canonical import OUTCOME_EVENT, OUTCOME_REJECT, SOURCE_PARTS, names_any
from spark_jobs.expressions import changed_where
from spark_jobs.planning.descriptions import refuse_too_many_columns
from spark_jobs.planning.table_summary import Source, TableSummary
from spark_jobs.planning.targets import table_config, target_name

BAD_TABLE_NAME: Final = "bad_table_name"
BAD_COLUMN_NAME: Final = "bad_column_name"
_SHOWN_AT_MOST: Final = 10


def without_unusable_names(
    pipeline: Pipeline, envelope: DataFrame, summaries: Sequence[TableSummary]
) -> DataFrame | None:
    """Return the envelope with the events of tables and columns rejected whose names the lake
    cannot have (see `sluice.source_names`); None if there are none."""
    ours = _with_events(pipeline, summaries)
    tables = [
        summary.source
        for summary in ours
        if not is_table_name(target_name(pipeline, summary.source))
    ]
    columns = sorted(
        {name for summary in ours for name in summary.columns if not is_column_name(name)}
    )
    if not (tables or columns):
        return None
    event = F.col("outcome") == OUTCOME_EVENT
    reason = F.when(event & _is_of(tables), F.lit(BAD_TABLE_NAME)).when(
        event & _names(columns), F.lit(BAD_COLUMN_NAME)
    )
    rejected = {"reason": reason, "outcome": F.lit(OUTCOME_REJECT)}
    return envelope.withColumns(changed_where(reason.isNotNull(), rejected))


def _is_of(tables: Sequence[Source]) -> Column:
    parts = [F.coalesce(part, F.lit("")) for part in SOURCE_PARTS]
    listed = [F.struct(*map(F.lit, (s.database, s.schema, s.table))) for s in tables]
    return F.struct(*parts).isin(*listed) if listed else F.lit(False)


def _names(columns: Sequence[str]) -> Column:
    return names_any("before", columns) | names_any("after", columns) if columns else F.lit(False)


def refuse_too_many(pipeline: Pipeline, summaries: Sequence[TableSummary]) -> None:
    """Raise PlanError above the pipeline's limits, which bound a batch's metadata, and the
    unusable names that the driver lists."""
    ours = _with_events(pipeline, summaries)
    if len(ours) > pipeline.max_tables_per_batch:
        shown = ", ".join(summary.source.name[:LONGEST] for summary in ours[:_SHOWN_AT_MOST])
        raise PlanError(
            f"the batch has events of {len(ours)} tables ({shown}, …), above max_tables_per_batch "
            f"({pipeline.max_tables_per_batch}) of pipeline {pipeline.name}: list those to load in "
            "`tables:`, or raise it"
        )
    for summary in ours:
        refuse_too_many_columns(pipeline, summary.source, summary.columns)


def _with_events(pipeline: Pipeline, summaries: Sequence[TableSummary]) -> list[TableSummary]:
    # Statements create no table, and those on databases or roles name none.
    return [
        summary
        for summary in summaries
        if summary.has_changes and table_config(pipeline, summary.source) is not None
    ]
