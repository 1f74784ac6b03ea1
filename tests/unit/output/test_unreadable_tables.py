"""SQL on tables that pyiceberg cannot read, or only later: what is wrong is said in a sentence."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import urlsplit

import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog

from sluice.catalog.client import UnknownMetadataError, open_catalog
from sluice.config.project import Project
from sluice.errors import TerminalError
from sluice.output.query import run_sql
from tests.unit.foreign_tables import unreadable
from tests.unit.outages import away, failing
from tests.unit.projects import empty_lake

pytestmark = pytest.mark.catalog

NAME = ("shop", "orders")
ROWS = pa.table({"id": pa.array([1, 2], pa.int64())})


@pytest.fixture
def project(tmp_path: Path) -> Project:
    found = empty_lake(tmp_path)
    open_catalog(found).create_namespace("shop")
    return found


def _fill(project: Project) -> list[Path]:
    """Create the table; returns its files of rows."""
    table = open_catalog(project).create_table(NAME, ROWS.schema)
    table.append(ROWS)
    return [Path(urlsplit(t.file.file_path).path) for t in table.scan().plan_files()]


@pytest.mark.parametrize("name", ["shop.orders", "Shop.Orders"])
def test_metadata_of_another_engine(project: Project, name: str) -> None:
    unreadable(open_catalog(project), NAME, "variant")
    with pytest.raises(UnknownMetadataError, match=r"shop\.orders: its metadata cannot be read"):
        run_sql(project, f"SELECT count(*) FROM {name}")


def test_damaged_file_of_rows(project: Project) -> None:
    (file,) = _fill(project)
    file.write_bytes(b"PAR1" + bytes(30))
    with pytest.raises(TerminalError, match=r"shop\.orders cannot be read: .*Parquet"):
        run_sql(project, "SELECT id FROM shop.orders")


@pytest.mark.parametrize("asked", ["load_table", "list_tables", "list_namespaces"])
def test_catalog_that_is_away_for_a_moment(
    project: Project, monkeypatch: pytest.MonkeyPatch, asked: str
) -> None:
    _fill(project)
    real = getattr(SqlCatalog, asked)
    monkeypatch.setattr(SqlCatalog, asked, failing(1, away(), real))
    assert run_sql(project, "SELECT max(id) FROM SHOP.orders").to_pylist() == [{"max(id)": 2}]
