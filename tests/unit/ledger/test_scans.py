"""What is read of the ledger is read once, and never of another snapshot, filter or table."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.expressions import AlwaysTrue, BooleanExpression
from pyiceberg.table import DataScan, FileScanTask, Table
from pyiceberg.types import LongType

from sluice.catalog.expressions import equals
from sluice.catalog.scan_files import read_files
from sluice.ledger import scans
from sluice.ledger.scans import Scans

pytestmark = pytest.mark.catalog

EVERYTHING, B = AlwaysTrue(), equals("letter", "b")


@pytest.fixture
def catalog(tmp_path: Path) -> SqlCatalog:
    made = SqlCatalog("lake", uri=f"sqlite:///{tmp_path}/c.db", warehouse=str(tmp_path / "lake"))
    made.create_namespace("n")
    return made


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The number of files that each read opened."""
    asked: list[int] = []

    def counted(wanted: DataScan, tasks: Sequence[FileScanTask]) -> pa.Table:
        asked.append(len(tasks))
        return read_files(wanted, tasks)

    monkeypatch.setattr(scans, "read_files", counted)
    return asked


def table_of(catalog: SqlCatalog, name: str, *letters: str) -> Table:
    table = catalog.create_table(("n", name), pa.schema([("letter", pa.string())]))
    table.append(rows(*letters))
    return table


def rows(*letters: str) -> pa.Table:
    return pa.table({"letter": pa.array(letters, pa.string())})


def letters(found: Any) -> list[str]:
    return sorted(found["letter"].to_pylist())


def test_a_snapshot_is_read_once(catalog: SqlCatalog, read: list[int]) -> None:
    made, kept = table_of(catalog, "t", "a", "b"), Scans()
    for _ in range(3):
        assert letters(kept.read(made, EVERYTHING)) == ["a", "b"]
        assert letters(kept.read(catalog.load_table(("n", "t")), equals("letter", "b"))) == ["b"]
    assert read == [1, 1]


@pytest.mark.parametrize(("where", "before", "now"), [(EVERYTHING, "ab", "abbc"), (B, "b", "bb")])
def test_after_an_append_the_new_file_alone_is_read(
    catalog: SqlCatalog, read: list[int], where: BooleanExpression, before: str, now: str
) -> None:
    made, kept = table_of(catalog, "t", "a", "b"), Scans()
    assert letters(kept.read(made, where)) == list(before)
    made.append(rows("b", "c"))
    assert letters(kept.read(made, where)) == list(now)
    assert read == [1, 1]


def test_rows_that_were_overwritten_or_deleted_are_gone(catalog: SqlCatalog) -> None:
    made, kept = table_of(catalog, "t", "a", "b"), Scans()
    made.append(rows("c"))
    assert letters(kept.read(made, EVERYTHING)) == ["a", "b", "c"]
    made.delete(B)
    assert letters(kept.read(made, EVERYTHING)) == ["a", "c"]
    made.overwrite(rows("d"))
    assert letters(kept.read(made, EVERYTHING)) == ["d"]


def test_files_with_rows_that_are_deleted_beside_them_are_read_anew(
    catalog: SqlCatalog, read: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """PyIceberg writes no such deletes; another writer's are pretended."""
    made, kept = table_of(catalog, "t", "a", "b"), Scans()
    kept.read(made, EVERYTHING)
    made.append(rows("c"))
    tasks = [FileScanTask(task.file, {task.file}) for task in made.scan().plan_files()]
    monkeypatch.setattr(DataScan, "plan_files", lambda _: tasks)
    monkeypatch.setattr(scans, "read_files", lambda _, tasks: read.append(len(tasks)) or rows())
    assert letters(kept.read(made, EVERYTHING)) == []
    assert read == [1, 2]


def test_rows_whose_deletes_beside_them_are_gone_come_back(
    catalog: SqlCatalog, read: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    made, kept = table_of(catalog, "t", "a", "b"), Scans()
    tasks = [FileScanTask(task.file, {task.file}) for task in made.scan().plan_files()]
    with monkeypatch.context() as others:
        others.setattr(DataScan, "plan_files", lambda _: tasks)
        others.setattr(scans, "read_files", lambda *_: rows("a"))
        assert letters(kept.read(made, EVERYTHING)) == ["a"]
    made.append(rows("c"))
    assert letters(kept.read(made, EVERYTHING)) == ["a", "b", "c"]


def test_a_column_that_was_added_is_read(catalog: SqlCatalog) -> None:
    made, kept = table_of(catalog, "t", "a"), Scans()
    assert kept.read(made, EVERYTHING).column_names == ["letter"]
    with made.update_schema() as schema:
        schema.add_column("number", LongType())
    made.append(pa.table({"letter": ["b"], "number": [2]}))
    found = kept.read(made, EVERYTHING).sort_by("letter")
    assert found.to_pylist() == [{"letter": "a", "number": None}, {"letter": "b", "number": 2}]


def test_a_newer_snapshot_an_older_one_and_another_table_are_read_anew(
    catalog: SqlCatalog,
) -> None:
    old, kept = table_of(catalog, "t"), Scans()
    other = table_of(catalog, "other", "z")
    assert letters(kept.read(old, EVERYTHING)) == []
    catalog.load_table(("n", "t")).append(rows("a"))
    assert letters(kept.read(catalog.load_table(("n", "t")), EVERYTHING)) == ["a"]
    assert letters(kept.read(old, EVERYTHING)) == []
    assert letters(kept.read(other, EVERYTHING)) == ["z"]
    catalog.drop_table(("n", "t"))
    assert letters(kept.read(table_of(catalog, "t", "new"), EVERYTHING)) == ["new"]


def test_columns_are_part_of_what_was_asked(catalog: SqlCatalog) -> None:
    made, kept = table_of(catalog, "t", "a"), Scans()
    assert kept.read(made, equals("letter", "a")).column_names == ["letter"]
    assert kept.read(made, equals("letter", "a"), ()).column_names == []


def test_kept_scans_are_bounded(
    catalog: SqlCatalog, read: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    made, kept = table_of(catalog, "t", "a", "b"), Scans()
    for number in range(30):
        kept.read(made, equals("letter", str(number)))
    kept.read(made, equals("letter", "29"))
    assert len(read) == 30
    kept.read(made, equals("letter", "0"))
    assert len(read) == 31
    monkeypatch.setattr(scans, "_KEPT_BYTES", 1)
    for _ in range(2):
        kept.read(made, EVERYTHING)
    assert len(read) == 33
