"""A batch that told ADD COLUMN … DEFAULT, and what is left when it is undone beneath others."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from sluice.operations import refolding
from sluice.operations.held_files import release
from tests.spark.renamed import PLACEHOLDER, ddl, event, shop_of
from tests.spark.sandbox import Sandbox

pytestmark = pytest.mark.spark

ADD = ddl(10, "ALTER TABLE orders ADD c text DEFAULT '5'")


@pytest.fixture
def lake(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Sandbox:
    """With all modes; drivers run in here."""
    shop = shop_of(spark, tmp_path, modes=["current", "history", "append"])
    shop.driven(monkeypatch)
    return shop


@pytest.mark.long
def test_undo_removes_the_batchs_events_that_hold_its_default(lake: Sandbox) -> None:
    """The undoing batch reads them without it, while they are stored with it."""
    _, with_default, _ = lake.run_each(
        [event("c", 1, id=1, v="x")],
        [event("c", 5, id=2, v="x"), ADD, event("c", 12, id=3, v="x", c="7")],
        [event("c", 20, id=4, v="x", c="8")],
    )
    refolding.undo_or_refold(lake.context(), with_default)
    for table in ("orders", "orders__events"):
        assert sorted((r["id"], r["c"]) for r in lake.rows(table)) == [(1, None), (4, "8")], table
    assert lake.agrees()


@pytest.mark.long
def test_rows_that_were_put_together_with_the_default_lose_it(lake: Sandbox) -> None:
    """Those of keys that the batch did not touch, above the statement."""
    _, with_default, _ = lake.run_each(
        [event("c", 1, id=1, v="x")],
        [ADD, event("c", 11, id=2, v="x", c="7")],
        [event("u", 12, id=1, v="y", c=PLACEHOLDER)],
    )
    assert [(r["id"], r["c"]) for r in lake.rows("orders") if r["id"] == 1] == [(1, "5")]
    refolding.undo_or_refold(lake.context(), with_default)
    assert [(r["id"], r["v"], r["c"]) for r in lake.rows("orders")] == [(1, "y", None)]
    assert [(r["id"], r["c"]) for r in lake.rows("orders__history")] == [(1, None)] * 2
    assert lake.agrees()


def default_undone(lake: Sandbox) -> str:
    """Undo the batch of a default that equals a value of an earlier column; return its id."""
    add = ddl(3, "ALTER TABLE orders ADD d text DEFAULT '7'")
    _, with_default, _ = lake.run_each(
        [event("c", 1, id=1, d="7")],
        [add, event("c", 4, id=2, d="1")],
        [event("c", 5, id=3, d="2")],
    )
    refolding.undo_or_refold(lake.context(), with_default)
    return with_default


def test_a_value_of_its_own_that_equals_the_default_stays(lake: Sandbox) -> None:
    default_undone(lake)
    for table in ("orders", "orders__history", "orders__events"):
        assert sorted((r["id"], r["d"]) for r in lake.rows(table)) == [(1, "7"), (3, "2")], table


@pytest.mark.long
def test_a_value_that_equals_the_default_stays_with_its_column(lake: Sandbox) -> None:
    """The drop of the column that it is of comes later than the batch that is undone."""
    with_default = default_undone(lake)
    lake.run_each([ddl(2, "ALTER TABLE orders DROP d")])
    release(lake.context(), with_default)
    lake.run()
    for table in ("orders", "orders__history", "orders__events"):
        found = sorted((r["id"], r["d"], r["d__dropped"]) for r in lake.rows(table))
        assert found == [(1, "7", "7"), (2, "1", None), (3, "2", None)], table
    assert lake.agrees()
