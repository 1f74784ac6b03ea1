"""Columns of the source that have names of Sluice or Iceberg: `_op` is stored as `_op__source`."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import permutations
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from sluice.names import RESERVED_COLUMNS
from sluice.source_names import ICEBERG_COLUMNS
from tests.spark.renamed import PLACEHOLDER, Row, ddl, event, shop_of
from tests.spark.sandbox import Sandbox, driven_here

pytestmark = pytest.mark.spark

TAKEN = sorted(RESERVED_COLUMNS | ICEBERG_COLUMNS)
BATCHES = (
    [event("c", 1, id=1, title="a"), event("c", 2, id=2, title="b")],
    [
        ddl(10, "ALTER TABLE orders ADD COLUMN _File int DEFAULT 7"),
        ddl(11, "ALTER TABLE orders RENAME COLUMN title TO _position"),
    ],
    [event("u", 20, id=2, _position="since", _file=7)],
)

ORDERS = [
    order if order == (2, 1, 0) else pytest.param(order, marks=pytest.mark.long)
    for order in permutations(range(3))
]


@pytest.fixture
def shop(spark: SparkSession, tmp_path: Path) -> Iterator[Sandbox]:
    """Table `orders`, keyed by `id`; its batches are in the ledger, so that verify has them."""
    with driven_here(shop_of(spark, tmp_path)) as lake:
        yield lake


def configure(shop: Sandbox, **table: Any) -> None:
    shop.configure(format="debezium", tables={"orders": {"key": ["id"], **table}})


@pytest.mark.parametrize(
    "modes",
    [["current"], pytest.param(["soft_delete", "history", "append"], marks=pytest.mark.long)],
)
def test_every_taken_name_has_another_one_in_the_table(shop: Sandbox, modes: list[str]) -> None:
    configure(shop, modes=modes)
    old: Row = {name: f"{name} old" for name in TAKEN}
    new: Row = {name: f"{name} new" for name in TAKEN}
    partial: Row = {**dict.fromkeys(TAKEN, PLACEHOLDER), "_op": "later"}
    complete = [event("c", 10, id=1, **old), event("u", 20, id=1, **new)]
    shop.run_each([event("u", 30, id=1, **partial)], complete)
    wanted = {f"{name}__source": text for name, text in new.items()} | {"_op__source": "later"}
    (found,) = shop.rows("orders")
    assert {name: found[name] for name in wanted} == wanted
    assert shop.agrees()


def test_case_of_a_taken_name_does_not_matter(shop: Sandbox) -> None:
    configure(shop, columns={"id": "int", "_DELETED": "boolean"})
    shop.run_each([event("c", 1, id=1, _Deleted="true"), event("c", 2, id=2, _deleted="false")])
    rows = {row["id"]: row["_deleted__source"] for row in shop.rows("orders")}
    assert rows == {1: True, 2: False}


@pytest.mark.parametrize("order", ORDERS, ids=str)
def test_statements_with_taken_names_are_followed_in_every_order(
    shop: Sandbox, order: tuple[int, ...]
) -> None:
    configure(shop, columns={"id": "int", "_file": "int"})
    shop.run_each(*(BATCHES[number] for number in order))
    rows = shop.rows("orders")
    found = {row["id"]: (row["_position__source"], row["_file__source"]) for row in rows}
    assert found == {1: ("a", 7), 2: ("since", 7)}
    assert shop.agrees()


def test_a_key_may_have_a_taken_name(shop: Sandbox) -> None:
    configure(shop, key=["_partition"], columns={"_partition": "int"})
    moved = event("u", 3, {"_partition": 1}, _partition=2, v="moved")
    before = [event("c", 1, _partition=1, v="first"), event("c", 2, _partition=3, v="other")]
    shop.run_each([moved], before)
    rows = {row["_partition__source"]: row["v"] for row in shop.rows("orders")}
    assert rows == {2: "moved", 3: "other"}
    assert shop.agrees()


def test_a_table_without_a_key_counts_rows_by_columns_with_taken_names(shop: Sandbox) -> None:
    configure(shop, key=[])
    row: Row = {"_batch_id": "1", "_counted": None}
    shop.run_each([event("d", 3, row)], [event("c", 1, **row), event("c", 2, **row)])
    assert shop.rows("orders") == [{"_batch_id__source": "1", "_counted__source": None}]
    assert shop.agrees()


def test_a_record_with_a_taken_name_and_its_replacement_is_quarantined(shop: Sandbox) -> None:
    """As one with two spellings, if another record of the table shows that one is enough."""
    configure(shop, columns={"id": "int"})
    both = event("c", 2, id=2, _Op="a", _op__source="b")
    shop.run_each([event("c", 1, id=1, _op__source="x")], [both, event("c", 3, id=3, _op="c")])
    assert {row["id"]: row["_op__source"] for row in shop.rows("orders")} == {1: "x", 3: "c"}
    (row,) = shop.quarantined()
    assert "duplicate_column" in (row["reason"], row["detail"])


@pytest.mark.long
@pytest.mark.parametrize("modes", [["current"], ["soft_delete"]], ids="-".join)
def test_a_table_is_partitioned_by_columns_with_taken_names(
    shop: Sandbox, modes: list[str]
) -> None:
    fields = ["_file", "_op", "bucket(2, _Partition)", "_is_deleted", "days(_source_ts)"]
    configure(shop, modes=modes, partition_by=fields)
    row: Row = dict.fromkeys(("_file", "_op", "_Partition", "_is_deleted", "_source_ts"), "x")
    shop.run_each([event("c", 1, id=1, **row)])
    spec = shop.catalog.load_table(("shop", "orders")).spec()
    own = "_is_deleted" if modes == ["soft_delete"] else "_is_deleted__source"
    named = [field.name for field in spec.fields]
    assert named == [
        "_file__source", "_op__source", "_Partition__source_bucket", own, "_source_ts_day",
    ]  # fmt: skip
    assert shop.rows("orders")[0]["_file__source"] == "x"
