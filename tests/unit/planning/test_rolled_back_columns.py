"""A batch whose tables lost a column, by a rollback, after the batch was decoded."""

from __future__ import annotations

import pytest

from sluice.config.pipeline import TableConfig
from sluice.errors import TransientError
from sluice.modes import CURRENT, SOFT_DELETE
from sluice.types.columns import parse_type
from spark_jobs.planning.plan import TablePlan
from spark_jobs.planning.planned_column import PlannedColumn
from spark_jobs.planning.stale_plan import refuse_missing_columns
from spark_jobs.planning.table_columns import history_columns, target_columns
from spark_jobs.planning.table_summary import Source, TableSummary

SOURCE = Source("shop", "public", "orders")
COLUMNS = (PlannedColumn("id", parse_type("int"), {}), PlannedColumn("note", parse_type("int"), {}))
PLAN = TablePlan(
    SOURCE, "shop", "orders", COLUMNS, ("id",), TableConfig(), TableSummary(SOURCE),
    modes=(CURRENT, SOFT_DELETE),
)  # fmt: skip


@pytest.mark.parametrize("gone", ["note", "_is_deleted"])
def test_a_column_that_is_gone_is_refused(gone: str) -> None:
    wanted = target_columns(PLAN)
    stored = [column.name for column in wanted if column.name != gone]
    with pytest.raises(TransientError, match=r"shop\.orders: a batch was rolled back"):
        refuse_missing_columns(PLAN, "b2", wanted, stored)


def test_more_columns_than_planned_are_none_that_is_gone() -> None:
    wanted = history_columns(PLAN)
    refuse_missing_columns(PLAN, "b2", wanted, [*(c.name for c in wanted), "other"])
