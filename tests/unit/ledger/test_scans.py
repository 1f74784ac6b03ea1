"""What is read of the ledger is read once, and never of another snapshot, filter or table."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.expressions import AlwaysTrue, BooleanExpression
from pyiceberg.table import Table

from sluice.catalog.expressions import equals
from sluice.ledger import scans
from sluice.ledger.scans import Scans

pytestmark = pytest.mark.catalog

EVERYTHING = AlwaysTrue()


@pytest.fixture
def catalog(tmp_path: Path) -> SqlCatalog:
    made = SqlCatalog("lake", uri=f"sqlite:///{tmp_path}/c.db", warehouse=str(tmp_path / "lake"))
    made.create_namespace("n")
    return made


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Any, ...]]:
    """What went to the files: of each scan its filter and columns."""
    asked: list[tuple[Any, ...]] = []
    scan = scans.scan

    def counted(table: Table, where: BooleanExpression, columns: tuple[str, ...]) -> Any:
        asked.append((where, columns))
        return scan(table, where, columns)

    monkeypatch.setattr(scans, "scan", counted)
    return asked


def table_of(catalog: SqlCatalog, name: str, *letters: str) -> Table:
    table = catalog.create_table(("n", name), pa.schema([("letter", pa.string())]))
    table.append(rows(*letters))
    return table


def rows(*letters: str) -> pa.Table:
    return pa.table({"letter": pa.array(letters, pa.string())})


def letters(found: Any) -> list[str]:
    return sorted(found["letter"].to_pylist())


def test_a_snapshot_is_read_once(catalog: SqlCatalog, read: list[Any]) -> None:
    made, kept = table_of(catalog, "t", "a", "b"), Scans()
    for _ in range(3):
        assert letters(kept.read(made, EVERYTHING)) == ["a", "b"]
        assert letters(kept.read(catalog.load_table(("n", "t")), equals("letter", "b"))) == ["b"]
    assert read == [(EVERYTHING, ("*",)), (equals("letter", "b"), ("*",))]


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
    catalog: SqlCatalog, read: list[Any], monkeypatch: pytest.MonkeyPatch
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
