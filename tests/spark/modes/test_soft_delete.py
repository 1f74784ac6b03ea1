"""Mode soft_delete: a deleted row stays as it last was, marked; the property: see test_history."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from sluice.errors import PlanError
from sluice.operations import refolding
from tests.spark import renamed
from tests.spark.connect import ID
from tests.spark.described import event as typed
from tests.spark.notes import event, pipeline, truncate
from tests.spark.retention import forget
from tests.spark.sandbox import Sandbox, total
from tests.spark.shop import Shop, orders
from tests.spark.shop import event as change
from tests.spark.versions import clock

pytestmark = pytest.mark.spark


@pytest.fixture
def lake(spark: SparkSession, tmp_path: Path) -> Sandbox:
    """One table whose deleted rows stay."""
    return Sandbox(spark, tmp_path, pipeline(["soft_delete"]))


def rows_of(sandbox: Sandbox) -> list[tuple[Any, ...]]:
    """Every row: key, note, when it was deleted."""
    rows = sandbox.rows("orders", metadata=True)
    found = [
        (r["id"], r["note"], clock(r["_deleted_at"]))
        for r in rows
        if r["_is_deleted"] == (r["_deleted_position"] is not None)
    ]
    assert len(found) == len(rows)
    return sorted(found)


def test_a_deleted_row_stays_and_comes_alive_again(lake: Sandbox) -> None:
    lake.load_records([event(10, 1, "a"), event(11, 2, "b"), event(12, 3)])
    lake.load_records([event(20, 1), event(21, 2)])
    assert rows_of(lake) == [(1, "a", 20), (2, "b", 21)], (
        "a row never seen leaves a tombstone alone"
    )
    result = lake.load_records([event(30, 1, "again"), event(31, 2)])
    assert rows_of(lake) == [(1, "again", None), (2, "b", 21)], "the first of two deletes ended it"
    assert (total(result).read, total(result).applied) == (2, 2)


@pytest.mark.long
def test_late_events_give_a_deleted_row_its_last_values(lake: Sandbox) -> None:
    lake.load_records([event(10, 1, "a"), event(30, 1), event(31, 2)])
    lake.load_records([event(20, 1, "b"), event(21, 2, "late")])
    assert rows_of(lake) == [(1, "b", 30), (2, "late", 31)]
    lake.load_records([event(25, 1)])
    assert rows_of(lake) == [(1, "b", 25), (2, "late", 31)]


@pytest.mark.long
def test_a_partial_row_after_a_delete_brings_no_old_values_back(lake: Sandbox) -> None:
    placeholder = "__debezium_unavailable_value"
    lake.load_records([event(10, 1, "a", doc="old"), event(40, 1, "d", doc=placeholder)])
    lake.load_records([event(20, 1)])
    (row,) = lake.rows("orders")
    assert (row["note"], row["doc"], row["_is_deleted"]) == ("d", None, False)
    lake.load_records([event(50, 1, "e", doc="new")])
    lake.load_records([event(60, 1, "f", doc=placeholder)])
    (row,) = lake.rows("orders")
    assert (row["note"], row["doc"], row["_is_deleted"]) == ("f", "new", False)


@pytest.mark.long
def test_a_late_event_leaves_what_only_forgotten_events_brought(lake: Sandbox) -> None:
    """The row's newest event, which stays in the changelog, did not carry the large value."""
    placeholder = "__debezium_unavailable_value"
    lake.load_records([event(10, 1, "a", doc="old"), event(11, 2, "x", doc="two")])
    lake.load_records([event(40, 1, "d", doc=placeholder), event(41, 2)])
    forget_first_batch(lake)
    lake.load_records([event(20, 1, "b", doc=placeholder), event(21, 2, "y", doc=placeholder)])
    rows = {r["id"]: (r["note"], r["doc"], r["_is_deleted"]) for r in lake.rows("orders")}
    assert rows == {1: ("d", "old", False), 2: ("y", "two", True)}


@pytest.mark.long
def test_a_rebuild_leaves_what_only_forgotten_events_brought(
    lake: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake.driven(monkeypatch)
    placeholder = "__debezium_unavailable_value"
    lake.write("0.jsonl", [event(10, 1, "a", doc="old"), event(11, 2, "x", doc="two")])
    forgotten = lake.run().batch_id
    lake.write("1.jsonl", [event(40, 1, "d", doc=placeholder), event(41, 2), event(42, 3, "new")])
    lake.run()
    forget(lake, forgotten)
    rows = lake.rows("orders", metadata=True)
    assert [(r["id"], r["note"], r["doc"]) for r in sorted(rows, key=lambda r: r["id"])] == [
        (1, "d", "old"), (2, "x", "two"), (3, "new", None),
    ]  # fmt: skip
    refolding.rebuild(lake.context())
    assert lake.rows("orders", metadata=True) == rows


@pytest.mark.long
def test_a_moved_row_keeps_a_forgotten_value_when_its_old_key_is_used_again(lake: Sandbox) -> None:
    """The new row of the old key stands for nothing that the moved one had."""
    placeholder = "__debezium_unavailable_value"
    lake.load_records([event(10, 1, "a", doc="big")])
    lake.load_records([event(20, 1), event(20, 2, "b", "c", doc=placeholder)])
    lake.load_records([event(30, 1, "c", "c", doc="another")])
    forget_first_batch(lake)
    lake.load_records([event(25, 2, "d", doc=placeholder), event(35, 1, "e", doc=placeholder)])
    rows = {r["id"]: (r["note"], r["doc"], r["_is_deleted"]) for r in lake.rows("orders")}
    assert rows == {1: ("e", "another", False), 2: ("d", "big", False)}


@pytest.mark.long
def test_a_row_from_above_the_floor_keeps_its_place_when_it_is_deleted(lake: Sandbox) -> None:
    lake.load_records([event(10, 1, "a")])
    forget_first_batch(lake)
    lake.load_records([event(20, 2, "b")])
    places = {r["id"]: r["_position"] for r in lake.rows("orders", metadata=True)}
    lake.load_records([event(30, 2)])
    assert rows_of(lake) == [(1, "a", None), (2, "b", 30)]
    assert {r["id"]: r["_position"] for r in lake.rows("orders", metadata=True)} == places


def forget_first_batch(lake: Sandbox) -> None:
    forget(lake, lake.published[0])


@pytest.mark.long
def test_a_truncate_marks_the_rows_below_it(lake: Sandbox) -> None:
    lake.load_records([event(10, 1, "a"), event(20, 2, "b"), event(25, 3, "c"), event(40, 3)])
    lake.load_records([truncate(30), event(50, 4, "d")])
    assert rows_of(lake) == [(1, "a", 30), (2, "b", 30), (3, "c", 30), (4, "d", None)]
    lake.load_records([event(22, 1, "late"), event(60, 2, "again")])
    assert rows_of(lake) == [(1, "late", 30), (2, "again", None), (3, "c", 30), (4, "d", None)]


@pytest.mark.long
def test_the_mode_can_be_switched_on_but_not_off(lake: Sandbox) -> None:
    """What was deleted before comes back marked; to switch it off would show it as alive."""
    lake.configure(**pipeline(["current"]))
    lake.load_records([event(10, 1, "a"), event(20, 1), event(30, 2, "b")])
    lake.configure(**pipeline(["soft_delete"]))
    lake.load_records([event(40, 3, "c")])
    assert rows_of(lake) == [(1, "a", 20), (2, "b", None), (3, "c", None)]
    lake.configure(**pipeline(["current"]))
    with pytest.raises(PlanError, match="keep soft_delete in `modes`"):
        lake.load_records([event(50, 3, "d")])


def test_delete_without_a_time_is_distinguished_from_a_living_row(lake: Sandbox) -> None:
    timeless = event(20, 1)
    del timeless["source"]["ts_ms"]
    lake.load_records([event(10, 1, "a"), timeless, event(30, 2, "b")])
    rows = {r["id"]: (r["_is_deleted"], r["_deleted_at"]) for r in lake.rows("orders")}
    assert rows == {1: (True, None), 2: (False, None)}


@pytest.mark.long
def test_a_late_truncate_takes_what_a_row_was_completed_with(lake: Sandbox) -> None:
    lake.load_records(
        [event(10, 1, "a", doc="old"), event(40, 1, "d", doc="__debezium_unavailable_value")]
    )
    lake.load_records([truncate(30)])
    (row,) = lake.rows("orders")
    assert (row["note"], row["doc"], row["_is_deleted"]) == ("d", None, False)


def modes(asked: str, *tables: str) -> dict[str, Any]:
    table = {"key": ["id"], "columns": {"id": "int"}, "modes": [asked]}
    keep = {"small_files": 2, "delete_share": 0.1}
    return {"format": "debezium", "tables": dict.fromkeys(tables, table), "maintenance": keep}


def marked(shop: Sandbox) -> list[tuple[int, bool | None]]:
    return sorted((row["id"], row["_is_deleted"]) for row in shop.rows("orders"))


@pytest.mark.long
def test_a_batch_of_ddl_alone_switches_the_mode_on(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Even where no row lives that says whether it is marked."""
    shop = Sandbox(spark, tmp_path, modes("current", "orders")).driven(monkeypatch)
    gone: dict[str, Any] = {"id": 2, "title": "two"}
    for number, events in enumerate(
        ([renamed.event("c", 2, **gone)], [renamed.event("d", 3, gone)], [renamed.ddl(10)])
    ):
        if number == 2:
            shop.configure(**modes("soft_delete", "orders"))
        shop.write(f"{number}.jsonl", events)
        shop.run()
    assert [(r["id"], r["name"], r["_is_deleted"]) for r in shop.rows("orders")] == [
        (2, "two", True)
    ]
    assert shop.agrees()


@pytest.mark.long
def test_a_batch_of_another_table_does_not_switch_the_mode_on(
    spark: SparkSession, tmp_path: Path
) -> None:
    """It adds the columns, and maintenance writes the rows under them."""
    shop = Shop(spark, tmp_path, modes("current", "orders", "other"))
    shop.run(*orders(("c", 1, 1, "a"), ("c", 2, 2, "b")), change("c", "other", 3, id=1, status="x"))
    shop.run(*orders(("d", 4, 2, "b"), ("u", 5, 1, "aa")))
    shop.configure(**modes("soft_delete", "orders", "other"))
    shop.run(change("c", "other", 10, id=3, status="z"))
    steps = shop.maintain(after=timedelta(days=2)).steps
    assert ("shop.orders", "data files") in {(step.table, step.step) for step in steps}
    assert shop.agrees()
    shop.run(*orders(("c", 20, 9, "n")))
    assert marked(shop) == [(1, False), (2, True), (9, False)]
    assert shop.agrees()


@pytest.mark.long
def test_a_batch_that_widens_a_column_switches_the_mode_on(
    spark: SparkSession, tmp_path: Path
) -> None:
    shop = Shop(spark, tmp_path, modes("current", "orders"))
    whole = {"id": ID, "v": ID}
    decimal = {
        "type": "bytes", "name": "org.apache.kafka.connect.data.Decimal",
        "parameters": {"scale": "2", "connect.decimal.precision": "14"},
    }  # fmt: skip
    first = [typed("c", number, whole, id=number, v=number) for number in (1, 2)]
    shop.run(*map(json.dumps, [*first, typed("d", 3, whole, before={"id": 2, "v": 2})]))
    shop.configure(**modes("soft_delete", "orders"))
    shop.run(json.dumps(typed("c", 30, {"id": ID, "v": decimal}, id=3, v="AMg=")))
    assert marked(shop) == [(1, False), (2, True), (3, False)]
    assert shop.agrees()


@pytest.mark.long
def test_a_truncate_does_not_judge_a_row_that_nothing_is_known_of(
    spark: SparkSession, tmp_path: Path
) -> None:
    """A delete between may be forgotten, by which the row ended."""
    shop = Shop(spark, tmp_path, pipeline(["soft_delete"]))
    shop.run(event(7, 1), event(8, 2, "b"))
    between = datetime.now(UTC)
    shop.run(truncate(20), event(21, 3, "c"))
    shop.maintain(after=timedelta(days=30) - (datetime.now(UTC) - between))
    counts = shop.run(event(3, 1, "late"), event(4, 2, "late")).tables[0].counts
    assert (counts.quarantined, counts.late) == (1, 1)
    assert rows_of(shop) == [(2, "b", 20), (3, "c", None)]
