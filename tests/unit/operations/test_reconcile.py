"""What reconcile drops of the attempts that died, and how often it looks at the tables for it."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from sluice.catalog.retries import CatalogAwayError
from sluice.cli import app
from sluice.errors import TerminalError
from sluice.ledger.leases import ANY_PUBLISHER, Lease
from sluice.ledger.states import LANDED, LOADED, LOADING
from sluice.manifest import Manifest
from sluice.names import BRANCHES, branch_name
from sluice.operations import stages
from sluice.operations.context import Context
from sluice.operations.obsolete import why_obsolete
from sluice.operations.reconcile import reconcile
from tests.unit.projects import open_shop
from tests.unit.undo_lake import TABLES, stage, three_batches

pytestmark = pytest.mark.catalog


@pytest.fixture
def shop(tmp_path: Path) -> Context:
    return three_batches(tmp_path)


@pytest.fixture
def loads(shop: Context, monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """The tables that are loaded, but for the ledger's."""
    loaded: list[object] = []
    load = shop.catalog.load_table

    def counted(name: tuple[str, str]) -> object:
        if name[0] == "shop":
            loaded.append(name)
        return load(name)

    monkeypatch.setattr(shop.catalog, "load_table", counted)
    return loaded


def landed(shop: Context, batch: str, attempt: str = "") -> str:
    key = shop.files.write_manifest(Manifest("shop", batch, ()))
    shop.ledger.batches.record(batch, LANDED, attempt=attempt, manifest=key)
    return key


def branches(shop: Context) -> list[str]:
    tables = [shop.catalog.load_table(("shop", name)) for name in TABLES]
    return [ref for table in tables for ref in table.metadata.refs if ref.startswith(BRANCHES)]


def test_batches_that_no_driver_had_have_nothing_to_drop(
    shop: Context, loads: list[object]
) -> None:
    keys = [landed(shop, f"b{number}") for number in range(4, 9)]
    loads.clear()
    assert reconcile(shop, lambda _: True) == keys
    # Each table once, for targets to which nothing was ever published.
    assert len(loads) <= len(TABLES)


def test_the_branches_of_all_batches_are_looked_for_in_one_pass(
    shop: Context, loads: list[object]
) -> None:
    keys = [landed(shop, f"b{number}", "a1") for number in range(4, 10)]
    for name in TABLES:
        stage(shop, "b9", name, 9)
    assert len(branches(shop)) == 2
    loads.clear()
    assert reconcile(shop) == keys
    # As above, once for branches, and twice to drop one.
    assert len(loads) <= len(TABLES) * (1 + 1 + 2)
    assert branches(shop) == []


def test_branches_are_dropped_of_batches_before_one_that_fails(shop: Context) -> None:
    stage(shop, "b4", "orders", 4)
    landed(shop, "b4", "a1")
    shop.ledger.batches.record("b5", LANDED, attempt="a1", manifest="shop/b5/manifest.json")
    with pytest.raises(TerminalError, match=r"no manifest .*: was `lake\.warehouse` changed"):
        reconcile(shop, lambda _: True)
    assert branches(shop) == []


@pytest.mark.parametrize("holder", ["elsewhere:1:1", ANY_PUBLISHER])
def test_nothing_is_dropped_of_a_batch_that_another_run_took_up_meanwhile(
    shop: Context, monkeypatch: pytest.MonkeyPatch, holder: str
) -> None:
    """Reconcile is at the second batch when the first one is loaded by another run."""
    stage(shop, "b5", "users", 5, "dead")
    keys = [landed(shop, batch, "dead") for batch in ("b4", "b5")]
    scratch: list[str] = []

    def meanwhile(ctx: Context, manifest: Manifest) -> str | None:
        if manifest.batch_id == "b5":
            shop.ledger.lease.acquire("b4", "live", Lease(holder, 600))
            stage(shop, "b4", "orders", 4, "live")
            shop.ledger.batches.record("b4", LOADED, attempt="live")
        return why_obsolete(ctx, manifest)

    def forget(_: object, pipeline: str, batch: str) -> None:
        scratch.append(f"{pipeline} {batch}")

    monkeypatch.setattr("sluice.operations.reconcile.why_obsolete", meanwhile)
    monkeypatch.setattr(type(shop.files), "delete_scratch", forget)
    assert reconcile(shop) == keys
    assert (branches(shop), scratch) == ([branch_name("b4", "live")], ["shop b5"])


def test_a_batch_that_another_run_took_up_meanwhile_is_not_taken(
    shop: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    landed(shop, "b4", "dead")

    def meanwhile(ctx: Context, manifest: Manifest) -> str | None:
        shop.ledger.lease.acquire("b4", "live", Lease("elsewhere:1:1", 600))
        return why_obsolete(ctx, manifest)

    monkeypatch.setattr("sluice.operations.reconcile.why_obsolete", meanwhile)
    assert reconcile(shop, lambda _: True) == []
    row = shop.ledger.batches.get("b4")
    assert row is not None
    assert (row.state, row.attempt) == (LOADING, "live")


@pytest.mark.parametrize("fails", [True, False])
def test_an_error_of_dropping_does_not_hide_why_a_batch_failed(
    shop: Context, monkeypatch: pytest.MonkeyPatch, fails: bool
) -> None:
    landed(shop, "b4", "a1")
    if fails:
        shop.ledger.batches.record("b5", LANDED, attempt="a1", manifest="shop/b5/manifest.json")

    def away(*_: object) -> None:
        raise CatalogAwayError("no answer in 90 s")

    monkeypatch.setattr("sluice.operations.reconcile.drop_all_branches", away)
    with pytest.raises(TerminalError if fails else CatalogAwayError):
        reconcile(shop, lambda _: True)


def test_reconcile_names_the_batches_to_load(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By their ids, as every command takes them."""
    monkeypatch.setattr(stages, "reconcile", lambda _: ["shop/b1/manifest.json"])
    open_shop(tmp_path)
    done = CliRunner().invoke(app, ["reconcile", "shop", "--project", str(tmp_path)])
    assert done.stdout == "to be loaded again: b1\n"
