"""Columns that get another name and another type: in every order the text of both where told."""

from __future__ import annotations

from datetime import date
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.spark.connect import INT, TEXT, money
from tests.spark.renamed import ddl, shop_of
from tests.spark.renamed import event as bare
from tests.spark.sandbox import Sandbox
from tests.spark.typed import event

pytestmark = pytest.mark.spark

FLOAT = {"type": "float", "optional": True}
PRICE = money(9, 2)
ORDERS = {"orders": {"key": ["id"], "modes": ["current", "history"]}}

RENAME = "ALTER TABLE orders RENAME COLUMN size TO girth, RENAME COLUMN price TO cost"
NUMBERS = [event("c", n, n, size=(FLOAT, 0.1), price=(PRICE, "AJY=")) for n in (1, 2)]
RENAMED = [ddl(10, RENAME)]
TEXTS = [event("u", 21, 2, girth=(TEXT, "L"), cost=(TEXT, "free"))]
# A float is the double that it is, and 1.50 has no zero at its end, as everywhere.
WAS = ("0.10000000149011612", "1.5")


def rows_of(shop: Sandbox, table: str, *columns: str) -> set[tuple[Any, ...]]:
    return {(r["id"], *(r.get(c) for c in columns)) for r in shop.rows(table)}


@pytest.mark.parametrize(
    "batches",
    [
        pytest.param([NUMBERS, RENAMED, TEXTS], id="in-order", marks=pytest.mark.long),
        pytest.param([TEXTS, RENAMED, NUMBERS], id="newest-first", marks=pytest.mark.long),
        pytest.param([NUMBERS, TEXTS, RENAMED], id="told-last", marks=pytest.mark.long),
        pytest.param([[*TEXTS, *NUMBERS, *RENAMED]], id="one"),
    ],
)
def test_on_type_change_string_makes_a_renamed_column_text(
    spark: SparkSession, tmp_path: Path, batches: list[list[Any]]
) -> None:
    pipeline = {"format": "debezium", "tables": ORDERS, "on_type_change": "string"}
    shop = Sandbox(spark, tmp_path, pipeline)
    for records in batches:
        shop.load_records(records)
    names = ("girth", "cost")
    assert rows_of(shop, "orders", *names) == {(1, *WAS), (2, "L", "free")}
    versions = {(1, *WAS), (2, *WAS), (2, "L", "free")}
    assert rows_of(shop, "orders__history", *names) == versions


FIRST = [event("c", n, n, size=(INT, n), weight=(TEXT, "light")) for n in (1, 2)]
TAKEN = [
    ddl(10, "ALTER TABLE `orders` DROP COLUMN `size`"),
    ddl(11, "ALTER TABLE orders RENAME COLUMN weight TO size"),
]
SINCE = [event("u", 21, 2, size=(TEXT, "heavy"))]


@pytest.mark.parametrize(
    "batches",
    [
        pytest.param([FIRST, TAKEN, SINCE], id="in-order"),
        pytest.param([TAKEN, SINCE, FIRST], id="statements-first", marks=pytest.mark.long),
        pytest.param([[*SINCE, *TAKEN, *FIRST]], id="one", marks=pytest.mark.long),
    ],
)
def test_a_dropped_name_that_a_column_of_another_type_gets(
    spark: SparkSession,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    batches: list[list[Any]],
) -> None:
    """Its statements come alone at first, where nothing says yet that the name is text too."""
    shop = Sandbox(spark, tmp_path, {"format": "debezium", "tables": ORDERS}).driven(monkeypatch)
    shop.run_each(*batches)
    both = ("size", "size__dropped")
    assert rows_of(shop, "orders", *both) == {(1, "light", "1"), (2, "heavy", None)}
    versions = {(1, "light", "1"), (2, "light", "2"), (2, "heavy", None)}
    assert rows_of(shop, "orders__history", *both) == versions
    types = shop.types("orders")
    assert (types["size"], types["size__dropped"]) == ("string", "string")


def test_hint_for_the_former_name_counts_in_every_batch(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second one with the name of now too, which finds it stored as a date."""
    shop = shop_of(spark, tmp_path, columns={"id": "int", "size": "date[days]"})
    statement = ddl(10, "ALTER TABLE orders RENAME COLUMN size TO girth")
    shop.driven(monkeypatch)
    renamed = [statement, bare("c", 11, id=2, girth=19724)]
    shop.run_each([bare("c", 1, id=1, size=19723)], renamed, [bare("c", 12, id=3, girth=19725)])
    days = {(1, date(2024, 1, 1)), (2, date(2024, 1, 2)), (3, date(2024, 1, 3))}
    assert rows_of(shop, "orders", "girth") == days
