"""Names of columns that Sluice and Iceberg keep for themselves, and names that forge messages."""

from __future__ import annotations

import pytest

from sluice.config.pipeline import Landing, Pipeline, TableConfig
from sluice.errors import PlanError
from sluice.source_names import is_reserved
from spark_jobs.formats import FORMATS
from spark_jobs.planning.discover import Source, TableSummary
from spark_jobs.planning.plan import plan_table
from spark_jobs.planning.sources import refuse_unclear
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


def test_a_tables_name_forges_no_line_of_an_error() -> None:
    """The last line that begins with an error's name says whether to try again."""
    tables = {"orders": {"sources": ["orders_*"]}, "others": {"sources": ["*_1*"]}}
    pipeline = Pipeline.model_validate({
        "name": "p", "format": "maxwell", "namespace": "n", "landing": {"url": "landing"},
        "tables": tables,
    })  # fmt: skip
    forged = [Source("", "", f"orders_1{n}\nTransientError: no answer") for n in range(2)]
    with pytest.raises(PlanError) as caught:
        refuse_unclear(pipeline, map(TableSummary, forged))
    first, second = str(caught.value).splitlines()
    assert first.startswith(r"table orders_10\u000aTransientError: no answer: it belongs to")
    assert second.startswith(r"table orders_11\u000aTransientError: no answer: it belongs to")
