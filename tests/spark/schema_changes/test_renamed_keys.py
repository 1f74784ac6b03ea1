"""A column of the key that the source renamed: every row stays the one that it is."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from sluice.errors import PlanError
from sluice.names import RESERVED_COLUMNS
from sluice.operations import refolding
from sluice.operations.reprocess import reprocess
from tests.spark.renamed import ddl, event
from tests.spark.sandbox import Sandbox

pytestmark = pytest.mark.spark

RENAME = "ALTER TABLE orders RENAME COLUMN id TO order_id"
BEFORE = [
    event("c", 1, id=1, note="untouched"),
    event("c", 2, id=2, note="touched"),
    event("c", 3, id=3, note="given up"),
    event("c", 4, id=4, note="moved"),
]
RENAMED = [ddl(10, RENAME)]
SINCE = [
    event("u", 11, {"order_id": 2, "note": "touched"}, order_id=2, note="touched since"),
    event("d", 12, {"order_id": 3, "note": "given up"}),
    event("u", 13, {"order_id": 4, "note": "moved"}, order_id=5, note="moved"),
    event("c", 14, order_id=6, note="new"),
]
WANTED = {1: "untouched", 2: "touched since", 5: "moved", 6: "new"}
VERSIONS = 4 + 3
TABLE = {"key": ["id"], "columns": {"id": "int"}, "modes": ["current", "history"]}


@pytest.fixture
def lake(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Sandbox:
    """With a ledger; drivers run in here."""
    return shop_of(spark, tmp_path, monkeypatch)


def shop_of(
    spark: SparkSession, root: Path, monkeypatch: pytest.MonkeyPatch, **table: Any
) -> Sandbox:
    shop = Sandbox(spark, root, {"format": "debezium", "tables": {"orders": TABLE | table}})
    return shop.driven(monkeypatch)


def notes(shop: Sandbox, key: str = "id") -> dict[int, str]:
    return {row[key]: row["note"] for row in shop.rows("orders")}


def columns(shop: Sandbox) -> set[str]:
    schema = shop.catalog.load_table(("shop", "orders")).schema()
    return {field.name for field in schema.fields} - RESERVED_COLUMNS


@pytest.mark.parametrize(
    "batches",
    [
        pytest.param([BEFORE, RENAMED, SINCE], id="in-order", marks=pytest.mark.long),
        pytest.param([RENAMED, SINCE, BEFORE], id="newest-first", marks=pytest.mark.long),
        pytest.param([[*SINCE, *RENAMED, *BEFORE]], id="one", marks=pytest.mark.long),
        pytest.param([[*BEFORE[:2], *SINCE[1:], *RENAMED], [SINCE[0], *BEFORE[2:]]], id="mixed"),
    ],
)
def test_rows_are_known_by_all_names_of_their_key(lake: Sandbox, batches: list[Any]) -> None:
    lake.run_each(*batches)
    assert notes(lake) == WANTED
    assert len(lake.rows("orders__history")) == VERSIONS
    assert "order_id" not in columns(lake)
    assert lake.agrees()


@pytest.mark.parametrize("key", ["id", "order_id"])
@pytest.mark.long
def test_renamed_columns_of_the_configuration_rename_the_key(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, key: str
) -> None:
    shop = shop_of(spark, tmp_path, monkeypatch, renamed_columns={"id": "order_id"}, key=[key])
    shop.run_each(SINCE, BEFORE)
    assert notes(shop, key) == WANTED
    assert columns(shop) == {key, "note"}
    assert shop.agrees()


@pytest.mark.long
def test_an_undone_rename_leaves_the_rows(lake: Sandbox) -> None:
    with_rename = lake.run_each(BEFORE, RENAMED, SINCE)[1]
    refolding.undo_or_refold(lake.context(), with_rename)
    refolding.rebuild(lake.context())
    assert notes(lake) == WANTED
    assert lake.agrees()


@pytest.mark.long
def test_records_with_an_unknown_name_of_the_key_wait_in_quarantine(lake: Sandbox) -> None:
    lake.run_each(BEFORE, SINCE)
    assert notes(lake) == {n: row["after"]["note"] for n, row in enumerate(BEFORE, 1)}
    lake.configure(
        format="debezium", tables={"orders": TABLE | {"renamed_columns": {"id": "order_id"}}}
    )
    reprocess(lake.context())
    assert notes(lake) == WANTED
    assert {row.get("order_id") for row in lake.rows("orders")} == {None}
    assert lake.agrees()


@pytest.mark.long
def test_first_batch_without_the_key_refers_to_renamed_columns(lake: Sandbox) -> None:
    lake.write("since.jsonl", SINCE)
    with pytest.raises(PlanError, match="renamed_columns"):
        lake.run()


SWAPPED = [ddl(10, "ALTER TABLE orders CHANGE id legacy_id int, ADD COLUMN id bigint")]
BOTH = [event("c", 20, id=100, legacy_id=1, note="other")]


@pytest.mark.parametrize(
    "batches", [*itertools.permutations([BEFORE, SWAPPED])], ids=("after", "before")
)
def test_a_key_whose_name_another_column_got_stops_the_batch(
    lake: Sandbox, batches: tuple[list[Any], ...]
) -> None:
    with pytest.raises(PlanError, match=r"'id' of the key, and id and legacy_id are also"):
        lake.run_each(*batches, BOTH)
