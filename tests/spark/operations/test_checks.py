"""Checks of the configuration: what a batch would leave is judged before anybody sees it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from sluice.errors import AuditFailedError
from sluice.operations import stages
from sluice.operations.held_files import release
from sluice.operations.undo import undo_batch
from tests.spark.sandbox import Sandbox

pytestmark = pytest.mark.spark

# Python has no such times, and no dictionary two columns of one name.
POSITIVE = {
    "name": "positive",
    "sql": "SELECT id, amount, amount, DATE'-0044-03-15' AS day, "
    "array(TIMESTAMP'+12026-03-02 10:00:00') AS times FROM {table} WHERE amount < 0",
}
# More braces than the table's, and a table that is published already.
KNOWN = {
    "name": "known",
    "sql": "SELECT o.id, '{}' AS d FROM {table} o "
    "LEFT ANTI JOIN lake.shop.customers c ON o.id = c.id",
}


def project(**orders: Any) -> dict[str, Any]:
    tables = {
        "s.orders": {"key": ["id"], "columns": {"id": "bigint", "amount": "bigint"}, **orders},
        "s.customers": {"key": ["id"], "columns": {"id": "bigint", "amount": "bigint"}},
    }
    return {"format": "debezium", "tables": tables}


def event(lsn: int, ident: int, amount: int, table: str = "orders", op: str = "c") -> Any:
    source = {"connector": "postgresql", "db": "d", "schema": "s", "table": table, "lsn": lsn}
    row = {"id": ident, "amount": amount}
    before, after = (row, None) if op == "d" else (None, row)
    return {"op": op, "before": before, "after": after, "source": source, "ts_ms": 1}


@pytest.fixture
def shop(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Sandbox:
    """A shop with a published order and a published customer; drivers run in this process."""
    made = Sandbox(spark, tmp_path, project()).driven(monkeypatch)
    made.write("first.jsonl", [event(1, 1, 10), event(2, 1, 10, "customers")])
    stages.run(made.context())
    return made


def orders(shop: Sandbox) -> dict[int, int]:
    return {int(row["id"]): int(row["amount"]) for row in shop.rows("orders")}


def run(shop: Sandbox) -> str:
    """Why the run failed, or nothing."""
    _, failure = stages.run(shop.context())
    assert failure is None or isinstance(failure, AuditFailedError)
    return str(failure or "")


def test_a_row_that_a_check_finds_keeps_the_whole_batch_from_being_published(shop: Sandbox) -> None:
    shop.configure(**project(checks=[POSITIVE]))
    shop.write("bad.jsonl", [event(3, 2, -5), event(4, 3, 7), event(5, 2, 10, "customers")])
    error = run(shop)
    assert "shop.orders: batch " in error
    row = '{"id": 2, "amount": -5, "day": "-0044-03-15", "times": "[+12026-03-02 10:00:00]"}'
    assert f"fails check positive, so nothing is published: {row}." in error
    assert orders(shop) == {1: 10}
    assert len(shop.rows("customers")) == 1
    shop.configure(**project())
    assert run(shop) == ""
    assert orders(shop) == {1: 10, 2: -5, 3: 7}


@pytest.mark.long
def test_a_check_sees_the_batchs_own_rows_and_other_tables_as_published(shop: Sandbox) -> None:
    shop.configure(**project(checks=[POSITIVE, KNOWN]))
    shop.write("a.jsonl", [event(3, 1, 11, op="u")])
    assert run(shop) == ""
    both = shop.write("b.jsonl", [event(4, 2, 1), event(5, 2, 1, "customers")])
    assert 'fails check known, so nothing is published: {"id": 2, "d": "{}"}' in run(shop)
    assert both.key in shop.context().ledger.files.known()
    assert orders(shop) == {1: 11}


@pytest.mark.long
def test_a_batch_that_fails_its_check_waits_for_what_corrects_it(shop: Sandbox) -> None:
    shop.configure(**project(checks=[POSITIVE]))
    shop.write("bad.jsonl", [event(3, 2, -5)])
    batch = re.search(r"`sluice rollback p --batch (\S+)` .* `sluice release p --batch", run(shop))
    assert batch is not None
    undo_batch(shop.context(), batch[1])
    shop.write("good.jsonl", [event(4, 3, 7)])
    assert run(shop) == ""
    assert orders(shop) == {1: 10, 3: 7}

    shop.write("mended.jsonl", [event(6, 2, 5, op="u")])
    release(shop.context(), batch[1])
    assert run(shop) == ""
    assert orders(shop) == {1: 10, 2: 5, 3: 7}


@pytest.mark.long
def test_check_whose_query_fails_stops_the_batch(shop: Sandbox) -> None:
    queries = (
        "SELECT nothing FROM {table}",
        "SELECT id FROM {table} WHERE 1 / (id - id) > 0",
        "SELECT id FROM {table} WHERE split(cast(id AS string), '-')[1] = ''",
    )
    for sql in queries:
        shop.configure(**project(checks=[{"name": "odd", "sql": sql}]))
        shop.write(f"{len(sql)}.jsonl", [event(len(sql), 2, 5)])
        error = run(shop)
        assert "cannot be checked, so nothing is published: odd: [" in error
        assert orders(shop) == {1: 10}
        undo_batch(shop.context(), error.split("--batch ")[1].split("`")[0])


def test_a_table_does_not_lose_too_many_rows_at_once(shop: Sandbox) -> None:
    shop.configure(**project(max_row_swing=0.5))
    shop.write("many.jsonl", [event(100 + n, n, n) for n in range(2, 101)])
    assert run(shop) == ""  # one row is no table to judge a swing by
    shop.write("gone.jsonl", [event(300 + n, n, n, op="d") for n in range(1, 52)])
    error = run(shop)
    assert "takes it from 100 rows to 49, more than its max_row_swing of 0.5" in error
    assert 'sluice sql "SELECT * FROM shop__cdc.orders__changes WHERE _batch_id = ' in error
    assert len(orders(shop)) == 100
    shop.configure(**project(max_row_swing=0.51))
    assert run(shop) == ""
    assert len(orders(shop)) == 49


@pytest.mark.long
def test_rows_that_are_kept_though_deleted_count_as_gone(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop = Sandbox(spark, tmp_path, project(modes=["soft_delete"], max_row_swing=0.5))
    shop.driven(monkeypatch)
    shop.write("a.jsonl", [event(n, n, 1) for n in range(1, 121)])
    assert run(shop) == ""
    shop.write("b.jsonl", [event(200 + n, n, 1, op="d") for n in range(1, 121)])
    assert "from 120 rows to 0" in run(shop)
