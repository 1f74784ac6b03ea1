"""ADD COLUMN … DEFAULT: rows that no event touched since hold the default, in every order."""

from __future__ import annotations

import itertools
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from sluice.errors import TransientError
from sluice.names import PROP_DEFAULTS
from spark_jobs.decoding import decode_batch, record_rules
from spark_jobs.job import Job
from spark_jobs.merging import load
from spark_jobs.planning import defaults
from tests.spark.connect import TEXT
from tests.spark.described import (
    AFTER,
    BATCHES,
    BEFORE,
    NEW,
    OPEN,
    PLAIN,
    event,
    shop_of,
)
from tests.spark.sandbox import NAMESPACE, Sandbox

pytestmark = pytest.mark.spark


def load_all(shop: Sandbox, batches: dict[str, list[Any]], order: tuple[str, ...]) -> None:
    for name in order:
        shop.load_records(batches[name], f"{name}.jsonl")


def statuses(shop: Sandbox) -> dict[int, str | None]:
    return {row["id"]: row["status"] for row in shop.rows("orders")}


def remembered(shop: Sandbox) -> dict[str, str]:
    properties = shop.catalog.load_table((NAMESPACE, "orders")).properties
    return {name: text for name, text in properties.items() if name.startswith(PROP_DEFAULTS)}


QUICK = ("added", "first", "changed")
WANTED = [
    (1, "untouched", "new", Decimal("2.10")),
    (2, "touched", "done", Decimal("2.00")),
    (4, "null", None, Decimal("2.00")),
    (5, "later", "open", Decimal("2.00")),
]


@pytest.mark.parametrize(
    "order",
    [
        pytest.param(order, marks=[] if order == QUICK else [pytest.mark.long])
        for order in itertools.permutations(BATCHES)
    ],
    ids="-".join,
)
def test_untouched_rows_have_the_default(
    spark: SparkSession, tmp_path: Path, order: tuple[str, ...]
) -> None:
    """`null` was written, not left out; the default that the column was added with counts."""
    shop = shop_of(spark, tmp_path)
    load_all(shop, BATCHES, order)
    rows = [(r["id"], r["v"], r["status"], r["price"]) for r in shop.rows("orders")]
    assert sorted(rows) == WANTED


@pytest.mark.long
def test_a_row_without_a_key_is_found_by_its_default_too(
    spark: SparkSession, tmp_path: Path
) -> None:
    shop = shop_of(spark, tmp_path, key=[])
    shop.load_records(BATCHES["first"], "first.jsonl")
    gone = {"id": 1, "v": "untouched", "status": "new", "price": "ANI="}
    shop.load_records([event("d", 10, AFTER, before=gone)], "deleted.jsonl")
    rows = [(r["id"], r["v"], r["status"], r["price"]) for r in shop.rows("orders")]
    price = Decimal("2.10")
    assert sorted(rows) == [(2, "touched", "new", price), (3, "given up", "new", price)]


def test_a_default_is_read_as_the_hint_says(spark: SparkSession, tmp_path: Path) -> None:
    """As of decimals that are text, of bytes in hexadecimal, and of unsigned numbers. TiCDC spells
    the default of a time that it describes in milliseconds as text."""
    hints = {"cost": "decimal(9,2)", "code": "binary[hex]", "big": "decimal(20,0)[unsigned]"}
    hinted = {"cost": TEXT | {"default": "1.50"}, "code": TEXT | {"default": "6162"},
              "big": {"type": "int64", "default": -1},
              "at": {"type": "int64", "name": "io.debezium.time.Timestamp",
                     "default": "2023-01-01 00:00:00"}}  # fmt: skip
    shop = shop_of(spark, tmp_path, columns=hints)
    shop.load_records(BATCHES["first"], "first.jsonl")
    since = event("c", 10, BEFORE | hinted, id=4, v="new", cost="2.00", code="63", big=7, at=0)
    shop.load_records([since], "added.jsonl")
    rows = {(r["id"], r["cost"], r["code"], r["big"], r["at"]) for r in shop.rows("orders")}
    untouched = (Decimal("1.50"), b"ab", Decimal(2**64 - 1), datetime(2023, 1, 1))
    changed = (4, Decimal(2), b"c", Decimal(7), datetime(1970, 1, 1))
    assert rows == {(i, *untouched) for i in (1, 2, 3)} | {changed}


def test_a_default_that_stands_for_an_expression_fills_no_row(
    spark: SparkSession, tmp_path: Path
) -> None:
    """PostgreSQL's `now()` comes as the epoch; the rows have the time of the ALTER TABLE."""
    since = {"type": "string", "optional": False, "name": "io.debezium.time.ZonedTimestamp",
             "default": "1970-01-01T00:00:00.000000Z"}  # fmt: skip
    shop = shop_of(spark, tmp_path)
    at = "2024-01-02T03:04:05Z"
    new = event("c", 10, BEFORE | {"since": since}, id=4, v="new", since=at)
    shop.load_records([BATCHES["first"][0], new])
    found = {row["id"]: row["since"] for row in shop.rows("orders")}
    assert found == {1: None, 4: datetime.fromisoformat(at)}


@pytest.mark.long
def test_a_batch_that_is_rolled_back_takes_its_defaults_with_it(
    spark: SparkSession, tmp_path: Path
) -> None:
    shop = shop_of(spark, tmp_path)
    shop.load_records(BATCHES["first"], "first.jsonl")
    shop.rollback(shop.load_records(BATCHES["added"], "added.jsonl"))
    assert {"status", "price"}.isdisjoint(shop.rows("orders")[0])
    shop.load_records(BATCHES["added"], "added.jsonl")
    assert statuses(shop) == {1: "new", 2: "done", 3: "new", 4: None}


@pytest.mark.long
def test_an_attempt_that_died_behind_decode_takes_no_default_away(
    spark: SparkSession, tmp_path: Path
) -> None:
    """It leaves the shapes of its events with the table, and the second attempt goes by them."""
    shop = shop_of(spark, tmp_path)
    shop.load_records(BATCHES["first"], "first.jsonl")
    shop.stage(added := shop.write("added.jsonl", BATCHES["added"]))
    shop.load(added)
    assert statuses(shop) == {1: "new", 2: "done", 3: "new", 4: None}


@pytest.mark.long
def test_a_rollback_between_decode_and_merge_is_noticed(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Decode goes without the lease, by what was told then."""
    shop = shop_of(spark, tmp_path)
    shop.load_records(BATCHES["first"], "first.jsonl")
    added = shop.load_records(BATCHES["added"], "added.jsonl")
    late = shop.write("late.jsonl", [event("c", 30, AFTER, id=6, v="", status="x", price="AMg=")])

    def decode_then_roll_back(job: Job) -> decode_batch.DecodedBatch:
        decoded = decode_batch.decode_batch(job)
        shop.rollback(added)
        return decoded

    monkeypatch.setattr(load, "decode_batch", decode_then_roll_back)
    with pytest.raises(TransientError, match="a batch was rolled back"):
        shop.stage(late)
    monkeypatch.undo()
    shop.load(late)
    assert statuses(shop) == {1: "new", 2: "new", 3: "new", 6: "x"}


@pytest.mark.long
def test_shapes_of_a_batch_that_is_gone_do_not_slow_the_next_ones(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """None of them can tell of the column, so none could go by shapes that have it."""
    shop = shop_of(spark, tmp_path)
    shop.load_records(BATCHES["first"], "first.jsonl")
    shop.rollback(shop.load_records(BATCHES["added"], "added.jsonl"))
    shop.load_records([event("c", 30, BEFORE, id=6, v="looked at")], "looked.jsonl")
    monkeypatch.setattr(record_rules, "discover", None)
    shop.load_records([event("c", 31, BEFORE, id=7, v="known")], "known.jsonl")
    assert len(shop.rows("orders")) == 5


SNAPSHOTS = {
    "old": [event("r", 5, BEFORE, id=1, v="lacks it"), event("r", 5, BEFORE, id=2, v="read again")],
    "snapshot": [event("r", 50, NEW, id=2, v="null", status=None),
                 event("r", 50, NEW, id=3, v="null", status=None)],
    "stream": [event("c", 60, NEW, id=4, v="null", status=None),
               event("c", 61, NEW, id=5, v="set", status="done")],
    "more": [event("c", 90, NEW | {"more": TEXT}, id=6, v="", status="new", more="x")],
}  # fmt: skip
IN_ONE = {"all": [record for batch in SNAPSHOTS.values() for record in batch]}
QUICK_SNAPSHOTS = (("old", "snapshot", "stream", "more"), ("stream", "old", "snapshot"))


@pytest.mark.long
@pytest.mark.parametrize(
    "order",
    [
        *QUICK_SNAPSHOTS,
        *(
            pytest.param(order, marks=pytest.mark.long)
            for order in (("all",), ("more", "stream", "old", "snapshot"),
                          ("snapshot", "more", "old", "stream"))
        ),
    ],
    ids="-".join,
)  # fmt: skip
def test_a_null_of_a_full_load_that_has_the_column_stays(
    spark: SparkSession, tmp_path: Path, order: tuple[str, ...]
) -> None:
    """And so does one of the stream, whichever batches came before."""
    shop = shop_of(spark, tmp_path)
    load_all(shop, SNAPSHOTS | IN_ONE, order)
    wanted = {1: "new", 2: None, 3: None, 4: None, 5: "done", 6: "new"}
    found = statuses(shop)
    assert found == {ident: wanted[ident] for ident in found}
    assert len(found) == (6 if {"more", "all"} & set(order) else 5)


def test_a_null_without_a_schema_stays(spark: SparkSession, tmp_path: Path) -> None:
    """The image names the column: the event has it."""
    shop = shop_of(spark, tmp_path, columns={"id": "int"})
    bare = [event("c", 1, NEW, id=1, v="null", status=None)["payload"],
            event("c", 2, BEFORE, id=2, v="lacks it")["payload"]]  # fmt: skip
    shop.load_records(bare, "bare.jsonl")
    shop.load_records([event("c", 10, NEW, id=3, v="", status="done")], "described.jsonl")
    assert statuses(shop) == {1: None, 2: None, 3: "done"}


TOLD = {
    "first": [event("c", 1, BEFORE, id=1, v="lacks it"), event("c", 2, BEFORE, id=2, v="")],
    "open": [event("u", 60, OPEN, id=2, v="", status="done")],
    "plain": [event("u", 20, PLAIN, id=2, v="", status=None),
              event("c", 30, PLAIN, id=3, v="said", status="open")],
}  # fmt: skip
QUICK_TOLD = ("first", "open", "plain")


@pytest.mark.long
@pytest.mark.parametrize(
    "order",
    [
        pytest.param(order, marks=[] if order == QUICK_TOLD else [pytest.mark.long])
        for order in itertools.permutations(TOLD)
    ],
    ids="-".join,
)
def test_default_missing_at_the_lowest_position_is_taken_back(
    spark: SparkSession, tmp_path: Path, order: tuple[str, ...]
) -> None:
    shop = shop_of(spark, tmp_path)
    load_all(shop, TOLD, order)
    assert statuses(shop) == {1: None, 2: "done", 3: "open"}


@pytest.mark.long
@pytest.mark.parametrize("mode", ["merge-on-read", "copy-on-write"])
def test_a_default_is_taken_back_in_every_table(
    spark: SparkSession, tmp_path: Path, mode: str
) -> None:
    shop = shop_of(spark, tmp_path, write_mode=mode, modes=["history", "soft_delete"])
    load_all(shop, TOLD, QUICK_TOLD)
    assert statuses(shop) == {1: None, 2: "done", 3: "open"}
    versions = sorted((r["id"], r["status"] or "") for r in shop.rows("orders__history"))
    assert versions == [(1, ""), (2, ""), (2, ""), (2, "done"), (3, "open")]


@pytest.mark.long
@pytest.mark.parametrize(
    "order",
    [
        ("first", "none at 70", "none at 20", "open at 40"),
        pytest.param(("first", "none at 20", "none at 70", "open at 40"), marks=pytest.mark.long),
    ],
    ids="-".join,
)
def test_defaults_of_a_batch_of_late_events_are_kept(
    spark: SparkSession, tmp_path: Path, order: tuple[str, ...]
) -> None:
    """Nothing of it is written into a row."""
    shop = shop_of(spark, tmp_path)
    batches = {
        "first": TOLD["first"],
        "none at 70": [event("u", 70, PLAIN, id=2, v="", status="done")],
        "none at 20": [event("u", 20, PLAIN, id=2, v="", status=None)],
        "open at 40": [event("u", 40, OPEN, id=2, v="", status=None)],
    }
    load_all(shop, batches, order)
    assert statuses(shop) == {1: None, 2: "done"}


@pytest.mark.long
def test_a_rollback_puts_back_what_the_rows_were_filled_by(
    spark: SparkSession, tmp_path: Path
) -> None:
    """So that the batch, loaded again, fills them again."""
    shop = shop_of(spark, tmp_path)
    load_all(shop, TOLD, ("first", "open"))
    late = shop.write("late.jsonl", [event("u", 20, NEW, id=2, v="", status=None)])
    before = remembered(shop)
    for _ in range(2):
        result = shop.load(late)
        assert statuses(shop) == {1: "new", 2: "done"}
        shop.rollback(result)
        assert statuses(shop) == {1: "open", 2: "done"}
        assert remembered(shop) == before


TAKEN = {
    "row": [event("c", 10, BEFORE, id=1, v="")],
    "gone": [event("d", 70, PLAIN, before={"id": 1, "v": "", "status": "new"})],
    "told": [event("c", 40, NEW, id=8, v="", status="new")],
    "both": [event("r", 1, NEW, id=1, v="x", status="new"),
             event("d", 15, BEFORE, before={"id": 1, "v": "x"})],
}  # fmt: skip
ORDERS = ("row", "gone", "told"), ("told", "gone", "row"), ("told", "both")
MORE_ORDERS = [pytest.param(order, marks=pytest.mark.long) for order in ORDERS]


@pytest.mark.parametrize("order", [("both", "told"), *MORE_ORDERS], ids="-".join)
def test_delete_takes_a_row_that_a_later_default_makes_equal(
    spark: SparkSession, tmp_path: Path, order: tuple[str, ...]
) -> None:
    """Of `both` the full load's row has the column, and what tells the default is above all."""
    shop = shop_of(spark, tmp_path, key=[])
    load_all(shop, TAKEN, order)
    assert shop.rows("orders") == [{"id": 8, "v": "", "status": "new"}]


@pytest.mark.long
def test_a_default_that_is_taken_back_gives_its_row_back(
    spark: SparkSession, tmp_path: Path
) -> None:
    shop = shop_of(spark, tmp_path, key=[])
    load_all(shop, TAKEN, ("row", "gone", "told"))
    shop.load_records([event("c", 30, PLAIN, id=9, v="", status=None)])
    assert statuses(shop) == {1: None, 8: "new", 9: None}


UNSENT = {
    "row": [event("c", 10, BEFORE, id=1, v="a"),
            event("u", 80, PLAIN, id=1, v="b", status="__debezium_unavailable_value")],
    "told": [event("c", 40, NEW, id=2, v="x", status="new")],
}  # fmt: skip


@pytest.mark.long
@pytest.mark.parametrize(
    "modes",
    [["current", "history"], ["soft_delete"]],
    ids="-".join,
)
def test_update_is_completed_with_a_later_default(
    spark: SparkSession, tmp_path: Path, modes: list[str]
) -> None:
    shop = shop_of(spark, tmp_path, modes=modes)
    load_all(shop, UNSENT, ("row", "told"))
    assert statuses(shop) == {1: "new", 2: "new"}
    if "history" in modes:
        assert {row["status"] for row in shop.rows("orders__history")} == {"new"}


@pytest.mark.long
def test_an_incremental_snapshot_takes_no_default_back(spark: SparkSession, tmp_path: Path) -> None:
    """It tells no place of the log, but it was read after the rows of the first snapshot."""
    shop = shop_of(spark, tmp_path)
    again = event("r", 0, NEW, id=1, v="again", status="new")
    again["payload"]["source"] |= {"lsn": None, "sequence": None, "snapshot": "incremental"}
    shop.load_records([event("r", 100, BEFORE, id=1, v=""), event("r", 100, BEFORE, id=3, v="")])
    shop.load_records([event("c", 200, NEW, id=2, v="", status="done"), again])
    assert statuses(shop) == {1: "new", 2: "done", 3: "new"}
    assert {row["id"]: row["v"] for row in shop.rows("orders")}[1] == "again"


def test_defaults_survive_their_table_property() -> None:
    """Of a column that no event has had so far there is nothing to remember."""
    known = {"unseen": defaults.Default({}), "told": defaults.Default({"2": "0000.2.0110"}, "new")}
    assert defaults.of_entries(defaults.entries(known)) == {"told": known["told"]}
    earlier = defaults.of_entries({"old": {"since": "0000.2.0110"}, "unseen": {"firsts": {}}})
    assert earlier == {"old": defaults.Default({"2": "0000.2.0110"}), "unseen": known["unseen"]}
