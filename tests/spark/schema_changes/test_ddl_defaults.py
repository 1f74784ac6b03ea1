"""ADD COLUMN … DEFAULT in the text of a statement, where events tell no default."""

from __future__ import annotations

import itertools
import random
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from sluice.operations import refolding
from sluice.operations.held_files import release
from tests.spark.renamed import Row, Source, ddl, place, shop_of
from tests.spark.renamed import held as renamed_rows
from tests.spark.sandbox import Sandbox

pytestmark = pytest.mark.spark

HINTS = {"id": "int", "price": "decimal(9,2)", "since": "timestamp_ntz"}


def change(op: str, pos: int, **row: Any) -> Row:
    """An event without a description of its types."""
    return {"op": op, "source": place(pos), "before": None, "after": row}


def loaded(**row: Any) -> Row:
    """A row of the snapshot, which was taken at the log's beginning."""
    return {"op": "r", "source": place(1) | {"snapshot": "true"}, "before": None, "after": row}


ADD = ddl(
    10,
    "ALTER TABLE orders ADD COLUMN status varchar(9) DEFAULT 'new', ADD price decimal(9,2) NOT "
    "NULL DEFAULT 1.5, ADD COLUMN note text, ADD since datetime DEFAULT '2026-01-01 00:00:00'",
)
BATCHES = {
    "first": [loaded(id=1, v="untouched"), loaded(id=2, v="touched"), change("c", 5, id=3, v="x")],
    "told": [ADD],
    "since": [
        change("u", 20, id=2, v="touched", status="done", price="2.00", note="n", since=None),
        change("c", 21, id=4, v="null", status=None, price="0.00", note=None, since=None),
    ],
}
BORN = "2026-01-01 00:00:00"
WANTED = {
    1: ("untouched", "new", Decimal("1.50"), None, BORN),
    2: ("touched", "done", Decimal("2.00"), "n", None),
    3: ("x", "new", Decimal("1.50"), None, BORN),
    4: ("null", None, Decimal("0.00"), None, None),
}


@pytest.fixture
def lake(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Sandbox:
    """With a ledger; drivers run in here."""
    shop = shop_of(spark, tmp_path, columns=HINTS, modes=["current", "history"])
    shop.driven(monkeypatch)
    return shop


def held(lake: Sandbox) -> dict[int, tuple[Any, ...]]:
    columns = ("v", "status", "price", "note", "since")
    rows = {r["id"]: [r.get(c) for c in columns] for r in lake.rows("orders")}
    return {i: (*row[:-1], row[-1] and str(row[-1])) for i, row in rows.items()}


@pytest.mark.long
@pytest.mark.parametrize("order", [*itertools.permutations(BATCHES)], ids="-".join)
def test_older_rows_hold_the_default_of_the_statement(
    lake: Sandbox, order: tuple[str, ...]
) -> None:
    """Whichever comes first; `null` was written, and `note` was added without a default."""
    lake.run_each(*(BATCHES[name] for name in order))
    assert held(lake) == WANTED
    assert lake.agrees()


@pytest.mark.long
def test_rolled_back_default_does_not_count_until_it_is_loaded_again(lake: Sandbox) -> None:
    """Also beneath a batch that was loaded since: then rows lose what it alone told."""
    _, with_default, _ = lake.run_each(*BATCHES.values())
    refolding.undo_or_refold(lake.context(), with_default)
    nothing = (None, None, None, None)
    assert held(lake) == WANTED | {1: ("untouched", *nothing), 3: ("x", *nothing)}
    assert lake.agrees()
    release(lake.context(), with_default)
    lake.run()
    assert held(lake) == WANTED


@pytest.mark.long
def test_a_full_load_that_has_the_column_means_its_nulls(lake: Sandbox) -> None:
    """It was taken after the statement; which of its rows come first counts for nothing."""
    whole = [loaded(id=i, v="v", status=None, price="1.00", note=None, since=None) for i in (8, 9)]
    lake.run_each(whole[1:], BATCHES["since"], [ADD], whole[:1])
    rows = held(lake)
    assert {rows[8], rows[9]} == {("v", None, Decimal("1.00"), None, None)}
    assert lake.agrees()


@pytest.mark.long
@pytest.mark.parametrize("late", [False, True], ids=["in order", "the statements last"])
def test_a_default_goes_by_the_names_of_later_statements(lake: Sandbox, late: bool) -> None:
    """The column is dropped, added again with another default, and renamed."""
    ddl_events = [
        ddl(10, "ALTER TABLE orders ADD status varchar(9) DEFAULT 'old'"),
        ddl(30, "ALTER TABLE orders DROP COLUMN status"),
        ddl(31, "ALTER TABLE orders ADD status varchar(9) DEFAULT 'new'"),
        ddl(40, "ALTER TABLE orders CHANGE status state varchar(9)"),
    ]
    rows = [
        change("c", 5, id=1, v="x"),
        change("c", 20, id=2, v="x", status="given"),
        change("c", 35, id=3, v="x", status="later"),
        change("c", 45, id=4, v="x", state="last"),
    ]
    lake.run_each(*([rows, ddl_events] if late else [ddl_events, rows]))
    states = {r["id"]: (r["state"], r["status__dropped"]) for r in lake.rows("orders")}
    assert states == {1: ("new", "old"), 2: ("new", "given"), 3: ("later", None), 4: ("last", None)}
    assert lake.agrees()


CANAL = {"database": "shop", "table": "orders", "pkNames": ["id"], "es": 1, "ts": 1}
TYPES = {"mysqlType": {"id": "int", "v": "text"}}
ADDED = {"flag": "bit(1)", "size": "varchar(9)", "mood": "enum('x','y')"}
SINCE = {"mysqlType": {"id": "int", "v": "text", **ADDED}}


def canal(statement: str, types: Row, *rows: Row) -> Row:
    return {**CANAL, **types, "type": statement, "isDdl": False, "data": list(rows), "old": None}


@pytest.mark.parametrize(
    "key", [["id"], pytest.param([], marks=pytest.mark.long)], ids=["key", "no key"]
)
def test_without_an_order_in_the_events_the_statement_is_where_it_arrived(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, key: list[str]
) -> None:
    shop = Sandbox(spark, tmp_path, {"format": "canal", "tables": {"orders": {"key": key}}})
    shop.driven(monkeypatch)
    sql = (
        "ALTER TABLE orders ADD flag bit(1) NOT NULL DEFAULT b'1', ADD size varchar(9) DEFAULT 'M'"
        ", ADD mood enum('x','y') DEFAULT 'y'"
    )
    statement = {**CANAL, "type": "ALTER", "isDdl": True, "sql": sql, "data": None, "old": None}
    shop.write("1.jsonl", [canal("INSERT", TYPES, {"id": "1", "v": "a"}, {"id": "2", "v": "b"})])
    shop.run()
    rows = (
        {"id": "3", "v": "c", "flag": "0", "size": None, "mood": "2"},
        {"id": "2", "v": "b", "flag": "1", "size": "M", "mood": "2" if key else None},
    )
    since = [canal("INSERT", SINCE, rows[0]), canal("DELETE", SINCE, rows[1])]
    shop.write("2.jsonl", [statement, *since])
    shop.run()
    found = {r["id"]: (r["v"], r["flag"], r["size"]) for r in shop.rows("orders")}
    # Canal writes an ENUM's number, the statement its label, which no row may hold beside it.
    assert {r["id"]: r["mood"] for r in shop.rows("orders")} == {1: None, 3: "2"}
    flags = [value for _, value, _ in found.values()]
    assert {i: (v, size) for i, (v, _, size) in found.items()} == {1: ("a", "M"), 3: ("c", None)}
    assert flags[0] != flags[1]
    assert shop.agrees()


def test_default_in_the_time_zone_of_its_session_is_not_used(
    spark: SparkSession,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Canal has TIMESTAMP and DATETIME alike as local times; the first is in the zone of Canal."""
    shop = Sandbox(
        spark, tmp_path, {"format": "canal", "tables": {"orders": {"key": ["id"]}}}
    ).driven(monkeypatch)
    sql = (
        f"ALTER TABLE orders ADD seen timestamp DEFAULT '{BORN}', "
        f"ADD born datetime DEFAULT '{BORN}'"
    )
    statement = {**CANAL, "type": "ALTER", "isDdl": True, "sql": sql, "data": None, "old": None}
    since = {"mysqlType": {"id": "int", "v": "text", "seen": "timestamp", "born": "datetime"}}
    row = canal("INSERT", since, {"id": "2", "v": "b", "seen": BORN, "born": BORN})
    shop.write("1.jsonl", [canal("INSERT", TYPES, {"id": "1", "v": "a"}), statement, row])
    shop.run()
    held = {r["id"]: (r["seen"] and str(r["seen"]), str(r["born"])) for r in shop.rows("orders")}
    assert held == {1: (None, BORN), 2: (BORN, BORN)}
    assert "column 'seen' cannot be read as timestamp_ntz" in capsys.readouterr().err
    assert shop.agrees()


def added_often() -> Source:
    """Defaults of columns that are renamed since, names that are used again, values not sent."""
    source = Source("a")
    for ident in (1, 2, 3, 6):
        source.upsert(ident, a=f"a{ident}")
    source.add("b", "new", told=True)
    source.upsert(2, b="b2")
    source.upsert(4, a="a4")
    source.rename(b="c")
    source.upsert(3, a="since")
    source.add("b", "again", told=True)
    source.upsert(5, a="a5", b="b5", c=None)
    source.upsert(1, b="told")
    source.add("d", told=True)
    source.upsert(6, d="d6")
    source.delete(2)
    return source


@pytest.mark.long
@pytest.mark.parametrize("seed", range(4))
def test_defaults_and_names_follow_from_the_set_of_events(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    """Dealt out in no order, some of it twice; rows are put together from several changes."""
    shop = shop_of(spark, tmp_path, modes=["current", "history"])
    shop.driven(monkeypatch)
    source, rng = added_often(), random.Random(seed)
    again = rng.sample(source.events, 4)
    events = rng.sample([*source.events, *again], len(source.events) + len(again))
    shop.run_each(*(events[n::3] for n in range(3)))
    assert renamed_rows(shop, source) == source.rows
    assert shop.agrees()
