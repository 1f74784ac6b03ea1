"""Names of columns that Sluice and Iceberg keep for themselves."""

from __future__ import annotations

import pytest

from sluice.config.pipeline import Landing, Pipeline, TableConfig
from sluice.errors import PlanError
from sluice.source_names import is_reserved
from spark_jobs.formats import FORMATS
from spark_jobs.planning.discover import Source, TableSummary
from spark_jobs.planning.plan import plan_table
from spark_jobs.planning.table_inputs import StoredTable


@pytest.mark.parametrize(
    "name", ["_position", "_BATCH_ID", "_Op", "_FILE", "_Deleted", "_sluice_x", "_SLUICE_nocase_a"]
)
def test_a_reserved_name_is_one_in_any_case(name: str) -> None:
    assert is_reserved(name)


@pytest.mark.parametrize("name", ["position", "batch_id", "_batch", "sluice_x", "_sluice"])
def test_unreserved_names_are_accepted(name: str) -> None:
    assert not is_reserved(name)


def test_a_column_that_is_called_as_sluices_own_but_for_case_is_refused_at_once() -> None:
    pipeline = Pipeline(name="p", format="maxwell", namespace="n", landing=Landing(url="landing"))
    found = TableSummary(Source("db", "", "t"), images={1: ("id", "_BATCH_ID")})
    with pytest.raises(PlanError, match=r"columns \['_BATCH_ID'\] have names that Sluice"):
        plan_table(pipeline, FORMATS["maxwell"], found, TableConfig(key=["id"]), StoredTable())
