"""What the dialects share: one abstract change, and what a format can express of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from sluice.manifest import SourceFile
from tests.reference import Change

Row = dict[str, Any]
Tell = Callable[[Change, str, int], list[Any]]
NonRowRecords = Callable[[str], list[Any]]
Names = Callable[[Any, int], str]
INDEX = "CREATE INDEX by_amount ON keyed (amount)"
MILLIS = 10**12


@dataclass(frozen=True)
class Dialect:
    """One format's way to write a history.

    `tell(change, database, sent)` returns the records of one change; `sent` differs between
    repeats. `truncates`: the format can express a TRUNCATE. `by_arrival`: the place in the landed
    files is the order, so a history is written in order and once. `source_table` and `table_name`:
    how the pipeline names a table of the events, and its target. Without `write` and `content`,
    files are JSON lines; `content(records)` returns bytes that are landed as any file.
    `file(record, at)`: the file of a record, among those that are written at one time. `only_rows`:
    the format only has rows, so a history has whole rows, each of which replaces the one with its
    key. `besides`: columns of a table that are not the source's. `non_row_records(database)`:
    records among the changes that change no row: heartbeats, transaction markers, statements.
    """

    name: str
    format: str
    tell: Tell
    options: Row = field(default_factory=dict)
    truncates: bool = True
    by_arrival: bool = False
    source_table: str = "{table}"
    table_name: str = "{database}_{table}"
    write: Callable[[Path, Iterable[Any]], SourceFile] | None = None
    content: Callable[[list[Any]], bytes] | None = None
    file: Names = lambda record, at: f"{at:03}.jsonl"
    only_rows: bool = False
    besides: tuple[str, ...] = ()
    non_row_records: NonRowRecords = lambda database: []

    def pipeline(self, database: str, tables: dict[str, Row]) -> Row:
        """The pipeline that reads the tables of one database."""
        named = {self.source_table.format(database=database, table=t): c for t, c in tables.items()}
        return {
            "format": self.format, "format_options": self.options, "tables": named,
            "table_name": self.table_name,
        }  # fmt: skip


def images(change: Change) -> tuple[Row, Row]:
    """The row before and the row after; empty if the change has none."""
    return dict(change.before or ()), dict(change.after or ())


def sent_columns(change: Change) -> Row:
    """The row after a change without the columns that it did not carry."""
    return {n: v for n, v in dict(change.after or ()).items() if n not in change.absent}


def whole_inserts(change: Change) -> Change:
    """The change for a format in which an insert, even that of a changed key, is complete."""
    return change if change.op == "u" else replace(change, absent=frozenset())


def moves(change: Change) -> bool:
    """Whether this is an update after which the old row is another one, or one of
    many equal ones."""
    before, after = images(change)
    return bool(before and after) and ("id" not in after or before["id"] != after["id"])


def key(change: Change) -> list[str]:
    """The columns of the key; none for a table without one."""
    before, after = images(change)
    return ["id"] if "id" in (after or before) else []


def ident(change: Change) -> Row:
    """The key's values, of the row after if there is one."""
    before, after = images(change)
    return {name: (after or before)[name] for name in key(change)}


def serial(change: Change) -> int:
    """A different place for each change, for formats that cannot have two at one place."""
    return 2 * change.place[1] + (change.op != "d")


def texts(row: Row) -> Row:
    """Values as formats write them that only have text."""
    return {name: None if value is None else str(value) for name, value in row.items()}
