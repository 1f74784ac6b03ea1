"""A table that is dropped, or made by CREATE OR REPLACE TABLE, before a row of it came."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from sluice.errors import PlanError
from sluice.operations import refolding
from sluice.operations.held_files import release
from tests.spark.sandbox import Sandbox, total

pytestmark = pytest.mark.spark
Row = dict[str, Any]


def row(ident: int, pos: int) -> Row:
    """Of Maxwell, which tells no types."""
    place = {"database": "shop", "table": "orders", "ts": pos, "position": f"bin.000001:{pos}"}
    data = {"id": ident, "pos": pos}
    return {"type": "insert", "data": data, "xid": pos, "commit": True, **place}


def statement(text: str, pos: int = 10, kind: str = "table-create") -> Row:
    place = {"database": "shop", "table": "orders", "ts": pos, "position": f"bin.000001:{pos}"}
    return {"type": kind, "sql": text, **place}


MADE = [statement("CREATE OR REPLACE TABLE `orders` (`id` int PRIMARY KEY, `pos` int)")]
DROPPED = [statement("DROP TABLE IF EXISTS `orders`", 9, "table-drop")]
OLD = [row(1, 1), row(2, 2)]
NEW = [row(2, 11), row(3, 12)]
LEFT = {"2": "11", "3": "12"}


def shop_of(spark: SparkSession, root: Path, monkeypatch: pytest.MonkeyPatch) -> Sandbox:
    """Nobody tells a type."""
    tables = {"orders": {"key": ["id"]}}
    config = {"format": "maxwell", "tables": tables, "on_drop_table": "empty"}
    return Sandbox(spark, root, config).driven(monkeypatch)


def places(shop: Sandbox) -> dict[str, str]:
    return {found["id"]: found["pos"] for found in shop.rows("orders")}


@pytest.mark.parametrize(
    "batches",
    [
        pytest.param([MADE, NEW], id="made-first"),
        pytest.param([DROPPED, MADE, NEW], id="dropped-first", marks=pytest.mark.long),
        pytest.param([[*MADE, *MADE], NEW, OLD + DROPPED + MADE], id="told-again"),
        pytest.param([NEW, MADE], id="rows-first", marks=pytest.mark.long),
        pytest.param([[*MADE, *NEW]], id="one", marks=pytest.mark.long),
        pytest.param([[*MADE, *NEW, *OLD]], id="one-with-old-rows", marks=pytest.mark.long),
        pytest.param([NEW, OLD, MADE], id="made-last", marks=pytest.mark.long),
    ],
)
def test_early_drop_needs_no_types_and_counts_in_every_order(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, batches: list[list[Row]]
) -> None:
    shop = shop_of(spark, tmp_path, monkeypatch)
    shop.run_each(*batches)
    assert places(shop) == LEFT
    assert set(shop.types("orders").values()) == {"string"}
    assert shop.agrees()


@pytest.mark.long
def test_rows_older_than_an_early_drop_stop_until_the_drop_is_loaded_again(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Loaded after them it empties the table; as long as it counts, it does not let them in."""
    shop = shop_of(spark, tmp_path, monkeypatch)
    made, _ = shop.run_each(MADE, NEW)
    shop.write("old.jsonl", OLD)
    with pytest.raises(PlanError, match=rf"shop\.orders: batch {made} dropped or replaced it at"):
        shop.run()
    assert places(shop) == LEFT
    refolding.undo_or_refold(shop.context(), made)
    shop.run()
    release(shop.context(), made)
    assert total(shop.run()).applied == 1
    assert places(shop) == LEFT
    shop.run_each([row(1, 3)])
    assert places(shop) == LEFT
    assert shop.agrees()


def test_on_drop_table_fail_names_the_statement(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop = shop_of(spark, tmp_path, monkeypatch)
    shop.configure(format="maxwell", on_drop_table="fail", tables={"orders": {"key": ["id"]}})
    for records, named in ((MADE, "CREATE OR REPLACE TABLE"), (DROPPED, "DROP TABLE")):
        with pytest.raises(PlanError, match=rf"shop\.orders: a {named} came, and on_drop_table"):
            shop.load_records(records)
