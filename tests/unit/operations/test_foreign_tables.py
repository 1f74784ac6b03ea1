"""Tables of somebody else in the namespaces of a pipeline."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.types import TimeType

from sluice.errors import TerminalError
from sluice.names import PROP_HISTORY_OF, PROP_PIPELINE
from sluice.operations.context import Context
from sluice.operations.empty_tables import drop_empty_tables
from sluice.operations.staged_branches import drop_all_branches
from spark_jobs.lake.table_id import TableId
from spark_jobs.lake.tables import Lake
from spark_jobs.maintaining import agenda, procedures, steps
from spark_jobs.maintaining.context import MaintenanceContext
from tests.unit.foreign_tables import ONE, spoil, unreadable
from tests.unit.projects import open_shop
from tests.unit.staged_tables import stage, write

pytestmark = pytest.mark.catalog

OURS = {PROP_PIPELINE: "shop"}
OWN = [
    ("shop", "orders"), ("shop", "orders__history"),
    ("shop__cdc", "orders__changes"), ("shop__cdc", "orders__tombstones"),
]  # fmt: skip
NO_SPARK: Any = None


@pytest.fixture
def context(tmp_path: Path, messages: list[str]) -> Context:
    context = open_shop(tmp_path, say=messages.append)
    messages.clear()
    for namespace in ("shop", "shop__cdc"):
        context.catalog.create_namespace(namespace)
    for name in OWN:
        beside = {PROP_HISTORY_OF: "orders"} if name[1] == "orders__history" else {}
        context.catalog.create_table(name, ONE, properties={**OURS, **beside})
    return context


def maintaining(context: Context) -> MaintenanceContext:
    lake, now = Lake(NO_SPARK, context.catalog, "shop"), datetime.now(UTC)
    return MaintenanceContext(
        NO_SPARK, lake, context.ledger, context.files, context.pipeline, now, dry_run=False
    )


def own(context: Context) -> set[tuple[str, str]]:
    return {(t.namespace, t.name) for t in agenda.own_tables(maintaining(context))}


@pytest.mark.parametrize("how", ["variant", "gone"])
def test_branches_are_dropped_beside_a_table_that_cannot_be_read(
    context: Context, how: str
) -> None:
    unreadable(context.catalog, ("shop", "strange"), how)
    write(context.catalog, 1)
    staged = stage(context.catalog, "b1", 2)
    assert drop_all_branches(context, "b1") == [f"shop.orders: branch {staged.branch} dropped"]


@pytest.mark.parametrize("how", ["variant", "gone"])
def test_empty_tables_are_dropped_beside_a_table_that_cannot_be_read(
    context: Context, messages: list[str], how: str
) -> None:
    unreadable(context.catalog, ("shop", "strange"), how)
    assert drop_empty_tables(context) == ["shop.orders"]
    assert [m for m in messages if "shop.strange" in m] == messages
    assert len(messages) == 1


def test_a_table_of_ours_that_cannot_be_read_is_an_error(context: Context) -> None:
    spoil(context.catalog.load_table(("shop", "orders")), "variant")
    with pytest.raises(TerminalError, match=r"shop\.orders: .* cannot be read"):
        drop_empty_tables(context)
    with pytest.raises(TerminalError, match=r"shop\.orders: "):
        drop_all_branches(context, "b1")


def test_maintenance_leaves_alone_what_is_not_of_a_target(context: Context) -> None:
    """It may be a backup: a renamed table keeps its properties."""
    assert own(context) == set(OWN)
    context.catalog.rename_table("shop.orders", "shop.orders_old")
    unreadable(context.catalog, ("shop", "strange"), "variant")
    assert own(context) == set(OWN) - {("shop", "orders")}
    context.catalog.create_table("shop.orders", ONE, properties={PROP_PIPELINE: "other"})
    assert own(context) == set(OWN) - {("shop", "orders")}


def test_maintenance_names_a_table_of_ours_that_cannot_be_read(context: Context) -> None:
    spoil(context.catalog.load_table(("shop", "orders")), "variant")
    assert own(context) == set(OWN)


def test_maintenance_names_a_column_that_spark_cannot_read(context: Context) -> None:
    """No other try mends it. To mark the table would fail too, and say less."""
    with context.catalog.load_table(("shop", "orders")).update_schema() as update:
        update.add_column("extra", TimeType())
    ctx = maintaining(context)
    progress, orders = agenda._Progress(ctx, lambda: True), TableId("shop", "orders")
    progress.take(orders, dict(agenda._agenda(ctx))[orders])
    (failed,) = progress.failed
    assert "table shop.orders, column 'extra': Sluice did not make it" in failed
    with pytest.raises(TerminalError, match="stores nothing as time: drop the column"):
        progress.refuse_failed()


def test_files_in_a_folder_that_another_table_shares_are_no_orphans(
    context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    removed: list[str] = []

    def remove(_: object, table: TableId, *__: object) -> int:
        removed.append(table.full_name)
        return 1

    monkeypatch.setattr(procedures, "remove_orphans", remove)
    ctx, orders = maintaining(context), TableId("shop", "orders")
    assert steps.remove_orphans(ctx, orders) == "1 file"
    context.catalog.rename_table("shop.orders", "shop.orders_old")
    context.catalog.create_table("shop.orders", ONE, properties=OURS)
    told = steps.remove_orphans(ctx, orders)
    assert "shop.orders_old" in told
    assert "kept" in told
    assert removed == ["shop.orders"]


def test_a_table_that_may_not_delete_files_keeps_snapshots_and_orphans(context: Context) -> None:
    """Iceberg refuses both steps there; its procedure `snapshot` sets the property."""
    write(context.catalog, 1)
    write(context.catalog, 2)
    orders = context.catalog.load_table(("shop", "orders"))
    with orders.transaction() as change:
        change.set_properties({"gc.enabled": "False"})
    ctx = replace(maintaining(context), now=datetime.now(UTC) + timedelta(days=40))
    told = [
        step(ctx, TableId("shop", "orders"))
        for step in (steps.expire_snapshots, steps.remove_orphans)
    ]
    assert told == ["1 snapshot kept, for gc.enabled is false", "kept, for gc.enabled is false"]
