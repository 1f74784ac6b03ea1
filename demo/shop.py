"""A shop that lives for some hours: its rows now, and every change that led there.

The rows are what the lake has to hold in the end; the changes are what the engines write down.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any, Final, Literal

Kind = Literal["int", "text", "money", "moment", "day", "flag"]
Op = Literal["read", "insert", "update", "delete", "alter"]
Row = dict[str, Any]

OPENING: Final = datetime(2026, 3, 2, 9, tzinfo=UTC)
SEED: Final = 20260302
NAMES: Final = ("Ada", "Björn", "Chiara", "Dilek", "Émile", "Fatima", "Goran", "Hana", "Ivo", "林")
CITIES: Final = ("Aarhus", "Bergen", "Cádiz", "Đà Nẵng", "Essen", "Fukuoka", "Gdańsk")
STATUSES: Final = ("new", "paid", "packed", "sent", "returned")
COUPONS: Final = ("SPRING", "VIP-10", "“ZWÖLF”", None)

CUSTOMERS: Final[dict[str, Kind]] = {
    "id": "int", "name": "text", "email": "text", "city": "text", "member_since": "day",
}  # fmt: skip
ORDERS: Final[dict[str, Kind]] = {
    "id": "int", "customer_id": "int", "status": "text", "amount": "money", "express": "flag",
    "placed_at": "moment",
}  # fmt: skip
KEY: Final = "id"
NULLABLE: Final = frozenset({"email", "coupon"})


@dataclass(frozen=True)
class Change:
    """One change as the source's log has it; `at_commit` is where the commit before it stands."""

    table: str
    op: Op
    before: Row | None
    after: Row | None
    columns: dict[str, Kind]
    at: datetime
    transaction: int
    place: int
    at_commit: int

    @property
    def moves_key(self) -> bool:
        """True for an update after which the row has another key."""
        if self.op != "update" or self.before is None or self.after is None:
            return False
        return bool(self.before[KEY] != self.after[KEY])

    def half(self, op: Op) -> Change:
        """One half of a change of the key, at the same place."""
        if op == "delete":
            return replace(self, op=op, after=None)
        return replace(self, op=op, before=None)


@dataclass
class Shop:
    """The tables, and a log that every statement is written to."""

    dice: random.Random = field(default_factory=lambda: random.Random(SEED))
    now: datetime = OPENING
    tables: dict[str, dict[int, Row]] = field(
        default_factory=lambda: {"customers": {}, "orders": {}}
    )
    columns: dict[str, dict[str, Kind]] = field(
        default_factory=lambda: {"customers": dict(CUSTOMERS), "orders": dict(ORDERS)}
    )
    log: list[Change] = field(default_factory=list)
    next_id: dict[str, int] = field(default_factory=lambda: {"customers": 1, "orders": 1001})
    transaction: int = 700
    place: int = 24_000_000
    at_commit: int = 24_000_000

    def rows(self, table: str) -> list[Row]:
        """The rows of a table by key, every row with every column."""
        names = self.columns[table]
        rows = self.tables[table]
        return [{name: rows[key].get(name) for name in names} for key in sorted(rows)]

    def take_log(self) -> list[Change]:
        """What was logged since the last call."""
        taken, self.log = self.log, []
        return taken

    def stock(self, customers: int, orders: int) -> None:
        """Rows from before the engines began: a full load reads them."""
        for table, count in (("customers", customers), ("orders", orders)):
            for _ in range(count):
                row = self._new_row(table)
                self.tables[table][row[KEY]] = row
        for table, rows in self.tables.items():
            for row in rows.values():
                self._write(table, "read", None, row)
        self.at_commit = self.place

    def hour(self, start: datetime, statements: int) -> None:
        """An hour of trade: about three updates to two inserts to one delete."""
        self.now = start
        doings: tuple[Callable[[], None], ...] = (
            self.order, self.order, self.proceed, self.proceed, self.proceed, self.cancel,
            self.move_house, self.register,
        )  # fmt: skip
        for _ in range(statements):
            self.now += timedelta(milliseconds=self.dice.randint(1, 3_000_000 // statements))
            self.dice.choice(doings)()
            if self.dice.random() < 0.6:
                self.commit()
        self.commit()

    def commit(self) -> None:
        """End the transaction."""
        self.transaction += 1
        self.place += 48
        self.at_commit = self.place

    def order(self) -> None:
        """A new order."""
        self._insert("orders")

    def register(self) -> None:
        """A new customer."""
        self._insert("customers")

    def proceed(self) -> None:
        """An order goes on to another status."""
        status = self.dice.choice(STATUSES)
        amount = self._money() if self.dice.random() < 0.3 else None
        self._update("orders", {"status": status, **({"amount": amount} if amount else {})})

    def move_house(self) -> None:
        """A customer moves; some forget their address."""
        email = {"email": None} if self.dice.random() < 0.2 else {}
        self._update("customers", {"city": self.dice.choice(CITIES), **email})

    def cancel(self) -> None:
        """An order is deleted."""
        row = self._any("orders")
        del self.tables["orders"][row[KEY]]
        self._write("orders", "delete", row, None)

    def renumber(self) -> tuple[int, int]:
        """An order gets another number: its key changes."""
        row = self._any("orders")
        after = {**row, KEY: self._new_id("orders")}
        del self.tables["orders"][row[KEY]]
        self.tables["orders"][after[KEY]] = after
        self._write("orders", "update", row, after)
        self.commit()
        return row[KEY], after[KEY]

    def add_coupons(self) -> None:
        """ALTER TABLE orders ADD COLUMN coupon; then some orders get one."""
        self.columns["orders"] = {**self.columns["orders"], "coupon": "text"}
        self._write("orders", "alter", None, None)
        for _ in range(40):
            self._update("orders", {"coupon": self.dice.choice(COUPONS)})
        self.commit()

    def _insert(self, table: str) -> None:
        row = self._new_row(table)
        self.tables[table][row[KEY]] = row
        self._write(table, "insert", None, row)

    def _update(self, table: str, values: Row) -> None:
        row = self._any(table)
        after = {**row, **values}
        self.tables[table][row[KEY]] = after
        self._write(table, "update", row, after)

    def _any(self, table: str) -> Row:
        return self.dice.choice(list(self.tables[table].values()))

    def _new_id(self, table: str) -> int:
        self.next_id[table] += 1
        return self.next_id[table] - 1

    def _money(self) -> Decimal:
        return Decimal(self.dice.randint(1, 99_999_999)).scaleb(-2)

    def _new_row(self, table: str) -> Row:
        if table == "customers":
            return self._new_customer()
        return {
            "id": self._new_id(table),
            "customer_id": self.dice.choice(list(self.tables["customers"])),
            "status": "new",
            "amount": self._money(),
            "express": self.dice.random() < 0.25,
            "placed_at": self.now.replace(tzinfo=None),
            **({"coupon": None} if "coupon" in self.columns[table] else {}),
        }

    def _new_customer(self) -> Row:
        number, name = self._new_id("customers"), self.dice.choice(NAMES)
        return {
            "id": number,
            "name": name,
            "email": f"{name.lower()}{number}@example.com",
            "city": self.dice.choice(CITIES),
            "member_since": date(2019, 1, 1) + timedelta(days=self.dice.randint(0, 2500)),
        }

    def _write(self, table: str, op: Op, before: Row | None, after: Row | None) -> None:
        self.place += self.dice.randint(40, 400)
        self.log.append(
            Change(
                table, op, before, after, self.columns[table], self.now,
                self.transaction, self.place, self.at_commit,
            )
        )  # fmt: skip
