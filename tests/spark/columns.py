"""A source whose table changes its columns: its log, and the rows that the tables must
have in the end."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any

from sluice import names
from spark_jobs.canonical import OP_DELETE
from tests.spark.connect import BIGINT, ID, INT, TEXT, schema_of
from tests.spark.sandbox import Sandbox

COLUMNS = ("a", "b", "c", "d")
IDS = 4
DEFAULT = 7
WIDE = 2**40
Row = dict[str, Any]
Step = tuple[int, int, int]
Version = tuple[int, dict[int, Any]]


@dataclass
class Column:
    """One column of the source, with the default with which it was added.

    `large`: it is of text, and an update may leave its value out. `replaced`: after its end another
    column got its name. `added`, `ended`: the places of its statements, 0 if there are none.
    `first`: the place of the first change that has it. `had`: all its names.
    """

    name: str
    default: int | None = None
    large: bool = False
    wide: bool = False
    dropped: bool = False
    replaced: bool = False
    added: int = 0
    ended: int = 0
    first: int | None = None
    had: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.had.add(self.name)

    @property
    def described(self) -> Row:
        """The column's description, as in a Connect schema."""
        kind = TEXT if self.large else BIGINT if self.wide else INT
        return kind if self.default is None else kind | {"default": self.default}

    def value(self, number: int) -> Any:
        """A value of the column's type."""
        return f"L{number}" if self.large else WIDE * self.wide + number

    @property
    def shown(self) -> str:
        """The column's name in the tables: the last one that it had."""
        return f"{self.name}__dropped" if self.replaced else self.name


@dataclass
class Table:
    """A table that changes, and its log: statements, and changes with the columns that they had."""

    database: str
    columns: list[Column] = field(default_factory=lambda: [Column("a"), Column("b")])
    log: list[Row] = field(default_factory=list)
    versions: dict[int, list[Version | None]] = field(default_factory=dict)
    sent: set[str] = field(default_factory=set)
    clock: int = 0

    def step(self, step: Step) -> None:
        kind, pick, value = step
        here = [column for column in self.columns if not column.dropped]
        free = sorted(set(COLUMNS) - {column.name for column in here})
        whole = [column for column in here if not column.large]
        if kind == 0 and free:
            return self.add(free[pick % len(free)], DEFAULT if value % 2 else None)
        if kind == 1 and len(here) > 1:
            return self.drop(here[pick % len(here)])
        if kind == 2 and free and here:
            return self.rename(here[pick % len(here)], free[value % len(free)])
        if kind == 3 and whole:
            return self.widen(whole[pick % len(whole)])
        return self._change(pick % IDS, value, here)

    def widen(self, column: Column) -> None:
        column.wide = True
        self._tell(f"MODIFY COLUMN {column.name} bigint")

    def _take(self, taker: Column, name: str) -> None:
        """Let another column take a name."""
        for column in self.columns:
            column.replaced |= column.dropped and column.name == name
        taker.had.add(name)

    def add(self, name: str, default: int | None, large: bool = False) -> None:
        column = Column(name, default, large)
        self._take(column, name)
        self.columns.append(column)
        expected = "" if column.default is None else f" DEFAULT {column.default}"
        self._tell(f"ADD COLUMN {name} {'text' if large else 'int'}{expected}")
        column.added = self.clock

    def drop(self, column: Column) -> None:
        column.dropped = True
        self._tell(f"DROP COLUMN {column.name}")
        column.ended = self.clock

    def rename(self, column: Column, name: str) -> None:
        self._take(column, name)
        self._tell(f"RENAME COLUMN {column.name} TO {name}")
        column.name = name

    def _tell(self, what: str) -> None:
        about = {"databaseName": self.database, "tableChanges": []}
        self.log.append({"source": self._place(), **about, "ddl": f"ALTER TABLE orders {what}"})

    def _change(self, ident: int, value: int, here: list[Column]) -> None:
        for column in here:  # the schema of a delete has them, too
            column.first = column.first or self.clock + 1
        known = self.versions.setdefault(ident, [])
        alive = bool(known) and known[-1] is not None
        if alive and value < 2:
            known.append(None)
            return self.write("d", {"id": ident}, None, here)
        told = {id(c): c.value(100 * self.clock + at) for at, c in enumerate(here)}
        usual = (c for at, c in enumerate(here) if (value + at) % 3 == 0 and not c.large)
        told |= {id(c): DEFAULT for c in usual}
        known.append((self.clock + 1, told))
        after = {"id": ident} | {column.name: told[id(column)] for column in here}
        return self.write("u" if alive else "c", None, after, here)

    def write(self, op: str, before: Row | None, after: Row | None, here: list[Column]) -> None:
        self.sent |= {column.name for column in here}
        types = {"id": ID} | {column.name: column.described for column in here}
        payload = {"op": op, "source": self._place(), "before": before, "after": after}
        self.log.append({"schema": schema_of(types, "after"), "payload": payload})

    def _place(self) -> Row:
        self.clock += 1
        return {"connector": "mysql", "db": self.database, "table": "orders", "row": 0,
                "file": "mysql-bin.000007", "pos": self.clock, "ts_ms": 10**12 + self.clock,
                "snapshot": "false"}  # fmt: skip

    def spelled(self, ident: int, version: Version) -> Row:
        """A version as the tables show it: each column under the last name that it had.

        Of dropped columns with one name, a row shows the last one that it had, or else the default
        of the one that was added first (configuration.md, Dropped columns).
        """
        at, told = version
        shown = {"id": ident} | self._defaults(at)
        for column in sorted(self.columns, key=lambda column: column.ended):
            value = told.get(id(column))
            if value is not None:
                shown[column.shown] = value
        return {name: value for name, value in shown.items() if name not in self.unsure()}

    def _defaults(self, at: int) -> Row:
        added = sorted((c for c in self.columns if c.added), key=lambda c: c.added, reverse=True)
        firsts = {column.shown: column for column in added}
        return {n: c.default for n, c in firsts.items() if at < c.added and c.default is not None}

    def unsure(self) -> set[str]:
        """The columns that the tables may lack, because no change has them or their names
        (architecture.md, exception 7)."""
        return {c.shown for c in self.columns if c.first is None and not self.sent & c.had}

    def rows(self) -> Counter[Any]:
        """The present rows."""
        newest = {ident: known[-1] for ident, known in self.versions.items()}
        return counted(self.spelled(i, told) for i, told in newest.items() if told is not None)

    def history(self) -> Counter[Any]:
        """All versions that ever existed."""
        return counted(
            self.spelled(ident, told)
            for ident, known in self.versions.items()
            for told in known
            if told is not None
        )


def counted(rows: Any) -> Counter[Any]:
    """Rows by their values; a column that is NULL counts as missing."""
    return Counter(tuple(sorted((k, v) for k, v in row.items() if v is not None)) for row in rows)


def as_text(rows: Counter[Any]) -> Counter[Any]:
    """Numbers by their text: a column has it where one of text had its name too."""
    return Counter({tuple((k, str(v)) for k, v in row): count for row, count in rows.items()})


def seen(lake: Sandbox, table: str, without: Collection[str] = ()) -> Counter[Any]:
    """The rows of a table of the lake, without deletes, Sluice's own columns, and others."""
    hidden = {*names.RESERVED_COLUMNS, *without}
    return counted(
        {k: v for k, v in row.items() if k not in hidden}
        for row in lake.rows(table)
        if row.get(names.OP) != OP_DELETE
    )


def pipeline(*modes: str) -> dict[str, Any]:
    """The pipeline of a database's `orders`, with its history."""
    table = {"key": ["id"], "columns": {"id": "int"}, "modes": [*modes, "history"]}
    return {"format": "debezium", "table_name": "{database}_{table}", "tables": {"orders": table}}


def batches(log: list[Row], seed: int, count: int, newest_first: bool) -> list[list[Row]]:
    """A log in batches: each record at least once, in any order within them."""
    rng = random.Random(seed)
    found: list[list[Row]] = [[] for _ in range(count)]
    for age, record in enumerate(reversed(log)):
        turn = age * count // len(log) if newest_first else rng.randrange(count)
        for at in {turn, *([rng.randrange(count)] if rng.random() < 0.2 else [])}:
            found[at].append(record)
    for batch in found:
        rng.shuffle(batch)
    return [batch for batch in found if batch]


def delivered(lake: Sandbox, table: Table, dealt: list[list[Row]]) -> str:
    """Load a table's batches one after the other; return the name of its target."""
    for at, batch in enumerate(dealt):
        lake.write(f"{table.database}/{at}.jsonl", batch)
        lake.run()
    return f"{table.database}_orders"
