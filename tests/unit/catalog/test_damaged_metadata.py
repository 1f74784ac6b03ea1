"""Metadata that is no longer what was written: the error names the table and the file of it."""

from __future__ import annotations

import errno
import gzip
from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from pyiceberg.catalog import Catalog
from pyiceberg.io.pyarrow import PyArrowFile
from pyiceberg.table import Table

from sluice.catalog.client import (
    UNREADABLE,
    UnknownMetadataError,
    list_tables,
    load_table,
    open_catalog,
)
from sluice.catalog.failures import as_sluice_error
from sluice.catalog.folders import TableFolders
from sluice.errors import LedgerDamagedError, TransientError
from sluice.ledger.states import LANDED
from sluice.names import LEDGER_NAMESPACE
from sluice.output.query import run_sql
from tests.unit.foreign_tables import ONE
from tests.unit.outages import failing
from tests.unit.projects import empty_lake, open_shop

pytestmark = pytest.mark.catalog

NAME = ("shop", "orders")
Damage = Callable[[bytes], bytes]
PLAIN: dict[str, Damage] = {
    "cut": lambda content: content[: len(content) // 2],
    "empty": lambda _: b"",
    "zeros": lambda content: bytes(len(content)),
    "not UTF-8": lambda content: content.replace(b'"id"', b'"\xe9\xff"'),
    "not an object": lambda _: b"[]",
    "no properties": lambda content: content.replace(b'properties":{', b'properties":7,"x":{'),
    "a list without elements": lambda content: content.replace(b'"long"', b'{"type":"list"}'),
}  # fmt: skip
COMPRESSED: dict[str, Damage] = {
    "cut": lambda content: content[: len(content) // 2],
    "empty": lambda _: b"",
    "not compressed": gzip.decompress,
    "zeros": lambda content: bytes(len(content)),
    "another checksum": lambda content: content[:-8] + bytes(8),
    "a hole": lambda content: content[:30] + bytes(30) + content[60:],
}


@pytest.fixture
def catalog(tmp_path: Path) -> Catalog:
    opened = open_catalog(empty_lake(tmp_path))
    opened.create_namespace("shop")
    return opened


def metadata_file(table: Table) -> Path:
    return Path(urlsplit(table.metadata_location).path)


def change(table: Table, how: Damage) -> None:
    file = metadata_file(table)
    file.write_bytes(how(file.read_bytes()))


def compressed(catalog: Catalog, table: Table) -> Table:
    """The table with its metadata in gzip, as Java's `write.metadata.compression-codec` has it."""
    file = metadata_file(table).with_name("00000.gz.metadata.json")
    file.write_bytes(gzip.compress(metadata_file(table).read_bytes()))
    catalog.drop_table(table.name())
    return catalog.register_table(table.name(), f"file://{file}")


@pytest.mark.parametrize("how", sorted(PLAIN))
def test_damaged_metadata(catalog: Catalog, how: str) -> None:
    table = catalog.create_table(NAME, ONE)
    change(table, PLAIN[how])
    with pytest.raises(UnknownMetadataError) as raised:
        load_table(catalog, NAME)
    assert str(raised.value).startswith("shop.orders: its metadata cannot be read (")
    assert f"put {table.metadata_location} back from a backup" in str(raised.value)


@pytest.mark.parametrize("how", sorted(COMPRESSED))
def test_damaged_metadata_in_gzip(catalog: Catalog, how: str) -> None:
    table = compressed(catalog, catalog.create_table(NAME, ONE))
    change(table, COMPRESSED[how])
    with pytest.raises(UnknownMetadataError) as raised:
        load_table(catalog, NAME)
    assert f"put {table.metadata_location} back from a backup" in str(raised.value)


def test_bytes_that_were_damaged_on_their_way_are_read_again(
    catalog: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = catalog.create_table(NAME, ONE)
    mismatch = OSError(
        "AWS Error VALIDATION during GetObject operation: Response checksums mismatch"
    )
    monkeypatch.setattr(PyArrowFile, "open", failing(1, mismatch, PyArrowFile.open))
    loaded = load_table(catalog, NAME)
    assert loaded.metadata_location == table.metadata_location


@pytest.fixture
def orders(tmp_path: Path) -> Table:
    """A table of a lake that has a ledger."""
    shop = open_shop(tmp_path)
    shop.ledger.batches.record("b1", LANDED)
    shop.catalog.create_namespace_if_not_exists("shop")
    return shop.catalog.create_table(NAME, ONE)


def test_missing_metadata_is_named_and_does_not_come_back_by_itself(orders: Table) -> None:
    metadata_file(orders).unlink()
    with pytest.raises(UnknownMetadataError) as raised:
        load_table(orders.catalog, NAME)
    assert str(raised.value).startswith("shop.orders: its metadata is missing (FileNotFoundError")
    assert f"put {orders.metadata_location} back from a backup" in str(raised.value)
    assert as_sluice_error(raised.value) is raised.value


def test_a_damaged_ledger_does_not_hide_that_another_table_has_lost_its_file(
    orders: Table,
) -> None:
    ledger = list_tables(orders.catalog, LEDGER_NAMESPACE)[0]
    metadata_file(orders.catalog.load_table(ledger)).write_text("no JSON")
    metadata_file(orders).unlink()
    with pytest.raises(UnknownMetadataError, match=r"shop\.orders: its metadata is missing"):
        load_table(orders.catalog, NAME)


def test_a_warehouse_that_is_away_is_waited_for(tmp_path: Path, orders: Table) -> None:
    """As a share that is not mounted: the table's file is not gone for good."""
    warehouse = tmp_path / "data" / "warehouse"
    warehouse.rename(tmp_path / "away")
    with pytest.raises(FileNotFoundError) as raised:
        load_table(orders.catalog, NAME)
    assert isinstance(as_sluice_error(raised.value), TransientError)


def test_in_a_lake_without_a_ledger_nothing_says_that_the_warehouse_is_there(
    catalog: Catalog,
) -> None:
    metadata_file(catalog.create_table(NAME, ONE)).unlink()
    with pytest.raises(FileNotFoundError):
        load_table(catalog, NAME)


def test_metadata_that_others_replace_during_the_read_are_read_again(
    orders: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone = FileNotFoundError(errno.ENOENT, "No such file or directory")
    read = type(orders.catalog).load_table
    monkeypatch.setattr(type(orders.catalog), "load_table", failing(1, gone, read))
    assert load_table(orders.catalog, NAME).metadata_location == orders.metadata_location


def test_the_other_tables_are_read_as_ever(tmp_path: Path) -> None:
    project = empty_lake(tmp_path)
    catalog = open_catalog(project)
    catalog.create_namespace("shop")
    change(catalog.create_table(NAME, ONE), lambda _: b"\xff")
    other = catalog.create_table(("shop", "users"), ONE)
    assert run_sql(project, "SELECT count(*) AS n FROM shop.users").to_pylist() == [{"n": 0}]
    assert run_sql(project, "SHOW TABLES").num_rows == 2
    assert TableFolders(catalog).shared_with(other) == []
    with pytest.raises(UnknownMetadataError, match=r"shop\.orders: its metadata cannot be read"):
        run_sql(project, "SELECT count(*) FROM shop.orders")


def test_damaged_metadata_of_the_ledger_is_no_error_of_a_batch(tmp_path: Path) -> None:
    shop = open_shop(tmp_path)
    shop.ledger.batches.record("b1", LANDED)
    table = shop.catalog.load_table(("sluice", "batches"))
    change(table, lambda _: b"\xff")
    for ask in (
        lambda: shop.ledger.batches.get("b1"),
        lambda: shop.ledger.batches.record("b2", LANDED),
    ):
        with pytest.raises(LedgerDamagedError) as raised:
            ask()
        assert "sluice.batches: its metadata cannot be read" in str(raised.value)
        assert f"put {table.metadata_location} back from a backup" in str(raised.value)
    assert isinstance(raised.value, UNREADABLE)
