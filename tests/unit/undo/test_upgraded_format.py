"""Tables that somebody upgraded to a format version that pyiceberg cannot write."""

from __future__ import annotations

from typing import Any

import pytest

from sluice.catalog.snapshots import drop_branches, refuse_format_version
from sluice.errors import TerminalError
from sluice.ledger.states import LOADED, PUBLISHED
from sluice.manifest import Manifest
from sluice.names import branch_name
from sluice.operations import stages, undo
from sluice.operations.context import Context
from spark_jobs.lake.table_id import TableId
from spark_jobs.lake.table_options import TableOptions
from spark_jobs.lake.tables import Lake
from tests.unit.foreign_tables import upgrade
from tests.unit.undo_lake import everything, fold, stage, state

pytestmark = [pytest.mark.catalog, pytest.mark.usefixtures("with_changelogs")]

ORDERS = ("shop", "orders")
REFUSED = r"shop\.orders has format version 3, .* rest catalog"
NO_SPARK: Any = None


def upgraded(context: Context, *name: str) -> None:
    upgrade(context.catalog.load_table(name))


@pytest.mark.parametrize("dry_run", [True, False])
def test_nothing_is_undone_of_a_batch_of_an_upgraded_table(context: Context, dry_run: bool) -> None:
    upgraded(context, *ORDERS)
    with pytest.raises(TerminalError, match=REFUSED):
        undo.undo_batch(context, "b3", dry_run)
    assert (state(context, "b3"), everything(context)) == (PUBLISHED, [[0, 1, 2, 3]] * 2)


def test_nothing_is_undone_of_a_batch_of_an_upgraded_changelog(context: Context) -> None:
    upgraded(context, "shop__cdc", "users__changes")
    with pytest.raises(TerminalError, match=r"shop__cdc\.users__changes has format version 3"):
        undo.undo_batch(context, "b3")
    assert (state(context, "b3"), everything(context)) == (PUBLISHED, [[0, 1, 2, 3]] * 2)


def test_nothing_is_published_of_a_batch_of_an_upgraded_table(context: Context) -> None:
    key = context.files.write_manifest(Manifest("shop", "b4", ()))
    fold(context, 4)(context, key)
    upgraded(context, *ORDERS)
    with pytest.raises(TerminalError, match=REFUSED):
        stages.publish(context, key)
    assert (state(context, "b4"), everything(context)) == (LOADED, [[0, 1, 2, 3]] * 2)


def test_what_was_staged_in_an_upgraded_table_stays(context: Context) -> None:
    stage(context, "b4", "orders", 4)
    context.ledger.batches.record("b4", LOADED, attempt="a1")
    upgraded(context, *ORDERS)
    with pytest.raises(TerminalError, match=REFUSED):
        undo.undo_batch(context, "b4")
    assert state(context, "b4") == LOADED


def test_a_commit_to_an_upgraded_table_names_it(context: Context) -> None:
    staged = stage(context, "b4", "orders", 4)
    upgraded(context, *ORDERS)
    with pytest.raises(TerminalError, match=REFUSED):
        drop_branches(context.catalog, *ORDERS, branch_name("b4", ""))
    assert staged.branch in context.catalog.load_table(ORDERS).metadata.refs


def test_a_driver_refuses_an_upgraded_table(
    context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    upgraded(context, *ORDERS)
    lake = Lake(NO_SPARK, context.catalog, "shop")
    monkeypatch.setattr(lake, "_columns", lambda *_: {})
    with pytest.raises(TerminalError, match=REFUSED):
        lake._ensure(TableId(*ORDERS), (), TableOptions("", {}, (), rewrites=False))


def test_a_catalog_that_writes_the_metadata_itself_takes_any_version(context: Context) -> None:
    upgraded(context, *ORDERS)
    rest: Any = object()
    refuse_format_version(rest, context.catalog.load_table(ORDERS))
