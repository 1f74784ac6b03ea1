"""`on_dropped_column: drop`: a column stands or goes by the statements and changes that landed, in
whatever order they came."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from sluice.errors import PlanError
from sluice.operations import preview, refolding, stages
from sluice.operations.held_files import release
from sluice.operations.undo import undo_batch
from tests.spark.connect import INT, TEXT
from tests.spark.dropped_size import ADD, BETWEEN, DROP, FIRST, SINCE
from tests.spark.renamed import PLACEHOLDER as UNSENT
from tests.spark.renamed import Row, ddl
from tests.spark.retention import forget
from tests.spark.sandbox import Sandbox
from tests.spark.shareplex_records import change
from tests.spark.typed import event

pytestmark = pytest.mark.spark

AT_FIRST = {1: 10, 2: 20, 3: 30}
SINCE_THEN = {1: None, 2: "L", 3: None, 4: "XL"}


def config(**table: Any) -> dict[str, Any]:
    orders = {"key": ["id"], **table}
    return {"format": "debezium", "on_dropped_column": "drop", "tables": {"orders": orders}}


@pytest.fixture
def lake(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Sandbox:
    """With a ledger; drivers run in here."""
    return Sandbox(spark, tmp_path, config()).driven(monkeypatch)


def sizes(shop: Sandbox) -> dict[int, Any]:
    return {row["id"]: row.get("size") for row in shop.rows("orders")}


@pytest.mark.parametrize(
    "batches",
    [
        pytest.param([FIRST, [DROP], BETWEEN], id="in-order", marks=pytest.mark.long),
        pytest.param([FIRST, BETWEEN, [DROP]], id="told-late"),
        pytest.param([BETWEEN, [DROP], FIRST], id="newest-first", marks=pytest.mark.long),
        pytest.param([[*BETWEEN, DROP, *FIRST]], id="one", marks=pytest.mark.long),
        pytest.param(
            [[FIRST[0], DROP], FIRST[1:], BETWEEN, [DROP]], id="late-rows", marks=pytest.mark.long
        ),
    ],
)
def test_a_dropped_column_goes(lake: Sandbox, batches: list[list[Row]]) -> None:
    lake.run_each(*batches)
    assert lake.types("orders") == {"id": "int"}
    assert sizes(lake) == dict.fromkeys(AT_FIRST)
    assert lake.agrees()


WHOLE = event("c", 1, 1, title=(TEXT, "a"), size=(TEXT, "b"), photo=(TEXT, "c"))
PARTIAL = event("u", 2, 1, title=(TEXT, None), size=(TEXT, UNSENT), photo=(TEXT, UNSENT))
AGAIN = event("u", 11, 1, title=(TEXT, UNSENT), photo=(TEXT, UNSENT))


@pytest.mark.parametrize(
    "batches",
    [
        pytest.param([[WHOLE, PARTIAL, DROP]], id="one"),
        pytest.param([[WHOLE, PARTIAL], [DROP], [AGAIN]], id="in-order", marks=pytest.mark.long),
    ],
)
def test_what_a_partial_row_did_not_send_stays(lake: Sandbox, batches: list[list[Row]]) -> None:
    lake.run_each(*batches)
    assert lake.rows("orders") == [{"id": 1, "title": None, "photo": "c"}]
    assert lake.agrees()


@pytest.mark.parametrize(
    "batches",
    [
        pytest.param([FIRST, [DROP], BETWEEN, [ADD], SINCE], id="in-order",
                     marks=pytest.mark.long),
        pytest.param([FIRST, [DROP], SINCE, BETWEEN, [ADD]], id="added-late",
                     marks=pytest.mark.long),
        pytest.param([SINCE, [ADD, DROP], BETWEEN, FIRST], id="newest-first",
                     marks=pytest.mark.long),
        pytest.param([[*SINCE, *FIRST, ADD, *BETWEEN, DROP]], id="one", marks=pytest.mark.long),
        pytest.param([[ADD], [DROP], FIRST, SINCE, BETWEEN], id="ddl-first",
                     marks=pytest.mark.long),
        pytest.param([[*SINCE, ADD], [*FIRST, DROP], BETWEEN], id="dropped-late"),
    ],
)  # fmt: skip
def test_one_that_was_added_since_stands(lake: Sandbox, batches: list[list[Row]]) -> None:
    lake.run_each(*batches)
    assert lake.types("orders") == {"id": "int", "size": "string"}
    assert sizes(lake) == SINCE_THEN
    assert lake.agrees()


@pytest.mark.long
@pytest.mark.parametrize("batches", [[FIRST, [DROP], [ADD]], [FIRST, [DROP, ADD]]])
def test_one_without_values_stands_as_soon_as_it_is_added(
    lake: Sandbox, batches: list[list[Row]]
) -> None:
    lake.run_each(*batches)
    assert lake.types("orders") == {"id": "int", "size": "int"}
    assert sizes(lake) == dict.fromkeys(AT_FIRST)


def test_a_plan_and_the_batchs_result_name_what_goes(
    lake: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(preview, "submit", lake.look)
    lake.run_each(FIRST)
    for key, records, dropped in (("a", [DROP], ("size",)), ("b", FIRST[:1], ())):
        lake.write(f"{key}.jsonl", records)
        (looked,) = preview.preview(lake.context()).forecast.tables
        assert (looked.dropped, looked.added, looked.renamed) == (dropped, (), ())
        (table,) = lake.run().tables
        assert table.dropped == dropped
    lake.write("c.jsonl", SINCE)
    (looked,) = preview.preview(lake.context()).forecast.tables
    assert (looked.dropped, looked.added) == ((), ("size string",))


def test_a_drop_is_rolled_back(lake: Sandbox) -> None:
    _, dropped = lake.run_each(FIRST, [DROP])
    undo_batch(lake.context(), dropped)
    assert sizes(lake) == AT_FIRST
    assert lake.agrees()
    lake.run_each(BETWEEN)
    assert sizes(lake) == AT_FIRST | {3: None}
    release(lake.context(), dropped)
    stages.run(lake.context())
    assert lake.types("orders") == {"id": "int"}
    assert lake.agrees()


@pytest.mark.long
def test_a_drop_is_undone_beneath_others(lake: Sandbox) -> None:
    _, dropped, _ = lake.run_each(FIRST, [DROP], BETWEEN)
    refolding.undo_or_refold(lake.context(), dropped)
    assert sizes(lake) == AT_FIRST | {3: None}
    assert lake.agrees()


@pytest.mark.long
@pytest.mark.parametrize(
    ("batches", "columns"),
    [([FIRST, [DROP], BETWEEN], {"id"}), ([FIRST, [DROP], [ADD], SINCE], {"id", "size"})],
)
def test_a_rebuild_has_the_same_columns(
    lake: Sandbox, batches: list[list[Row]], columns: set[str]
) -> None:
    lake.run_each(*batches)
    before = lake.rows("orders")
    refolding.rebuild(lake.context())
    assert lake.types("orders").keys() == columns
    assert sorted(map(str, lake.rows("orders"))) == sorted(map(str, before))
    assert lake.agrees()


@pytest.mark.long
def test_an_add_is_rolled_back_and_undone(lake: Sandbox) -> None:
    *_, added, since = lake.run_each(FIRST, [DROP], [ADD], SINCE)
    refolding.undo_or_refold(lake.context(), added)
    assert sizes(lake) == SINCE_THEN
    assert lake.agrees()
    refolding.undo_or_refold(lake.context(), since)
    assert lake.types("orders") == {"id": "int"}
    assert lake.agrees()


@pytest.mark.long
def test_a_name_from_before_the_drop_that_is_told_last(lake: Sandbox) -> None:
    """What `size` held below its rename is `grams`, though the batch of the DROP left it out, and
    other DDL brings `size` back for a while."""
    rename = ddl(5, "ALTER TABLE orders RENAME COLUMN size TO grams")
    since = [ddl(7, "ALTER TABLE orders ADD size int"), event("c", 8, 8, size=(INT, 80))]
    note = ddl(30, "ALTER TABLE orders ADD note int")
    lake.run_each([*FIRST, *since, DROP], [rename], [note])
    assert {row["id"]: row["grams"] for row in lake.rows("orders")} == AT_FIRST | {8: None}
    assert "size" not in lake.types("orders")
    assert lake.agrees()


@pytest.mark.long
def test_the_setting_also_holds_for_earlier_drops(lake: Sandbox) -> None:
    lake.configure(**config(on_dropped_column="keep"))
    lake.run_each(FIRST, [DROP], [ADD], SINCE[:1])
    assert "size__dropped" in lake.types("orders")
    lake.configure(**config())
    lake.run_each(SINCE[1:])
    assert lake.types("orders") == {"id": "int", "size": "string"}
    assert sizes(lake) == SINCE_THEN
    assert lake.agrees()
    lake.configure(**config(on_dropped_column="keep"))
    lake.run_each(FIRST[:1], BETWEEN)
    assert sizes(lake) == SINCE_THEN
    assert lake.agrees()


@pytest.mark.long
def test_what_a_soft_deleted_row_held_goes_too(lake: Sandbox) -> None:
    lake.configure(**config(modes=["soft_delete"]))
    gone = event("d", 4, 2)
    gone["payload"] |= {"before": gone["payload"]["after"], "after": None}
    lake.run_each([*FIRST, gone], [DROP], BETWEEN)
    assert "size" not in lake.types("orders")
    assert {row["id"]: row["_is_deleted"] for row in lake.rows("orders")} == {
        1: False, 2: True, 3: False,
    }  # fmt: skip
    assert lake.agrees()


@pytest.mark.long
@pytest.mark.parametrize(
    "deal", [lambda rows, end: [rows, [DROP], end], lambda rows, end: [end, [DROP], rows]]
)
def test_rows_without_a_key_are_those_without_the_column(
    lake: Sandbox, deal: Callable[[list[Row], list[Row]], list[list[Row]]]
) -> None:
    lake.configure(**config(key=[]))
    gone = event("d", 12, 2)
    gone["payload"] |= {"before": gone["payload"]["after"], "after": None}
    lake.run_each(*deal(FIRST, [gone]))
    assert sorted(row["id"] for row in lake.rows("orders")) == [1, 3]
    assert lake.types("orders") == {"id": "int"}
    assert lake.agrees()


@pytest.mark.long
@pytest.mark.parametrize(
    ("column", "table"), [("id", {}), ("size", {"partition_by": ["bucket(2, size)"]})]
)
def test_a_column_that_rows_need_stops_the_batch(
    lake: Sandbox, column: str, table: dict[str, Any]
) -> None:
    lake.configure(**config(**table))
    lake.run_each(FIRST)
    lake.write("drop.jsonl", [ddl(10, f"ALTER TABLE orders DROP COLUMN {column}")])
    with pytest.raises(PlanError, match=rf"the source dropped columns \['{column}'\]"):
        lake.run()
    lake.configure(**config(on_dropped_column="keep", **table))
    lake.run()
    assert sizes(lake) == AT_FIRST


@pytest.mark.long
def test_values_of_expired_changes_count_too(lake: Sandbox) -> None:
    """No statement says that the column was added again, and maintenance has forgotten the change
    that has it; a column from below the DROP goes all the same."""
    weights = [event("c", 1, 1, size=(INT, 10), weight=(INT, 5))]
    for batch in lake.run_each(weights, [DROP, event("c", 21, 2, size=(INT, 20))]):
        forget(lake, batch)
    lake.run_each([event("c", 22, 3)])
    lake.run_each([ddl(30, "ALTER TABLE orders DROP COLUMN weight"), event("c", 31, 4)])
    assert lake.types("orders") == {"id": "int", "size": "int"}
    assert sizes(lake) == {1: None, 2: 20, 3: None, 4: None}
    assert lake.agrees()


@pytest.mark.long
@pytest.mark.parametrize("told_late", [True, False])
def test_a_row_that_left_the_column_out_since_does_not_hold_it(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, told_late: bool
) -> None:
    """Its changes list what they carry, so that the row has the value of an earlier one."""
    item = {"key": ["ID"], "columns": {"ID": "int", "C": "int"}}
    tables = {"format": "shareplex", "on_dropped_column": "drop", "tables": {"O.ITEM": item}}
    shop = Sandbox(spark, tmp_path, tables).driven(monkeypatch)
    first = change(1, "ins", {"ID": "1", "STATE": "a", "C": "7"})
    since = change(12, "upd", {"STATE": "b"}, {"ID": "1"})
    drop = change(10, "ddl") | {"ddl": "ALTER TABLE O.ITEM DROP COLUMN C"}
    shop.run_each([first], *([[since], [drop]] if told_late else [[drop], [since]]))
    assert shop.rows("ITEM") == [{"ID": 1, "STATE": "b"}]
    assert shop.agrees()
    shop.run_each([first, change(13, "ins", {"ID": "2", "C": "8"})])
    assert {row["ID"]: row["C"] for row in shop.rows("ITEM")} == {1: None, 2: 8}
    assert shop.agrees()
