"""A warehouse is of one lake: another catalog over it is refused before it writes or removes."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from threading import Barrier

import pytest

from sluice.catalog.client import open_catalog
from sluice.config.project import load_project
from sluice.config.project_file import CatalogConfig
from sluice.environment import ENV_CATALOG_URI
from sluice.errors import OtherLakeError, SluiceError, TransientError
from sluice.ledger.ledger import Ledger
from sluice.ledger.states import PUBLISHED
from sluice.manifest import Manifest
from sluice.names import LEDGER_NAMESPACE
from sluice.objects.store import LocalStore
from sluice.operations import lake_mark
from sluice.operations.context import open_context
from sluice.operations.lake_mark import own_ledger
from spark_jobs import maintain as maintain_driver
from tests.unit.fake_driver import driver_of
from tests.unit.outages import failing
from tests.unit.projects import LAKE, SHOP, open_shop, write_project

pytestmark = pytest.mark.catalog


@pytest.fixture
def mark(tmp_path: Path) -> Path:
    return tmp_path / "data" / "warehouse" / "sluice" / "lake.json"


def other(root: Path) -> str:
    return f"sqlite:///{root}/data/other.db"


def share_unmarked(root: Path, monkeypatch: pytest.MonkeyPatch, mark: Path) -> None:
    """Give two catalogs a ledger in one warehouse, which has the other's mark then."""
    open_shop(root)
    mark.unlink()
    monkeypatch.setenv(ENV_CATALOG_URI, other(root))
    open_context(root, "shop")
    monkeypatch.delenv(ENV_CATALOG_URI)


def test_another_catalog_over_the_warehouse_is_refused_and_gets_no_ledger(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mark: Path
) -> None:
    own = open_shop(tmp_path)
    marked = mark.read_text()
    monkeypatch.setenv(ENV_CATALOG_URI, other(tmp_path))
    for read_only in (True, False):
        with pytest.raises(OtherLakeError) as refused:
            open_context(tmp_path, "shop", read_only=read_only)
    said = str(refused.value)
    for part in (
        f"{tmp_path}/data/warehouse", f"sqlite:///{tmp_path}/data/catalog.db", other(tmp_path),
        "has no ledger", "SLUICE_CATALOG_URI", "mistyped", f"move the folder {mark.parent} away",
    ):  # fmt: skip
        assert part in said
    foreign = load_project(tmp_path)
    with pytest.raises(OtherLakeError):
        driver_of(replace(own, project=foreign), Manifest("shop", "b1", ())).run()
    for dry_run in (True, False):
        with pytest.raises(OtherLakeError):
            maintain_driver.run(tmp_path, "shop", 1, dry_run)
    assert not open_catalog(foreign).namespace_exists(LEDGER_NAMESPACE)
    assert mark.read_text() == marked
    monkeypatch.delenv(ENV_CATALOG_URI)
    open_context(tmp_path, "shop")


def test_of_lakes_that_shared_a_warehouse_unmarked_the_first_to_write_keeps_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mark: Path
) -> None:
    share_unmarked(tmp_path, monkeypatch, mark)
    mark.unlink()  # as in a lake of an earlier release
    open_context(tmp_path, "shop", read_only=True)
    assert not mark.exists()
    open_context(tmp_path, "shop")
    assert mark.exists()
    monkeypatch.setenv(ENV_CATALOG_URI, other(tmp_path))
    with pytest.raises(OtherLakeError, match="has another ledger") as refused:
        open_context(tmp_path, "shop")
    assert "a new, empty catalog and a lake.warehouse of its own" in str(refused.value)
    assert f"the other never loaded anything, delete {mark}" in str(refused.value)
    mark.unlink()  # how to take the warehouse over
    open_context(tmp_path, "shop")
    monkeypatch.delenv(ENV_CATALOG_URI)
    with pytest.raises(OtherLakeError, match=r"other\.db"):
        open_context(tmp_path, "shop")


def test_a_ledger_in_the_warehouse_of_another_lake_is_refused_with_another_warehouse_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mark: Path
) -> None:
    """Its tables stay at their full addresses."""
    share_unmarked(tmp_path, monkeypatch, mark)
    write_project(tmp_path, LAKE.replace("data/warehouse", "data/own"), shop=SHOP)
    with pytest.raises(OtherLakeError, match=f"{mark.parents[1]} has .* another ledger"):
        open_context(tmp_path, "shop")
    assert not (tmp_path / "data" / "own" / "sluice").exists()
    monkeypatch.setenv(ENV_CATALOG_URI, f"sqlite:///{tmp_path}/data/new.db")
    open_context(tmp_path, "shop")
    assert (tmp_path / "data" / "own" / "sluice" / "lake.json").exists()


def test_an_unmarked_warehouse_that_was_loaded_is_not_of_a_new_catalog(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mark: Path
) -> None:
    """As that of an earlier release, whose catalog is mistyped in the first run after it."""
    open_shop(tmp_path).ledger.batches.record("b1", PUBLISHED)
    mark.unlink()
    monkeypatch.setenv(ENV_CATALOG_URI, other(tmp_path))
    for read_only in (True, False):
        with pytest.raises(OtherLakeError, match="has no ledger"):
            open_context(tmp_path, "shop", read_only=read_only)
    assert not mark.exists()
    assert not open_catalog(load_project(tmp_path)).namespace_exists(LEDGER_NAMESPACE)
    mark.parent.rename(tmp_path / "former")  # how to take the warehouse over
    open_context(tmp_path, "shop")
    assert mark.exists()


def test_of_two_lakes_that_begin_at_once_one_gets_the_warehouse(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_project(tmp_path, LAKE, shop=SHOP)
    project, both = load_project(tmp_path), Barrier(2)
    put = LocalStore.put_if_absent

    def at_once(store: LocalStore, key: str, content: bytes) -> bool:
        both.wait(timeout=30)
        return put(store, key, content)

    def begin(uri: str) -> SluiceError | None:
        catalog = CatalogConfig(type="jdbc", uri=uri)
        lake = project.lake.model_copy(update={"catalog": catalog})
        mine = project.model_copy(update={"lake": lake})
        try:
            own_ledger(mine, open_catalog(mine))
        except OtherLakeError as error:
            return error
        return None

    monkeypatch.setattr(LocalStore, "put_if_absent", at_once)
    with ThreadPoolExecutor(2) as pool:
        lost = list(pool.map(begin, [project.lake.catalog.uri, other(tmp_path)]))
    assert sum(error is None for error in lost) == 1


@pytest.mark.parametrize("request_", ["get", "put_if_absent"])
def test_a_store_that_is_away_for_a_moment_is_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mark: Path, request_: str
) -> None:
    whole = getattr(LocalStore, request_)
    monkeypatch.setattr(LocalStore, request_, failing(3, TransientError("no answer"), whole))
    open_shop(tmp_path)
    assert mark.exists()


def test_a_recovered_catalog_has_the_same_lake(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mark: Path
) -> None:
    """A table that is registered again keeps its UUID."""
    tables = open_shop(tmp_path).catalog
    monkeypatch.setenv(ENV_CATALOG_URI, other(tmp_path))
    recovered = open_catalog(load_project(tmp_path))
    recovered.create_namespace(LEDGER_NAMESPACE)
    for name in tables.list_tables(LEDGER_NAMESPACE):
        recovered.register_table(name, tables.load_table(name).metadata_location)
    marked = mark.read_text()
    open_context(tmp_path, "shop")
    assert mark.read_text() == marked


def test_a_mark_that_is_none_is_refused_before_a_new_catalog_begins(
    tmp_path: Path, mark: Path
) -> None:
    write_project(tmp_path, LAKE, shop=SHOP)
    mark.parent.mkdir(parents=True)
    mark.write_text("{}")
    for read_only in (True, False):
        with pytest.raises(OtherLakeError, match=f"{mark} is no mark.*delete it if"):
            open_context(tmp_path, "shop", read_only=read_only)
    assert not open_catalog(load_project(tmp_path)).namespace_exists(LEDGER_NAMESPACE)
    mark.unlink()
    open_context(tmp_path, "shop")
    mark.write_bytes(b"\xff")
    with pytest.raises(OtherLakeError, match="is no mark"):
        open_context(tmp_path, "shop")


def test_neither_mark_nor_message_has_a_secret(tmp_path: Path, mark: Path) -> None:
    write_project(tmp_path, LAKE, shop=SHOP)
    project = load_project(tmp_path)
    catalog = open_catalog(project)
    secret = CatalogConfig(type="jdbc", uri="postgresql://u:s3cr3t@db/lake?password=s3cr3t")
    project = project.model_copy(
        update={"lake": project.lake.model_copy(update={"catalog": secret})}
    )
    messages: list[str] = []
    own_ledger(project, catalog, messages.append)
    assert '"postgresql://db/lake"' in mark.read_text()
    assert "s3cr3t" not in mark.read_text() + messages[0]
    mark.write_text(mark.read_text().replace('"ledger": "', '"ledger": "x'))
    with pytest.raises(OtherLakeError, match="postgresql://db/lake") as refused:
        own_ledger(project, catalog)
    assert "s3cr3t" not in str(refused.value)


def test_what_only_reads_makes_no_ledger(tmp_path: Path, mark: Path) -> None:
    messages: list[str] = []
    write_project(tmp_path, LAKE, shop=SHOP)
    ctx = open_context(tmp_path, "shop", messages.append, read_only=True)
    assert ctx.ledger.unfinished() == []
    assert Ledger(ctx.catalog).pipelines() == set()
    assert ctx.ledger.publications.version() is None
    assert not ctx.catalog.namespace_exists(LEDGER_NAMESPACE)
    assert not mark.exists()
    (said,) = messages
    assert said == lake_mark.no_ledger(ctx.project)
    open_context(tmp_path, "shop", messages.append)
    assert messages[1].startswith("this lake is new")
    open_context(tmp_path, "shop", messages.append)
    assert len(messages) == 2
