"""The rows of a target and of its tombstones at the snapshots that a merge starts from."""

from __future__ import annotations

from collections.abc import Mapping
from functools import reduce
from operator import and_

from pyspark.sql import Column
from pyspark.sql import functions as F

from sluice import names
from spark_jobs.folding.resolve import StoredState
from spark_jobs.lake.table_id import TableId, target_id, tombstone_id
from spark_jobs.lake.tables import Base, Lake
from spark_jobs.planning.column_history import ColumnHistory
from spark_jobs.planning.plan import TablePlan
from spark_jobs.quoting import quoted


def stored_at(
    lake: Lake,
    plan: TablePlan,
    bases: Mapping[TableId, Base],
    now: ColumnHistory | None = None,
) -> StoredState:
    """Return target and tombstones at their bases, read with the defaults and renames `now` (None:
    as they were written)."""
    target, tombstones_table = target_id(plan), tombstone_id(plan)
    rows = lake.rows(target, bases[target].snapshot)
    tombstones = lake.rows(tombstones_table, bases[tombstones_table].snapshot)
    mark = None
    if tombstones is not None:
        marks = tombstones.where(_whole_table(plan))
        mark = marks.select(names.POSITION, names.BATCH_ID).orderBy(F.desc(names.POSITION)).first()
        tombstones = tombstones.where(~_whole_table(plan)) if plan.keyed else None
    if rows is not None and now is not None:
        types = plan.types
        rows = now.rows(rows, lake.column_history(target), types)
    if mark is None:
        return StoredState(rows, tombstones, None)
    at, by = mark[names.POSITION], mark[names.BATCH_ID]
    return StoredState(rows, tombstones, truncated_at=at, truncated_by=by)


def _whole_table(plan: TablePlan) -> Column:
    """The tombstone of a TRUNCATE has no key; so written, Iceberg passes over files without one."""
    return reduce(and_, (F.col(quoted(k)).isNull() for k in plan.key), F.lit(True))
