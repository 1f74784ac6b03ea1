"""A damaged file of the ledger: every command says which, and that no other try mends it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from pyiceberg.expressions import AlwaysTrue
from pyiceberg.table import DataScan, Table
from typer.testing import CliRunner

from sluice.catalog.damage import damaged_file
from sluice.cli import app
from sluice.errors import LedgerDamagedError
from sluice.ledger.scans import scan
from sluice.ledger.states import LANDED
from sluice.operations.context import Context
from spark_jobs.decoding import table_isolation
from tests.unit.damaged_files import damage_page
from tests.unit.outages import failing
from tests.unit.projects import open_shop

pytestmark = pytest.mark.catalog

MISMATCH = "AWS Error VALIDATION during GetObject operation: Response checksums mismatch"


@pytest.fixture
def shop(tmp_path: Path) -> Context:
    shop = open_shop(tmp_path)
    shop.ledger.batches.record("b1", LANDED)
    return open_shop(tmp_path)  # without the rows in its cache


def batches(shop: Context) -> Table:
    return shop.catalog.load_table(("sluice", "batches"))


def path_of(location: str) -> Path:
    return Path(urlsplit(location).path)


def rows(table: Table) -> str:
    (task,) = table.scan().plan_files()
    return str(task.file.file_path)


def manifest_list(table: Table) -> str:
    snapshot = table.current_snapshot()
    assert snapshot is not None
    return snapshot.manifest_list


def manifest(table: Table) -> str:
    snapshot = table.current_snapshot()
    assert snapshot is not None
    (only,) = snapshot.manifests(table.io)
    return str(only.manifest_path)


def cut(file: Path) -> None:
    content = file.read_bytes()
    file.write_bytes(content[: len(content) // 2])


@pytest.mark.parametrize(
    ("of", "damage"),
    [(rows, damage_page), (rows, cut), (manifest, cut), (manifest_list, cut)],
    ids=["page", "rows", "manifest", "list"],
)
def test_damaged_file_of_the_ledger_is_named_and_is_not_tried_again(
    shop: Context, tmp_path: Path, of: Callable[[Table], str], damage: Callable[[Path], None]
) -> None:
    location = of(batches(shop))
    damage(path_of(location))
    with pytest.raises(LedgerDamagedError) as raised:
        shop.ledger.batches.get("b1")
    advice = f"; if {location} is damaged, put it back from a backup (docs/operations.md, A "
    assert str(raised.value).startswith("sluice.batches cannot be read: ")
    assert advice in str(raised.value)
    status = CliRunner().invoke(app, ["status", "--project", str(tmp_path)])
    assert (status.exit_code, type(status.exception)) == (1, SystemExit)
    assert advice in status.output


def test_bytes_that_were_damaged_on_their_way_are_read_again(
    shop: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = DataScan.to_arrow
    monkeypatch.setattr(DataScan, "to_arrow", failing(1, OSError(MISMATCH), real))
    found = shop.ledger.batches.get("b1")
    assert found is not None
    assert found.state == LANDED


def test_no_file_is_named_where_none_is_damaged(
    shop: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert damaged_file(batches(shop).scan()) == ""
    monkeypatch.setattr(DataScan, "to_arrow", failing(1, ValueError("equality deletes")))
    with pytest.raises(LedgerDamagedError, match=r"ValueError: equality deletes \(docs"):
        scan(batches(shop), AlwaysTrue())


def test_a_damaged_ledger_is_not_blamed_on_a_table(shop: Context) -> None:
    """Else the batch would be published without all tables that looked into it."""
    cut(path_of(rows(batches(shop))))
    pipeline = shop.pipeline.model_copy(update={"consistency": "table"})

    def look(_: str) -> None:
        shop.ledger.batches.get("b1")

    with pytest.raises(LedgerDamagedError) as raised:
        table_isolation.for_each_table(pipeline, ["s.orders", "s.notes"], str, look)
    assert not raised.value.tables
