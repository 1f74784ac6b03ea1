"""The key of a table, by what its events and the configuration tell, without Spark."""

from __future__ import annotations

import pytest

from sluice.config.pipeline import Landing, Pipeline, TableConfig
from sluice.errors import PlanError
from spark_jobs.formats import FORMATS
from spark_jobs.planning.plan import plan_table
from spark_jobs.planning.table_inputs import StoredTable
from spark_jobs.planning.table_summary import Source, TableSummary

STORED = {"a": "string", "b": "string", "v": "string"}


def key(*told: str, hint: list[str] | None = None) -> tuple[str, ...]:
    """The key of a table that is stored with `a` and `b` for it; `told`: by an event."""
    pipeline = Pipeline(name="p", format="canal", namespace="shop", landing=Landing(url="landing"))
    summary = TableSummary(
        Source("shop", "", "t"), images={1: (*STORED,)}, keys={2: told} if told else {}
    )
    config = TableConfig(key=hint)
    fmt = FORMATS["canal"]
    return plan_table(pipeline, fmt, summary, config, StoredTable(STORED, ("a", "b"))).key


def test_the_order_of_a_keys_columns_is_the_stored_one() -> None:
    assert key("b", "a") == key("a", "b") == key() == ("a", "b")
    assert key("v", hint=["b", "a"]) == ("a", "b")


@pytest.mark.parametrize("told", [("a",), ("a", "v"), ("a", "b", "v")])
def test_other_columns_are_another_key(told: tuple[str, ...]) -> None:
    with pytest.raises(PlanError, match=r"but the stored table has \['a', 'b'\]"):
        key(*told)


def refusal(images: dict[int, tuple[str, ...]], *told: str) -> str:
    """Why a new table with the key `customer_id` in its configuration is not loaded."""
    pipeline = Pipeline(name="p", format="canal", namespace="shop", landing=Landing(url="landing"))
    summary = TableSummary(Source("shop", "", "t"), images=images, keys={2: told} if told else {})
    config = TableConfig(key=["customer_id"])
    with pytest.raises(PlanError) as raised:
        plan_table(pipeline, FORMATS["canal"], summary, config, StoredTable())
    return str(raised.value)


def test_a_key_that_no_event_has_is_refused_with_the_columns_and_the_key_of_the_events() -> None:
    told = refusal({1: ("v", "id")}, "id")
    assert "key columns ['customer_id'] are not in its events, which have id, v and tell" in told
    assert "tell the key ['id']; name others in `key:`" in told
    assert "which have id, v; name others" in refusal({1: ("v", "id")})
    assert "no row has come yet; name others" in refusal({})


def hint(images: dict[int, tuple[str, ...]]) -> str:
    """The line with which the error of a table without a key can be mended."""
    pipeline = Pipeline(name="p", format="ogg", namespace="shop", landing=Landing(url="landing"))
    summary = TableSummary(Source("shop", "", "t"), images=images)
    with pytest.raises(PlanError) as raised:
        plan_table(pipeline, FORMATS["ogg"], summary, TableConfig(), StoredTable())
    return str(raised.value).splitlines()[-1]


def test_where_no_column_is_known_none_is_offered_for_the_key() -> None:
    assert hint({1: ("v", "id")}) == "  shop.t: {key: [<columns>]}   # of id, v; [] for none"
    assert hint({}) == "  shop.t: {key: [<columns>]}   # [] for none"


def test_of_many_columns_beside_a_wrong_key_thirty_are_named() -> None:
    told = refusal({1: tuple(f"c{n:02}" for n in range(40))})
    assert "which have c00, c01, " in told
    assert "c29, 10 more; name others" in told
