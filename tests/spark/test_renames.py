"""RENAME COLUMN: no event tells of the rows that are there, and names resolve by position."""

from __future__ import annotations

import itertools
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from sluice import names, preview, refolding, stages
from sluice.errors import PlanError
from sluice.undo import release, rollback
from spark_jobs.renames import Rename, renamed
from tests.spark.sandbox import Sandbox

pytestmark = pytest.mark.spark

Row = dict[str, Any]
PLACEHOLDER = "__debezium_unavailable_value"
RENAME = "ALTER TABLE orders CHANGE COLUMN title name varchar(40)"


def place(pos: int, table: str = "orders") -> Row:
    """Where MySQL's log has an event."""
    return {"connector": "mysql", "db": "shop", "table": table, "ts_ms": pos * 1000,
            "file": "mysql-bin.000007", "pos": pos, "row": 0, "snapshot": "false"}  # fmt: skip


def event(op: str, pos: int, before: Row | None = None, **after: Any) -> Row:
    return {"op": op, "source": place(pos), "before": before, "after": after or None}


def ddl(pos: int, text: str = RENAME) -> Row:
    """An event of the schema-change topic."""
    return {"source": place(pos), "databaseName": "shop", "ddl": text, "tableChanges": []}


def shop_of(spark: SparkSession, root: Path, **table: Any) -> Sandbox:
    config = {"key": ["id"], "columns": {"id": "int"}, **table}
    return Sandbox(spark, root, {"format": "debezium", "tables": {"orders": config}})


def names_of(shop: Sandbox, table: str = "orders") -> dict[int, tuple[Any, Any]]:
    return {row["id"]: (row["name"], row.get("title")) for row in shop.rows(table)}


BATCHES = {
    "before": [
        event("c", 1, id=1, title="untouched"),
        event("c", 2, id=2, title="touched"),
        event("c", 3, id=3, title="given up"),
        event("c", 4, id=5, title=None),
    ],
    "renamed": [ddl(10)],
    "since": [
        event("u", 11, {"id": 2, "name": "touched"}, id=2, name="touched since"),
        event("d", 12, {"id": 3, "name": "given up"}),
        event("c", 13, id=4, name="new"),
    ],
}
WANTED = {
    1: ("untouched", None),
    2: ("touched since", None),
    4: ("new", None),
    5: (None, None),
}
QUICK = ("since", "renamed", "before")


@pytest.mark.parametrize(
    "order",
    [
        pytest.param(order, marks=[] if order == QUICK else [pytest.mark.long])
        for order in itertools.permutations(BATCHES)
    ],
    ids="-".join,
)
def test_rows_keep_their_values_under_the_name_of_now(
    spark: SparkSession, tmp_path: Path, order: tuple[str, ...]
) -> None:
    shop = shop_of(spark, tmp_path, modes=["current", "history"])
    for name in order:
        shop.load_records(BATCHES[name], f"{name}.jsonl")
    assert names_of(shop) == WANTED
    versions = {(r["id"], r["name"], r["title"]) for r in shop.rows("orders__history")}
    assert versions == {
        (1, "untouched", None), (2, "touched", None), (2, "touched since", None),
        (3, "given up", None), (4, "new", None), (5, None, None),
    }  # fmt: skip


class Source:
    """A table as MySQL has it, and the events that its log gives."""

    def __init__(self, *columns: str) -> None:
        self.columns = list(columns)
        self.rows: dict[int, Row] = {}
        self.events: list[Row] = []

    def _next(self) -> int:
        return len(self.events) + 1

    def upsert(self, ident: int, **values: Any) -> None:
        """Of a row that is there, columns that are not named are large and not sent."""
        known = self.rows.get(ident)
        row = {c: values.get(c, (known or {}).get(c)) for c in self.columns}
        sent = row if known is None else {c: values.get(c, PLACEHOLDER) for c in self.columns}
        self.events.append(event("u" if known else "c", self._next(), id=ident, **sent))
        self.rows[ident] = row

    def delete(self, ident: int) -> None:
        self.events.append(event("d", self._next(), {"id": ident, **self.rows.pop(ident)}))

    def rename(self, **columns: str) -> None:
        """All at once, as MySQL does in one statement."""
        listed = ", ".join(f"RENAME COLUMN `{old}` TO `{new}`" for old, new in columns.items())
        self.events.append(ddl(self._next(), f"ALTER TABLE `orders` {listed}"))
        self.columns = [columns.get(c, c) for c in self.columns]
        self.rows = {
            i: {columns.get(c, c): v for c, v in row.items()} for i, row in self.rows.items()
        }

    def drop(self, column: str) -> None:
        """No event of a row; the column is not in later ones."""
        self.columns.remove(column)
        self.rows = {i: {c: v for c, v in r.items() if c != column} for i, r in self.rows.items()}

    def add(self, column: str) -> None:
        self.columns.append(column)
        self.rows = {i: row | {column: None} for i, row in self.rows.items()}


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


def held(shop: Sandbox, source: Source, table: str = "orders") -> dict[int, Row]:
    """What the source has too; the columns that it has no more must be empty."""
    rows = {row["id"]: row for row in shop.rows(table)}
    gone = {c for row in rows.values() for c in row if c in "abcd" and c not in source.columns}
    assert not any(row[c] for row in rows.values() for c in gone)
    return {i: {c: row[c] for c in source.columns} for i, row in rows.items()}


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


@pytest.fixture
def lake(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Sandbox:
    """With a ledger; drivers run in here."""
    shop = shop_of(spark, tmp_path, modes=["soft_delete", "history"])
    monkeypatch.setattr(stages, "submit", shop.drive)
    return shop


def run(lake: Sandbox, name: str) -> str:
    """Load and publish one of BATCHES, as `sluice run` does."""
    lake.write(f"{name}.jsonl", BATCHES[name])
    return lake.run().batch_id


def living(lake: Sandbox) -> dict[int, tuple[Any, Any]]:
    gone = {row["id"] for row in lake.rows("orders") if row["_is_deleted"]}
    return {i: both for i, both in names_of(lake).items() if i not in gone}


@pytest.mark.long
def test_a_rename_is_known_before_its_table(lake: Sandbox) -> None:
    """No event of a row has the new name, and the source's table has it."""
    run(lake, "renamed")
    run(lake, "before")
    untouched = {1: "untouched", 2: "touched", 3: "given up", 5: None}
    assert names_of(lake) == {i: (name, None) for i, name in untouched.items()}
    assert lake.agrees()


@pytest.mark.long
def test_a_look_tells_of_a_rename_until_it_is_done(
    lake: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(preview, "submit", lake.look)
    run(lake, "before")
    lake.write("renamed.jsonl", BATCHES["renamed"])
    (looked,) = preview.preview(lake.context()).forecast.tables
    assert (looked.renamed, looked.counts.applied) == (("title → name",), 0)
    lake.run()
    lake.write("since.jsonl", BATCHES["since"])
    (looked,) = preview.preview(lake.context()).forecast.tables
    assert (looked.renamed, looked.counts.applied) == ((), 3)


@pytest.mark.long
def test_a_rename_is_rolled_back(lake: Sandbox) -> None:
    before = run(lake, "before")
    renamed = run(lake, "renamed")
    assert names_of(lake)[1] == ("untouched", None)
    rollback(lake.context(), renamed, hold=True)
    assert {row["title"] for row in lake.rows("orders")} >= {"untouched", "touched"}
    assert lake.agrees()
    run(lake, "since")
    assert living(lake)[1] == (None, "untouched")
    release(lake.context(), renamed)
    (result,), _ = stages.run(lake.context())
    assert living(lake) == WANTED
    assert lake.agrees()
    assert before != result.batch_id


@pytest.mark.long
def test_a_rename_is_undone_beneath_others(lake: Sandbox) -> None:
    run(lake, "before")
    renamed = run(lake, "renamed")
    run(lake, "since")
    assert living(lake) == WANTED
    refolding.rollback(lake.context(), renamed)
    assert living(lake) == {
        1: (None, "untouched"), 2: ("touched since", None), 4: ("new", None), 5: (None, None),
    }  # fmt: skip
    assert lake.agrees()


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


def test_the_configuration_tells_what_the_source_does_not(
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
def test_what_cannot_be_followed_stops_or_is_told(spark: SparkSession, tmp_path: Path) -> None:
    shop = shop_of(spark, tmp_path)
    shop.load_records(BATCHES["before"])
    ident = "ALTER TABLE orders RENAME COLUMN id TO number"
    with pytest.raises(PlanError, match="the key is"):
        shop.load_records([ddl(10, ident)])
    numbered = {"key": ["id"], "columns": {"id": "int", "name": "int"}}
    shop.configure(format="debezium", tables={"orders": numbered})
    with pytest.raises(PlanError, match="do not fit together"):
        shop.load_records([ddl(10), event("c", 11, id=8, name=8)])
    orders = {"key": ["id"], "columns": {"id": "int"}}
    shop.configure(format="debezium", tables={"orders": orders}, on_schema_change="fail")
    with pytest.raises(PlanError, match="renamed title to name"):
        shop.load_records([ddl(10)])
    shop.configure(format="debezium", tables={"orders": orders}, on_schema_change="additive")
    reserved = "ALTER TABLE orders RENAME COLUMN title TO _position"
    unread = [ddl(20, "ALTER TABLE orders RENAME COLUMN"), ddl(21, reserved)]
    shop.load_records([ddl(10), *unread, *BATCHES["since"]])
    assert names_of(shop)[1] == (None, "untouched")
    told = shop.catalog.load_table(("sluice", "renames")).scan().to_arrow().to_pylist()
    followed = {(r["source_table"], r["columns"]) for r in told if r["problem"] is None}
    assert ("shop.orders", '[["title", "name"]]') in followed
    assert {r["statement"]: r["problem"] for r in told if r["problem"]} == {
        "ALTER TABLE orders RENAME COLUMN": "no grammar reads it",
        reserved: "no column may have such a name",
    }


def test_by_arrival_a_statement_stands_where_it_came(spark: SparkSession, tmp_path: Path) -> None:
    """Canal: rows before it in the file have the former name, rows after it the new one."""

    def message(kind: str, *rows: Row, sql: str = "") -> Row:
        told: Row = {"type": kind, "database": "shop", "table": "orders", "es": 1, "ts": 2,
                     "isDdl": bool(sql), "sql": sql, "id": 1}  # fmt: skip
        return told | {"data": list(rows) or None, "pkNames": ["id"] if rows else None}

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


@pytest.mark.long
@pytest.mark.parametrize(
    "told",
    [pytest.param([], id="alone"), pytest.param([event("c", 30, id=9, name="z")], id="with newer")],
)
def test_versions_are_put_together_again_by_a_rename_told_late(
    spark: SparkSession, tmp_path: Path, told: list[Row]
) -> None:
    batches = [
        [event("c", 5, id=1, title="x", note="a")],
        [event("u", 15, id=1, name=PLACEHOLDER, note="b")],
        [ddl(10), *told],
    ]
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


def test_the_only_rename_that_is_told_is_undone_beneath_others_and_comes_again(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a format that tells no defaults, so that nothing at all is told without it."""
    orders = {"key": ["id"], "columns": {"id": "int"}}
    shop = Sandbox(spark, tmp_path, {"format": "maxwell", "tables": {"orders": orders}})
    monkeypatch.setattr(stages, "submit", shop.drive)
    batches = []
    for pos, told in enumerate(({"id": 1, "title": "x"}, RENAME, {"id": 2, "name": "y"})):
        shop.write(f"{pos}.jsonl", [of_maxwell(pos + 1, told)])
        batches.append(shop.run().batch_id)
    assert names_of(shop) == {1: ("x", None), 2: ("y", None)}
    refolding.rollback(shop.context(), batches[1])
    assert names_of(shop) == {1: (None, "x"), 2: ("y", None)}
    assert shop.agrees()
    release(shop.context(), batches[1])
    stages.run(shop.context())
    assert names_of(shop) == {1: ("x", None), 2: ("y", None)}
    assert shop.agrees()


def of_maxwell(pos: int, told: Row | str) -> Row:
    """A row's insert, or a statement."""
    event = {"database": "shop", "table": "orders", "ts": pos, "position": f"bin.000001:{pos}"}
    if isinstance(told, str):
        return {"type": "table-alter", "sql": told, **event}
    return {"type": "insert", "data": told, "xid": pos, "commit": True, **event}
