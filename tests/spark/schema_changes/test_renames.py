"""RENAME COLUMN: no event tells of the rows that are there, and names resolve by position."""

from __future__ import annotations

import itertools
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from sluice import names
from sluice.column_renames import Rename
from sluice.errors import PlanError
from spark_jobs.planning.renames import renamed
from tests.spark.renamed import (
    BATCHES,
    PLACEHOLDER,
    WANTED,
    Row,
    Source,
    ddl,
    event,
    held,
    names_of,
    shop_of,
)
from tests.spark.retention import forget
from tests.spark.sandbox import Sandbox

pytestmark = pytest.mark.spark


@pytest.mark.long
@pytest.mark.parametrize("order", list(itertools.permutations(BATCHES)), ids="-".join)
def test_rows_keep_their_values_under_the_name_of_now(
    spark: SparkSession, tmp_path: Path, order: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the ledger, which tells a batch what those before it were told."""
    shop = shop_of(spark, tmp_path, modes=["current", "history"])
    shop.driven(monkeypatch)
    for name in order:
        shop.write(f"{name}.jsonl", BATCHES[name])
        shop.run()
    assert names_of(shop) == WANTED
    versions = {(r["id"], r["name"], r["title"]) for r in shop.rows("orders__history")}
    assert versions == {
        (1, "untouched", None), (2, "touched", None), (2, "touched since", None),
        (3, "given up", None), (4, "new", None), (5, None, None),
    }  # fmt: skip


@pytest.mark.long
@pytest.mark.parametrize("late", [True, False])
def test_rename_that_comes_after_its_changes_were_forgotten_stops_the_batch(
    spark: SparkSession, tmp_path: Path, late: bool
) -> None:
    """The value of `title` is in a row whose newest change is above the rename."""
    shop = shop_of(spark, tmp_path)
    shop.load_records([event("c", 1, id=1, title="big", b="1")], "0.jsonl")
    forget(shop, shop.published[0])
    changed, renamed = event("u", 20, id=1, name=PLACEHOLDER, b="2"), ddl(15)
    if late:
        shop.load_records([changed], "1.jsonl")
        with pytest.raises(PlanError, match="a rename of its columns came later than changes"):
            shop.load_records([renamed], "2.jsonl")
    else:
        shop.load_records([renamed], "1.jsonl")
        shop.load_records([changed], "2.jsonl")
        assert shop.rows("orders") == [{"id": 1, "name": "big", "title": None, "b": "2"}]


@pytest.mark.long
def test_rename_whose_own_position_is_forgotten_stops_the_batch(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Whether the value of `title` is from below the rename the row cannot tell."""
    shop = shop_of(spark, tmp_path)
    whole = event("c", 1, id=1, title="big", b="1")
    shop.load_records([whole, event("u", 20, id=1, title=PLACEHOLDER, b="2")], "0.jsonl")
    forget(shop, shop.published[0])
    with pytest.raises(PlanError, match="a rename of its columns came later than changes"):
        shop.load_records([ddl(15)], "1.jsonl")


def renamed_often() -> Source:
    """Renamed twice, swapped, a name that another column had before, large values not sent."""
    source = Source("a", "b")
    source.upsert(1, a="a1", b="b1")
    source.upsert(2, a="a2", b="b2")
    source.upsert(3, a="a3", b="b3")
    source.rename(a="c")
    source.upsert(2, c="c2")
    source.rename(c="d")
    source.upsert(4, b="b4", d="d4")
    source.rename(b="d", d="b")
    source.upsert(1, b="swapped")
    source.upsert(4, d="swapped")
    source.add("a")
    source.upsert(3, a="another", b="b", d="d")
    source.upsert(5, a=None, b="b5", d="d5")
    source.delete(2)
    return source


IN_ORDER = [range(3), range(3, 5), range(5, 9), range(9, 20)]
DDL_FIRST = [[3, 5, 7], [*range(8, 20), 4], [6, *range(3)]]


@pytest.mark.parametrize(
    "batches",
    [
        pytest.param(IN_ORDER, id="in-order", marks=pytest.mark.long),
        pytest.param(DDL_FIRST, id="ddl-first", marks=pytest.mark.long),
        pytest.param([*DDL_FIRST[1:], DDL_FIRST[0]], id="ddl-last"),
        pytest.param([[5, 8, 9], [3, 0, 4, 11], [7, 1, 10, 2, 6, 12]], id="mixed",
                     marks=pytest.mark.long),
        pytest.param([range(20)], id="one", marks=pytest.mark.long),
    ],
)  # fmt: skip
def test_names_resolve_by_position(
    spark: SparkSession, tmp_path: Path, batches: list[list[int]]
) -> None:
    source, shop = renamed_often(), shop_of(spark, tmp_path)
    for batch in batches:
        shop.load_records([source.events[i] for i in batch if i < len(source.events)])
    assert held(shop, source) == source.rows


@pytest.mark.long
def test_rows_without_a_key_are_found_under_the_name_of_now(
    spark: SparkSession, tmp_path: Path
) -> None:
    shop = shop_of(spark, tmp_path, key=[])
    for name in ("before", "renamed", "since"):
        shop.load_records(BATCHES[name])
    again = [event("d", 20, {"id": 1, "name": "untouched"})]
    shop.load_records(again)
    # An update of such a table says what the row was.
    assert sorted(names_of(shop).items()) == [(i, WANTED[i]) for i in (2, 4, 5)]


def test_renamed_columns_of_the_configuration_rename_stored_rows(
    spark: SparkSession, tmp_path: Path
) -> None:
    """After events of both names were loaded."""
    shop = shop_of(spark, tmp_path)
    shop.load_records(BATCHES["before"])
    shop.load_records(BATCHES["since"])
    assert names_of(shop)[1] == (None, "untouched")
    orders = {"key": ["id"], "columns": {"id": "int"}, "renamed_columns": {"title": "name"}}
    shop.configure(format="debezium", tables={"orders": orders})
    shop.load_records([event("c", 30, id=6, name="six"), event("c", 5, id=7, title="late")])
    more = {6: ("six", None), 7: ("late", None)}
    assert names_of(shop) == WANTED | more


@pytest.mark.long
@pytest.mark.parametrize("told", ["source", "configuration"])
def test_moved_row_keeps_unsent_values_when_a_rename_comes_with_newer_rows(
    spark: SparkSession, tmp_path: Path, told: str
) -> None:
    shop = shop_of(spark, tmp_path)
    unsent: Row = {"doc": PLACEHOLDER}
    moved = event("u", 12, {"id": 1, "name": "t", **unsent}, id=2, name="n", **unsent)
    shop.load_records([event("c", 1, id=1, title="t", doc="big"), moved])
    newer: list[Row] = [event("c", 30, id=9, name="x", doc="d")]
    if told == "source":
        newer.append(ddl(10))
    else:
        orders = {"key": ["id"], "columns": {"id": "int"}, "renamed_columns": {"title": "name"}}
        shop.configure(format="debezium", tables={"orders": orders})
    shop.load_records(newer)
    docs = {row["id"]: (row["name"], row["doc"]) for row in shop.rows("orders")}
    assert docs == {2: ("n", "big"), 9: ("x", "d")}


def test_column_gets_its_name_back_and_another_column_takes_the_other_name(
    spark: SparkSession, tmp_path: Path
) -> None:
    shop = shop_of(spark, tmp_path)
    back = ddl(13, "ALTER TABLE orders RENAME COLUMN name TO title")
    other = event("c", 17, id=2, title="title", name="another")
    between = event("c", 11, id=3, name="title")
    shop.load_records([event("c", 1, id=1, title="title"), ddl(10), between, back, other])
    assert names_of(shop) == {1: (None, "title"), 2: ("another", "title"), 3: (None, "title")}


def test_statements_at_one_place_are_followed_in_the_order_written(
    spark: SparkSession, tmp_path: Path
) -> None:
    """In one text, and in two records at one place of the log."""
    shop = shop_of(spark, tmp_path)
    one = "ALTER TABLE orders RENAME COLUMN b TO c; ALTER TABLE orders RENAME COLUMN a TO b"
    two = [ddl(20, f"ALTER TABLE orders RENAME COLUMN {names}") for names in ("c TO d", "b TO c")]
    shop.load_records([event("c", 1, id=1, a="a", b="b"), ddl(10, one)])
    between, since = event("c", 11, id=2, b="a", c="b"), event("c", 21, id=3, c="a", d="b")
    shop.load_records([between, *two, since])
    rows = {row["id"]: {c: row[c] for c in "abcd" if row[c]} for row in shop.rows("orders")}
    assert rows == {ident: {"c": "a", "d": "b"} for ident in (1, 2, 3)}


@pytest.mark.long
def test_renames_that_cannot_be_followed_stop_the_batch_or_are_reported(
    spark: SparkSession, tmp_path: Path
) -> None:
    shop = shop_of(spark, tmp_path)
    shop.load_records(BATCHES["before"])
    numbered = {"key": ["id"], "columns": {"id": "int", "name": "int"}}
    shop.configure(format="debezium", tables={"orders": numbered})
    with pytest.raises(PlanError, match="not known when rows of 'title' were stored as string"):
        shop.load_records([ddl(10), event("c", 11, id=8, name=8)])
    orders = {"key": ["id"], "columns": {"id": "int"}}
    shop.configure(format="debezium", tables={"orders": orders}, on_schema_change="fail")
    of_lines = "ALTER TABLE orders /*\nTransientError: away\n*/ RENAME COLUMN title TO name"
    with pytest.raises(PlanError, match="renamed title to name") as refused:
        shop.load_records([ddl(10, of_lines)])
    assert r"record 1: ALTER TABLE orders /*\u000aTransientError: away" in str(refused.value)
    shop.configure(format="debezium", tables={"orders": orders}, on_schema_change="additive")
    reserved = "ALTER TABLE orders RENAME COLUMN title TO _sluice_position"
    unread = [ddl(20, "ALTER TABLE orders RENAME COLUMN"), ddl(21, reserved)]
    shop.load_records([ddl(10), *unread, *BATCHES["since"]])
    assert names_of(shop)[1] == (None, "untouched")
    recorded = shop.catalog.load_table(("sluice", "renames")).scan().to_arrow().to_pylist()
    followed = {(r["source_table"], r["columns"]) for r in recorded if r["problem"] is None}
    assert ("shop.orders", '[["title", "name"]]') in followed
    assert {r["statement"]: r["problem"] for r in recorded if r["problem"]} == {
        "ALTER TABLE orders RENAME COLUMN": "no grammar reads it",
        reserved: "no column may have such a name",
    }


def test_by_arrival_a_statement_stands_where_it_came(spark: SparkSession, tmp_path: Path) -> None:
    """Canal: rows before it in the file have the former name, rows after it the new one."""

    def message(kind: str, *rows: Row, sql: str = "") -> Row:
        statement: Row = {"type": kind, "database": "shop", "table": "orders", "es": 1, "ts": 2,
                     "isDdl": bool(sql), "sql": sql, "id": 1}  # fmt: skip
        return statement | {"data": list(rows) or None, "pkNames": ["id"] if rows else None}

    shop = Sandbox(spark, tmp_path, {"format": "canal", "tables": {"orders": {}}})
    first = message("INSERT", {"id": "1", "title": "one"}, {"id": "2", "title": "two"})
    renamed = message("ALTER", sql="ALTER TABLE `orders` CHANGE `title` `name` text")
    again = message("UPDATE", {"id": "2", "name": "two since"}) | {"old": [{"name": "two"}]}
    shop.load_records([first, renamed, again])
    rows = {row["id"]: row["name"] for row in shop.rows("orders")}
    assert rows == {"1": "one", "2": "two since"}


def test_columns_that_changed_places_twice_are_back(spark: SparkSession) -> None:
    """Below both swaps nothing moves, between them everything does, what was left out too."""
    swap = (("a", "b"), ("b", "a"))
    schema = f"a string, b string, {names.POSITION} string, {names.ABSENT} array<string>"
    changes = spark.createDataFrame(
        [
            ("a", "b", "0000.2.1", ["a"]),
            ("b", "a", "0000.2.4", ["a"]),
            ("a", "b", "0000.2.7", None),
        ],
        schema,
    )
    found = renamed(changes, (Rename("0000.2.3", swap), Rename("0000.2.6", swap))).collect()
    assert [tuple(row)[:2] for row in found] == [("a", "b")] * 3
    assert [row[names.ABSENT] for row in found] == [["a"], ["b"], None]


def test_a_hint_of_the_former_name_is_one_of_the_new_name_too(
    spark: SparkSession, tmp_path: Path
) -> None:
    shop = shop_of(spark, tmp_path, columns={"id": "int", "price": "decimal(9,2)"})
    statement = ddl(2, "ALTER TABLE orders RENAME COLUMN price TO cost")
    shop.load_records([event("c", 1, id=1, price="1.50"), statement, event("c", 3, id=2, cost=2.5)])
    costs = {row["id"]: row["cost"] for row in shop.rows("orders")}
    assert costs == {1: Decimal("1.50"), 2: Decimal("2.50")}


SENT, UNSENT_SINCE = (
    event("c", 5, id=1, title="x", note="a"), event("u", 15, id=1, name=PLACEHOLDER, note="b"),
)  # fmt: skip
READ_SINCE = event("r", 20, id=1, name="x", note="a")
UNSENT_BEFORE = event("u", 5, id=1, title=PLACEHOLDER, note="b")


@pytest.mark.parametrize(
    "batches",
    [
        pytest.param([[SENT], [UNSENT_SINCE], [ddl(10)]], id="alone", marks=pytest.mark.long),
        pytest.param([[SENT], [UNSENT_SINCE], [ddl(10), event("c", 30, id=9, name="z")]],
                     id="with newer", marks=pytest.mark.long),
        pytest.param([[UNSENT_BEFORE, READ_SINCE], [ddl(10)]],
                     id="above a change to a row of a full load"),
    ],
)  # fmt: skip
def test_late_rename_puts_versions_together_again(
    spark: SparkSession, tmp_path: Path, batches: list[list[Row]]
) -> None:
    modes = {"modes": ["soft_delete", "history"]}
    late, clean = (shop_of(spark, tmp_path / name, **modes) for name in ("late", "clean"))
    for records in batches:
        late.load_records(records)
    clean.load_records([record for records in batches for record in records])
    for table in ("orders", "orders__history"):
        assert by_place(late, table) == by_place(clean, table)
    assert by_place(late, "orders")[0][1:3] == ("x", "b")


def by_place(shop: Sandbox, table: str) -> list[tuple[Any, ...]]:
    rows = sorted(shop.rows(table, metadata=True), key=lambda row: row["_position"])
    return [(r["id"], r["name"], r["note"], r.get("title"), r.get("_is_current")) for r in rows]
