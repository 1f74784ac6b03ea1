"""checks: the configured checks of a table, run on the batch's branch.

A check sees its table as the batch would leave it, and other tables as published.
"""

from __future__ import annotations

import json
from typing import Final

from pyspark.errors import (
    AnalysisException,
    ArithmeticException,
    ArrayIndexOutOfBoundsException,
    DateTimeException,
    IllegalArgumentException,
    SparkNoSuchElementException,
    SparkRuntimeException,
    SparkUpgradeException,
    UnsupportedOperationException,
)
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from sluice.config.checks import TABLE, Check
from sluice.config.pipeline import SHARE_COUNTS_FROM
from sluice.errors import AuditFailedError
from sluice.names import BATCH_ID
from sluice.result import StagedTable
from spark_jobs.job import Job, batch_to_name, how_to_go_on, unpublished
from spark_jobs.lake.rows_at_cut import live_rows
from spark_jobs.lake.table_id import TableId, changelog_id, target_id
from spark_jobs.named_rows import view_of
from spark_jobs.planning.plan import TablePlan

_SHOWN: Final = 3
_ROW_CHARACTERS: Final = 300
_OWN_FAULT: Final = (
    AnalysisException,
    ArithmeticException,
    ArrayIndexOutOfBoundsException,
    DateTimeException,
    IllegalArgumentException,  # NumberFormatException too
    SparkNoSuchElementException,
    SparkRuntimeException,
    SparkUpgradeException,
    UnsupportedOperationException,
)


def refuse_unsound(job: Job, plan: TablePlan, staged: tuple[StagedTable, ...]) -> None:
    """Raise AuditFailedError if a staged target fails a check, or gains or loses too many rows."""
    target = target_id(plan)
    for table in staged:
        if TableId(table.namespace, table.name) == target:
            _refuse_unsound(job, table, plan)


def _refuse_unsound(job: Job, staged: StagedTable, plan: TablePlan) -> None:
    config, table = plan.config, TableId(staged.namespace, staged.name)
    before = job.lake.rows(table, staged.base_snapshot)
    rows = job.lake.rows(table, staged.head_snapshot)
    assert rows is not None
    if config.max_row_swing is not None and before is not None:
        counts = live_rows(before).count(), live_rows(rows).count()
        _refuse_swing(job, staged, plan, config.max_row_swing, *counts)
    for check in config.checks:
        if found := _found(job, staged, rows, check):
            raise AuditFailedError(_failure(job, staged, check, found))


def _refuse_swing(
    job: Job, staged: StagedTable, plan: TablePlan, most: float, before: int, after: int
) -> None:
    """Raise AuditFailedError if a table, unless small, changes by more than `most`."""
    if before < SHARE_COUNTS_FROM or abs(after - before) <= most * before:
        return
    raise AuditFailedError(
        f"{_where(job, staged)} takes it from {before:,} rows to {after:,}, more than its "
        f"max_row_swing of {most} allows; {unpublished(job.pipeline)}. {look_at(job, plan)}. "
        f"{_of_full_load(plan)}If that is right, raise max_row_swing and run again. "
        f"{how_to_go_on(job)}"
    )


def look_at(job: Job, plan: TablePlan) -> str:
    """Return the command that shows the batch's changes of a table, which stay in its changelog
    when the batch fails."""
    of_batch = f"{BATCH_ID} = '{batch_to_name(job)}'"
    return f'Look: sluice sql "SELECT * FROM {changelog_id(plan).full_name} WHERE {of_batch}"'


def _of_full_load(plan: TablePlan) -> str:
    if plan.opening is None:
        return ""
    return (
        f"Epoch {plan.opening.epoch} begins with a full load (`full_loads`): rows that it has not "
        "brought yet are gone, and a load over several batches brings the rest with the next ones. "
    )


def _found(job: Job, staged: StagedTable, rows: DataFrame, check: Check) -> list[dict[str, object]]:
    """Return the first rows of a check, which reads a view of its own."""
    with view_of(rows) as view:
        try:
            found = job.spark.sql(check.sql.replace(TABLE, view)).limit(_SHOWN + 1)
            return _collected(found)
        except _OWN_FAULT as error:
            raise AuditFailedError(
                f"{_where(job, staged)} cannot be checked, so {unpublished(job.pipeline)}: "
                f"{check.name}: {str(error).splitlines()[0]}. Mend its sql and run again. "
                f"{how_to_go_on(job)}"
            ) from error


def _collected(found: DataFrame) -> list[dict[str, object]]:
    """Return the rows, with what Python lacks (years before 1, intervals) as Spark's text."""
    # By position, since a query may name two columns alike.
    placed = found.toDF(*map(str, range(len(found.columns))))
    texts = [
        F.col(f"`{f.name}`").cast("string") if _has_times(f.dataType) else F.col(f"`{f.name}`")
        for f in placed.schema
    ]
    rows = [row.asDict(recursive=True) for row in placed.select(texts).collect()]
    return [dict(zip(found.columns, row.values(), strict=True)) for row in rows]


def _has_times(kind: T.DataType) -> bool:
    match kind:
        case T.StructType():
            return any(_has_times(field.dataType) for field in kind)
        case T.ArrayType():
            return _has_times(kind.elementType)
        case T.MapType():
            return _has_times(kind.keyType) or _has_times(kind.valueType)
    return isinstance(kind, T.DatetimeType | T.YearMonthIntervalType)


def _failure(job: Job, staged: StagedTable, check: Check, found: list[dict[str, object]]) -> str:
    shown = "; ".join(_short(row) for row in found[:_SHOWN])
    more = " and more" if len(found) > _SHOWN else ""
    return (
        f"{_where(job, staged)} fails check {check.name}, so {unpublished(job.pipeline)}: "
        f"{shown}{more}. If the check is wrong, mend it and run again. {how_to_go_on(job)}"
    )


def _where(job: Job, staged: StagedTable) -> str:
    return f"{staged.full_name}: batch {job.manifest.batch_id}"


def _short(row: dict[str, object]) -> str:
    text = json.dumps(row, default=str, ensure_ascii=False)
    return text if len(text) <= _ROW_CHARACTERS else f"{text[:_ROW_CHARACTERS]}…"
