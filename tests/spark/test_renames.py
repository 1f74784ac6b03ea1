"""RENAME COLUMN: no event tells of the rows that are there, and names resolve by position."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

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
QUICK = (("before", "renamed", "since"), ("since", "renamed", "before"))


@pytest.mark.parametrize(
    "order",
    [
        pytest.param(order, marks=[] if order in QUICK else [pytest.mark.long])
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


IN_ORDER = [range(0, 3), range(3, 5), range(5, 9), range(9, 20)]
DDL_FIRST = [[3, 5, 7], [*range(8, 20), 4], [6, *range(0, 3)]]


@pytest.mark.parametrize(
    "batches",
    [
        pytest.param(IN_ORDER, id="in-order"),
        pytest.param(DDL_FIRST, id="ddl-first", marks=pytest.mark.long),
        pytest.param([*DDL_FIRST[1:], DDL_FIRST[0]], id="ddl-last", marks=pytest.mark.long),
        pytest.param([[5, 8, 9], [3, 0, 4, 11], [7, 1, 10, 2, 6, 12]], id="mixed",
                     marks=pytest.mark.long),
        pytest.param([range(0, 20)], id="one", marks=pytest.mark.long),
    ],
)  # fmt: skip
def test_names_resolve_by_position(
    spark: SparkSession, tmp_path: Path, batches: list[list[int]]
) -> None:
    source, shop = renamed_often(), shop_of(spark, tmp_path)
    for batch in batches:
        shop.load_records([source.events[i] for i in batch if i < len(source.events)])
    assert held(shop, source) == source.rows
