"""Limits on a batch: names that no table or column may have, and the number of
tables and columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from sluice.config.pipeline import Pipeline
from sluice.errors import PlanError
from sluice.source_names import LONGEST, is_column_name, is_table_name
from spark_jobs.canonical import (
    OUTCOME_EVENT,
    OUTCOME_REJECT,
    SOURCE_PARTS,
    changed_where,
    names_any,
)
from spark_jobs.planning.descriptions import refuse_too_many_columns
from spark_jobs.planning.table_summary import Source, TableSummary
from spark_jobs.planning.targets import table_config, target_name

BAD_TABLE_NAME: Final = "bad_table_name"
BAD_COLUMN_NAME: Final = "bad_column_name"
_SHOWN_AT_MOST: Final = 10


@dataclass(frozen=True)
class UnusableNames:
    """Source tables and columns of a batch whose names the lake cannot have."""

    tables: tuple[Source, ...]
    columns: tuple[str, ...]

    def __bool__(self) -> bool:
        return bool(self.tables or self.columns)

    def rejected(self, envelope: DataFrame) -> DataFrame:
        """Return the envelope with the events of these tables and columns rejected."""
        event = F.col("outcome") == OUTCOME_EVENT
        reason = F.when(event & self._of_tables(), F.lit(BAD_TABLE_NAME)).when(
            event & self._with_columns(), F.lit(BAD_COLUMN_NAME)
        )
        return envelope.withColumns(
            changed_where(reason.isNotNull(), {"reason": reason, "outcome": F.lit(OUTCOME_REJECT)})
        )

    def _of_tables(self) -> Column:
        parts = [F.coalesce(part, F.lit("")) for part in SOURCE_PARTS]
        listed = [
            F.struct(*(F.lit(part) for part in (s.database, s.schema, s.table)))
            for s in self.tables
        ]
        return F.struct(*parts).isin(*listed) if listed else F.lit(False)

    def _with_columns(self) -> Column:
        if not self.columns:
            return F.lit(False)
        return names_any("before", self.columns) | names_any("after", self.columns)


def unusable_names(pipeline: Pipeline, summaries: Sequence[TableSummary]) -> UnusableNames:
    """Return a batch's names that no table or column may have (see `sluice.source_names`)."""
    ours = _with_events(pipeline, summaries)
    tables = [f.source for f in ours if not is_table_name(target_name(pipeline, f.source))]
    columns = {name for f in ours for name in f.columns if not is_column_name(name)}
    return UnusableNames(tuple(tables), tuple(sorted(columns)))


def refuse_too_many(pipeline: Pipeline, summaries: Sequence[TableSummary]) -> None:
    """Raise PlanError above the pipeline's limits, which bound a batch's metadata, and the
    `unusable_names` that the driver lists."""
    ours = _with_events(pipeline, summaries)
    if len(ours) > pipeline.max_tables_per_batch:
        shown = ", ".join(f.source.name[:LONGEST] for f in ours[:_SHOWN_AT_MOST])
        raise PlanError(
            f"the batch has events of {len(ours)} tables ({shown}, …), above max_tables_per_batch "
            f"({pipeline.max_tables_per_batch}) of pipeline {pipeline.name}: list those to load in "
            "`tables:`, or raise it"
        )
    for table in ours:
        refuse_too_many_columns(pipeline, table.source, table.columns)


def _with_events(pipeline: Pipeline, summaries: Sequence[TableSummary]) -> list[TableSummary]:
    # Statements create no table, and those on databases or roles name none.
    return [f for f in summaries if f.has_changes and table_config(pipeline, f.source) is not None]
