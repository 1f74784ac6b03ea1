"""The key of a table, by what its events and the configuration tell, without Spark."""

from __future__ import annotations

import pytest

from sluice.config.pipeline import Landing, Pipeline, TableConfig
from sluice.errors import PlanError
from spark_jobs.formats import FORMATS
from spark_jobs.planning.discover import Source, TableSummary
from spark_jobs.planning.plan import plan_table
from spark_jobs.planning.table_inputs import StoredTable

STORED = {"a": "string", "b": "string", "v": "string"}


def key(*told: str, hint: list[str] | None = None) -> tuple[str, ...]:
    """The key of a table that is stored with `a` and `b` for it; `told`: by an event."""
    pipeline = Pipeline(name="p", format="canal", namespace="shop", landing=Landing(url="landing"))
    found = TableSummary(
        Source("shop", "", "t"), images={1: (*STORED,)}, keys={2: told} if told else {}
    )
    config = TableConfig(key=hint)
    fmt = FORMATS["canal"]
    return plan_table(pipeline, fmt, found, config, StoredTable(STORED, ("a", "b"))).key


def test_the_order_of_a_keys_columns_is_the_stored_one() -> None:
    assert key("b", "a") == key("a", "b") == key() == ("a", "b")
    assert key("v", hint=["b", "a"]) == ("a", "b")


@pytest.mark.parametrize("told", [("a",), ("a", "v"), ("a", "b", "v")])
def test_other_columns_are_another_key(told: tuple[str, ...]) -> None:
    with pytest.raises(PlanError, match=r"but the stored table has \['a', 'b'\]"):
        key(*told)
