"""SQL on tables that pyiceberg cannot read, or only later: what is wrong is said in a sentence."""

from __future__ import annotations

import errno
from pathlib import Path
from urllib.parse import urlsplit

import duckdb
import pyarrow as pa
import pytest
import requests
from pyarrow.lib import ArrowMemoryError
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import ForbiddenError
from pyiceberg.table import DataScan

from sluice.catalog.client import UnknownMetadataError, open_catalog
from sluice.catalog.failures import as_sluice_error
from sluice.catalog.retries import CatalogAwayError
from sluice.config.project import Project
from sluice.errors import SluiceError, TerminalError, TransientError
from sluice.output import query
from sluice.output.query import run_sql
from tests.unit.damaged_files import damage_page
from tests.unit.foreign_tables import unreadable
from tests.unit.outages import away, failing
from tests.unit.projects import empty_lake

pytestmark = pytest.mark.catalog

NAME = ("shop", "orders")
ROWS = pa.table({"id": pa.array([1, 2], pa.int64())})
BUSY = "When reading key 'x' in bucket 'w': AWS Error SLOW_DOWN during GetObject operation"
DENIED = "When reading key 'x' in bucket 'w': AWS Error ACCESS_DENIED during GetObject operation"


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


def test_damaged_page_of_rows(project: Project) -> None:
    """Pyarrow raises for it what it raises for a store that is busy, which is worth another try."""
    (file,) = _fill(project)
    damage_page(file)
    with pytest.raises(TerminalError, match=r"^shop\.orders cannot be read: OSError: .+"):
        run_sql(project, "SELECT id FROM shop.orders")


@pytest.mark.parametrize("pattern", ["*-m0.avro", "snap-*.avro"])
@pytest.mark.parametrize("kept", [0.0, 0.5])
def test_cut_manifest_or_list_of_manifests(project: Project, pattern: str, kept: float) -> None:
    (rows,) = _fill(project)
    (file,) = (rows.parents[1] / "metadata").glob(pattern)
    content = file.read_bytes()
    file.write_bytes(content[: int(len(content) * kept)])
    with pytest.raises(TerminalError, match=r"^shop\.orders cannot be read: \w+: .+"):
        run_sql(project, "SELECT id FROM shop.orders")


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (OSError(BUSY), TransientError),
        (OSError(DENIED), TerminalError),
        (OSError(errno.EIO, "Input/output error"), TransientError),
        (PermissionError(errno.EACCES, "Permission denied"), TerminalError),
        (requests.ConnectionError("refused"), TransientError),
        (away(), TransientError),
        (ForbiddenError("no right"), TerminalError),
    ],
)
def test_a_store_or_catalog_that_fails_is_reported_as_ever_and_with_the_table(
    project: Project, monkeypatch: pytest.MonkeyPatch, error: Exception, kind: type[SluiceError]
) -> None:
    _fill(project)
    monkeypatch.setattr(DataScan, "to_arrow", failing(1, error))
    with pytest.raises(kind) as raised:
        run_sql(project, "SELECT id FROM shop.orders")
    assert str(raised.value) == f"shop.orders: {as_sluice_error(error)}"


@pytest.mark.parametrize("error", [MemoryError(), ArrowMemoryError("malloc of size 9 failed")])
def test_a_table_that_does_not_fit_into_memory_is_not_damaged(
    project: Project, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    _fill(project)
    monkeypatch.setattr(DataScan, "to_arrow", failing(1, error))
    with pytest.raises(TerminalError, match=r"^the query needs more memory .* \((M|malloc)"):
        run_sql(project, "SELECT id FROM shop.orders")


def test_an_answer_that_does_not_fit_into_memory_is_no_mistake_of_the_query(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What DuckDB proposes to set is not to be set."""
    said = "Out of Memory Error: no block\n\nPossible solutions: SET threads"
    monkeypatch.setattr(query, "_integers", failing(1, duckdb.OutOfMemoryException(said)))
    with pytest.raises(TerminalError, match=r"^the query needs more memory .*: no block\)$"):
        run_sql(project, "SELECT 1")


def test_an_error_of_sluice_says_enough(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    _fill(project)
    own = CatalogAwayError("no answer")
    monkeypatch.setattr(DataScan, "to_arrow", failing(1, own))
    with pytest.raises(CatalogAwayError) as raised:
        run_sql(project, "SELECT id FROM shop.orders")
    assert raised.value is own


@pytest.mark.parametrize("asked", ["load_table", "list_tables", "list_namespaces"])
def test_catalog_that_is_away_for_a_moment(
    project: Project, monkeypatch: pytest.MonkeyPatch, asked: str
) -> None:
    _fill(project)
    real = getattr(SqlCatalog, asked)
    monkeypatch.setattr(SqlCatalog, asked, failing(1, away(), real))
    assert run_sql(project, "SELECT max(id) FROM SHOP.orders").to_pylist() == [{"max(id)": 2}]
