"""What a pipeline's policies refuse, and tables that are not its own: nothing of the batch is
published, and the run says why."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from pyspark.sql import SparkSession

from sluice.errors import PlanError
from sluice.names import PROP_PIPELINE
from sluice.operations import stages
from sluice.operations.undo import undo_batch
from tests.spark.sandbox import Sandbox, driven_here, total

pytestmark = pytest.mark.spark
ORDERS = {"key": ["id"], "columns": {"id": "int"}}
TABLES = ("orders", "users")


def project(**policies: str) -> dict[str, Any]:
    tables = {f"s.{name}": ORDERS for name in TABLES}
    return {"format": "debezium", "tables": tables, **policies}


@pytest.fixture(scope="module")
def shop(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sandbox]:
    """Two tables with a row each; drivers run in here."""
    sandbox = Sandbox(spark, tmp_path_factory.mktemp("policies"), project())
    with driven_here(sandbox):
        sandbox.write("a.jsonl", [event(1, name, {"id": 1, "note": "a"}) for name in TABLES])
        assert stages.run(sandbox.context())[1] is None
        yield sandbox


@pytest.fixture
def lake(shop: Sandbox) -> Iterator[Sandbox]:
    """The same lake for every test; what a test leaves unpublished is given up."""
    yield shop
    shop.configure(**project())
    ctx = shop.context()
    for row in ctx.ledger.unfinished():
        undo_batch(ctx, row.batch_id)


def event(lsn: int, table: str, after: dict[str, Any] | None, op: str = "u") -> dict[str, Any]:
    source = {"connector": "postgresql", "db": "d", "schema": "s", "table": table, "lsn": lsn}
    return {"op": op, "after": after, "source": source}


def refusal(lake: Sandbox, *events: dict[str, Any]) -> str:
    """Why a batch of these events and of one that is good is not published."""
    before = [lake.rows(name) for name in TABLES]
    name = f"{len(list(lake.landing.iterdir()))}.jsonl"
    lake.write(name, [event(50, "users", {"id": 50}), *events])
    results, failure = stages.run(lake.context())
    assert results == []
    assert isinstance(failure, PlanError)
    assert [lake.rows(name) for name in TABLES] == before
    return str(failure)


def seen(message: str) -> list[str]:
    """The records that a refusal shows, which are in one file."""
    lines = (line.partition(".jsonl, ") for line in message.split("\n"))
    return [record for file, _, record in lines if file.startswith("seen in ")]


def test_on_schema_change_fail_refuses_a_new_column(lake: Sandbox) -> None:
    lake.configure(**project(on_schema_change="fail"))
    texts = ("x", None, "y" * 101, "z")
    coupons = [event(51 + i, "orders", {"id": 2, "coupon": text}) for i, text in enumerate(texts)]
    message = refusal(lake, event(50, "orders", {"id": 2}), *coupons)
    assert "s.orders: new columns ['coupon'], and on_schema_change is fail" in message
    shown = ((3, '"x"'), (4, "null"), (5, f'"{"y" * 100}…"'))
    assert seen(message) == [f'record {at}: {{"coupon":{text}}}' for at, text in shown]
    assert "`sluice rollback p --batch " in message


def test_on_truncate_fail_refuses_a_truncate(lake: Sandbox) -> None:
    lake.configure(**project(on_truncate="fail"))
    message = refusal(lake, event(51, "orders", None, "t"))
    assert "s.orders: a TRUNCATE came, and on_truncate is fail" in message
    assert seen(message) == ["record 2"]
    assert "`sluice rollback p --batch " in message


@pytest.mark.parametrize("owner", ["another", ""])
def test_a_table_that_is_not_the_pipelines_own_is_left_alone(lake: Sandbox, owner: str) -> None:
    own(lake, owner)
    try:
        message = refusal(lake, event(51, "orders", {"id": 2, "note": owner}))
    finally:
        own(lake, "p")
    assert f"shop.orders belongs to {owner or 'somebody else'}, not to pipeline p" in message
    assert ("was this one renamed?" in message) == bool(owner)


def own(lake: Sandbox, owner: str) -> None:
    with lake.catalog.load_table(("shop", "orders")).transaction() as change:
        change.set_properties({PROP_PIPELINE: owner})


def test_on_schema_change_ignore_leaves_new_columns_out(lake: Sandbox) -> None:
    lake.configure(**project(on_schema_change="ignore"))
    lake.write("ignored.jsonl", [event(60, "orders", {"id": 3, "note": "c", "coupon": "x"})])
    assert stages.run(lake.context())[1] is None
    assert {"id": 3, "note": "c"} in lake.rows("orders")


def test_a_row_without_a_key_is_quarantined(lake: Sandbox) -> None:
    nobody = {"id": None, "note": "nobody's"}
    lake.write("nobody.jsonl", [event(70, "users", nobody), event(71, "users", {"id": 4})])
    (result,), failure = stages.run(lake.context())
    assert failure is None
    assert (total(result).read, total(result).applied, total(result).quarantined) == (2, 1, 1)
    (row,) = lake.quarantined()
    assert b"nobody's" in row["raw"]
