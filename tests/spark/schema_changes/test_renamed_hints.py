"""What a hint, or a script of DDL, says of one name of a renamed column holds for all of them."""

from __future__ import annotations

import itertools
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from sluice.errors import PlanError
from tests.spark.connect import BIGINT
from tests.spark.renamed import ddl, event, shop_of
from tests.spark.sandbox import Sandbox
from tests.spark.typed import event as described

pytestmark = pytest.mark.spark

RENAMED = {"renamed_columns": {"size": "girth"}}
STATEMENT = ddl(10, "ALTER TABLE orders RENAME COLUMN size TO girth")
OLD = [event("c", 1, id=1, size="19.90"), event("c", 2, id=2, size="7")]
NEW = [event("u", 11, id=2, girth="8.50"), event("c", 12, id=3, girth="9.10")]
ORDERS = {"in-order": [OLD, NEW], "newest-first": [NEW, OLD], "one": [[*NEW, *OLD]]}
PRICE = "decimal(10,2)"


def girths(shop: Sandbox) -> dict[int, Any]:
    return {row["id"]: row["girth"] for row in shop.rows("orders")}


@pytest.mark.parametrize(
    ("hinted", "order", "policy"),
    [
        pytest.param(
            *each,
            id="-".join(each),
            marks=[] if each == ("size", "newest-first", "string") else [pytest.mark.long],
        )
        for each in itertools.product(("size", "girth"), ORDERS, ("fail", "string"))
    ],
)
def test_hint_for_one_name_counts_for_both_names(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    hinted: str, order: str, policy: str,
) -> None:  # fmt: skip
    """A batch that has only the other name too, be it the first one."""
    orders = {"key": ["id"], "columns": {"id": "int", hinted: PRICE}, **RENAMED}
    config = {"format": "debezium", "tables": {"orders": orders}, "on_type_change": policy}
    shop = Sandbox(spark, tmp_path, config).driven(monkeypatch)
    shop.run_each(*ORDERS[order])
    assert shop.types("orders")["girth"] == "decimal(10, 2)"
    assert girths(shop) == {1: Decimal("19.90"), 2: Decimal("8.50"), 3: Decimal("9.10")}


@pytest.mark.parametrize(
    "order",
    [
        pytest.param(order, marks=[] if order == "newest-first" else [pytest.mark.long])
        for order in ORDERS
    ],
)
def test_script_with_the_current_name_counts_for_both_names(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, order: str
) -> None:
    (tmp_path / "schema").mkdir()
    (tmp_path / "schema" / "shop.sql").write_text(
        "CREATE TABLE orders (id int NOT NULL, girth bigint, PRIMARY KEY (id));"
    )
    script = {"dialect": "mysql", "files": ["schema"]}
    config = {"format": "debezium", "ddl": script, "tables": {"orders": {"key": ["id"], **RENAMED}}}
    shop = Sandbox(spark, tmp_path, config).driven(monkeypatch)
    counted = {"19.90": "19", "8.50": "8", "9.10": "9"}

    def whole(records: list[Any]) -> list[Any]:
        rows = [record["after"] for record in records]
        values = [{k: counted.get(v, v) for k, v in row.items()} for row in rows]
        return [r | {"after": row} for r, row in zip(records, values, strict=True)]

    shop.run_each(*map(whole, ORDERS[order]))
    assert girths(shop) == {1: 19, 2: 8, 3: 9}


def test_a_hint_that_changes_values_is_wanted_of_both_names_at_once(
    spark: SparkSession, tmp_path: Path
) -> None:
    """The first batch has only the name without one: -1 there would be 18446744073709551615."""
    hints = {"id": "int", "size": "decimal(20,0)[unsigned]"}
    shop = shop_of(spark, tmp_path, columns=hints, **RENAMED)
    with pytest.raises(PlanError, match=r"'size' and 'girth' are one .*; hint 'girth' too"):
        shop.load_records([described("c", 1, 1, girth=(BIGINT, -1))])


@pytest.mark.parametrize("policy", ["fail", "string"])
def test_rows_loaded_before_the_rename_was_known_are_not_mixed_with_hinted_ones(
    spark: SparkSession, tmp_path: Path, policy: str
) -> None:
    """9.10 as it came is no text of a decimal; with a hint for it both names are as they were."""
    hints = {"id": "int", "size": PRICE}
    orders = {"key": ["id"], "columns": hints}
    config = {"format": "debezium", "on_type_change": policy}
    shop = Sandbox(spark, tmp_path, {**config, "tables": {"orders": orders}})
    shop.load_records([event("c", 12, id=3, girth="9.10")])
    with pytest.raises(PlanError, match=r"not known when rows of 'girth' were stored as string"):
        shop.load_records([STATEMENT, *OLD])
    assert girths(shop) == {3: "9.10"}
    if policy == "string":
        orders["columns"] = hints | {"girth": "string"}
        shop.configure(**config, tables={"orders": orders})
        shop.load_records([STATEMENT, *OLD])
        assert girths(shop) == {1: "19.9", 2: "7", 3: "9.10"}
