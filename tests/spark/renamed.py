"""A table whose columns get other names, and its events before, with and since the statements."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from tests.spark.sandbox import Sandbox

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

    def add(self, column: str, default: str | None = None, told: bool = False) -> None:
        """Rows that are there hold the default; events of it come only where it is `told`."""
        if told:
            text = "" if default is None else f" DEFAULT '{default}'"
            statement = f"ALTER TABLE `orders` ADD `{column}` text{text}"
            self.events.append(ddl(self._next(), statement))
        self.columns.append(column)
        self.rows = {i: row | {column: default} for i, row in self.rows.items()}


def held(shop: Sandbox, source: Source, table: str = "orders") -> dict[int, Row]:
    """What the source has too; the columns that it has no more must be empty."""
    rows = {row["id"]: row for row in shop.rows(table)}
    gone = {c for row in rows.values() for c in row if c in "abcd" and c not in source.columns}
    assert not any(row[c] for row in rows.values() for c in gone)
    return {i: {c: row[c] for c in source.columns} for i, row in rows.items()}
