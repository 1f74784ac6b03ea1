"""maintain: manifests and delete files that are many become few, once, and the rows stay."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import pytest
from pyspark.sql import SparkSession

from sluice.names import branch_name
from spark_jobs.lake.table_id import TableId
from spark_jobs.maintaining import procedures, steps
from tests.spark.shop import Shop, orders

pytestmark = [pytest.mark.spark, pytest.mark.long]
KEYS: Final = range(1, 7)
POSITION_DELETES: Final = 1
ORDERS: Final = TableId("shop", "orders")
PIPELINE: Final[dict[str, Any]] = {
    "format": "debezium",
    "tables": {"public.orders": {"key": ["id"], "columns": {"id": "int", "status": "string"}}},
    "maintenance": {"small_files": 3, "delete_share": 1.0},
}


@pytest.fixture
def shop(spark: SparkSession, tmp_path: Path) -> Shop:
    """Six rows of a file each."""
    shop = Shop(spark, tmp_path, PIPELINE)
    for key in KEYS:
        shop.run(*orders(("c", key, key, "new")))
    return shop


def update_two_by_two(shop: Shop) -> None:
    """In six batches all rows are changed twice."""
    for lsn, key in enumerate((*KEYS[::2], *KEYS[::2])):
        at = 10 + 2 * lsn
        shop.run(*orders(("u", at, key, f"at {at}"), ("u", at + 1, key + 1, f"at {at}")))


def test_branches_of_finished_batches_are_dropped(shop: Shop) -> None:
    table, (done, *_) = shop.table("orders"), shop.published
    dead, other = branch_name(done, "a-1"), branch_name("of-nobody", "a-1")
    for name in (dead, other):
        table.manage_snapshots().create_branch(table.current_snapshot().snapshot_id, name).commit()
    assert steps.drop_dead_branches(shop.upkeep(dry_run=True), ORDERS) == "1 branch"
    assert steps.drop_dead_branches(shop.upkeep(), ORDERS) == "1 branch"
    refs = shop.table("orders").metadata.refs
    assert (dead in refs, other in refs) == (False, True)
    assert steps.drop_dead_branches(shop.upkeep(), ORDERS) == ""


def delete_files(shop: Shop) -> int:
    return int(shop.table("orders").inspect.delete_files().num_rows)


def manifests(shop: Shop) -> int:
    return int(shop.table("orders").inspect.manifests().num_rows)


def test_many_manifests_become_few_once(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    rows, before = shop.seen(), manifests(shop)
    assert steps.rewrite_manifests(shop.upkeep(), ORDERS) == ""  # not many yet
    monkeypatch.setattr(procedures, "MANIFESTS", before)
    assert steps.rewrite_manifests(shop.upkeep(), ORDERS).startswith(f"{before} → ")
    assert manifests(shop) < before
    assert shop.seen() == rows
    assert steps.rewrite_manifests(shop.upkeep(), ORDERS) == ""


def test_delete_files_of_one_data_file_each_are_as_few_as_can_be(shop: Shop) -> None:
    """A rewrite would make the same again, in every run."""
    update_two_by_two(shop)
    assert delete_files(shop) >= len(KEYS)
    assert steps.rewrite_deletes(shop.upkeep(), ORDERS) == ""


def test_delete_files_of_several_data_files_become_few_once(shop: Shop) -> None:
    with shop.table("orders").transaction() as change:
        change.set_properties({"write.delete.granularity": "partition"})
    update_two_by_two(shop)
    rows, before = shop.seen(), delete_files(shop)
    assert before == len(KEYS)
    assert steps.rewrite_deletes(shop.upkeep(), ORDERS) != ""
    assert delete_files(shop) < before
    assert shop.seen() == rows
    assert steps.rewrite_deletes(shop.upkeep(), ORDERS) == ""
    kinds = shop.table("orders").inspect.all_delete_files()["content"].to_pylist()
    assert set(kinds) == {POSITION_DELETES}  # of all snapshots, before and after
