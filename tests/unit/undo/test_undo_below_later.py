"""rollback if the tables cannot go back: what is folded again, what is refused, and why."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
import pytest

from sluice.catalog.snapshots import drop_tags, head
from sluice.catalog.table_publish import publish_table
from sluice.errors import RollbackRefusedError, TerminalError
from sluice.ledger.details import HALF_PUBLISHED, of_rebuild
from sluice.ledger.leases import Lease
from sluice.ledger.rows import Publication
from sluice.ledger.states import FAILED, LOADED, PUBLISHED, ROLLED_BACK, ROLLING_BACK
from sluice.manifest import Manifest, Rebuild
from sluice.names import SUMMARY_BATCH
from sluice.operations import refolding, stages
from sluice.operations.context import Context
from sluice.operations.obsolete import why_obsolete
from sluice.result import BatchResult, Counts, StagedTable, TableResult
from tests.unit import staged_tables
from tests.unit.undo_lake import (
    TABLES,
    changelog,
    counted,
    everything,
    ids,
    publish,
    stage,
    state,
    write,
)

pytestmark = pytest.mark.catalog

ORDERS = ("shop", "orders")


def made_again(context: Context, batch: str, *values: int) -> StagedTable:
    """What a driver stages of `orders` that it made again from its changelog."""
    staged = stage(context, batch, "orders", 0)
    rows = pa.table({"id": pa.array(values, pa.int64())})
    properties = {SUMMARY_BATCH: batch}
    table = context.catalog.load_table(ORDERS)
    table.overwrite(rows, snapshot_properties=properties, branch=staged.branch)
    after = head(context.catalog.load_table(ORDERS), staged.branch)
    assert after is not None
    return replace(staged, head_snapshot=after)


def publish_batch(
    context: Context, batch: str, *staged: StagedTable, rebuild: Rebuild | None = None
) -> None:
    key = context.files.write_manifest(Manifest("shop", batch, (), rebuild=rebuild))
    tables = (TableResult("orders", "orders", Counts(), staged),)
    folded = counted(context) if rebuild else ()
    context.files.write_result(BatchResult("shop", batch, "a1", tables, folded=folded))
    context.ledger.batches.record(batch, LOADED, attempt="a1", manifest=key)
    stages.publish(context, key)


def dry_run_text(context: Context, batch: str) -> str:
    return "\n".join(refolding.undo_or_refold(context, batch, dry_run=True).lines)


def test_foreign_writes_from_before_a_rebuild_do_not_stop_an_undo(
    context: Context,
) -> None:
    changelog(context, "orders", "b4")
    publish_batch(context, "b4", stage(context, "b4", "orders", 4))
    write(context, "orders", 100)
    with pytest.raises(RollbackRefusedError, match=r"--rebuild"):
        dry_run_text(context, "b4")
    again = made_again(context, "r1", 0, 1, 2, 3, 4)
    publish_batch(context, "r1", again, rebuild=Rebuild(("orders",), "now"))
    assert "would fold again without: shop.orders: 1 change of batch b4" in dry_run_text(
        context, "b4"
    )
    write(context, "orders", 101)
    with pytest.raises(RollbackRefusedError, match="somebody else wrote"):
        dry_run_text(context, "b4")


def test_a_batch_of_a_table_that_was_dropped_and_made_again_can_be_undone(context: Context) -> None:
    changelog(context, "orders", "b4")
    publish_batch(context, "b4", stage(context, "b4", "orders", 4))
    context.catalog.drop_table(ORDERS)
    made = context.catalog.create_table(ORDERS, staged_tables.SCHEMA)
    made.append(pa.table({"id": [4]}), snapshot_properties={SUMMARY_BATCH: "r1"})
    publish_batch(context, "r1", rebuild=Rebuild(("orders",), "now"))
    assert "would fold again without: shop.orders: 1 change of batch b4" in dry_run_text(
        context, "b4"
    )


def test_a_batch_whose_base_has_expired_is_folded_out(context: Context) -> None:
    """It was the last to write the table, a long time ago."""
    changelog(context, "orders", "b3")
    changelog(context, "users", "b3")
    table = context.catalog.load_table(("shop", "users"))
    drop_tags(context.catalog, table, ["batch-b1", "batch-b2", "batch-b3"])
    published = context.ledger.publications.of_batches("b3")
    base = next(p.base_snapshot for p in published if p.table_name == "users")
    assert base is not None
    table = context.catalog.load_table(("shop", "users"))
    table.maintenance.expire_snapshots().by_id(base).commit()
    assert f"snapshot {base}, from before batch b3, has expired" in dry_run_text(context, "b3")
    assert "would fold again without: shop.users: 1 change of batch b3" in dry_run_text(
        context, "b3"
    )


def test_an_undo_that_is_half_published_goes_back(context: Context) -> None:
    asked = Manifest("shop", "u1", (), rebuild=Rebuild(TABLES, "now", ("b1",)))
    key = context.files.write_manifest(asked)
    staged = [stage(context, "u1", name, 99) for name in TABLES]
    context.ledger.batches.record(
        "u1", LOADED, attempt="a1", manifest=key, replace_details=of_rebuild(asked)
    )
    publish_table(context.catalog, staged[0], "u1")
    context.ledger.publications.record(
        Publication(
            "shop", "u1", "a1", "shop", s.name, s.base_snapshot, 0, s.head_snapshot, s.branch
        )
        for s in staged
    )  # fmt: skip
    context.ledger.batches.record("u1", FAILED, add_details={HALF_PUBLISHED: True})
    refolding.undo_or_refold(context, "u1")
    assert everything(context) == [[0, 1, 2, 3]] * 2
    assert (state(context, "u1"), state(context, "b1")) == (ROLLED_BACK, PUBLISHED)


def test_an_undo_that_is_carried_out_late_is_looked_at_again(context: Context) -> None:
    """Somebody reprocessed the batch since."""
    asked = Manifest("shop", "u1", (), rebuild=Rebuild(("orders",), "now", ("b1",)))
    assert why_obsolete(context, asked) == ""
    context.ledger.batches.record(
        "r1", PUBLISHED, replace_details={"reprocessed": ["b1"], "reason": ""}
    )
    assert "batch r1 reprocessed batch b1" in why_obsolete(context, asked)


def test_maintenance_is_no_batch(context: Context) -> None:
    context.ledger.lease.acquire_for_maintenance("m1", Lease("x:1:1", 60))
    context.ledger.lease.release("maintenance", "m1")
    with pytest.raises(TerminalError, match="has no batch maintenance"):
        refolding.undo_or_refold(context, "maintenance")


def test_rebuild_is_not_undone_beneath_others(context: Context) -> None:
    publish(context, "r1", 7)
    context.ledger.batches.record("r1", PUBLISHED, replace_details={"rebuilt": list(TABLES)})
    publish(context, "b5", 5)
    with pytest.raises(RollbackRefusedError, match="there is nothing to undo"):
        refolding.undo_or_refold(context, "r1")


def test_a_rollback_that_died_is_to_be_completed_before_keys_are_folded(context: Context) -> None:
    context.ledger.batches.record("u1", PUBLISHED, replace_details={"undone": ["b0"]})
    publish(context, "b4", 4)
    context.ledger.batches.record("b4", ROLLING_BACK, attempt="given-up-1")
    with pytest.raises(RollbackRefusedError, match="sluice reconcile shop"):
        refolding.undo_or_refold_after(context, "b1")
    assert ids(context, "orders") == [0, 1, 2, 3, 4]
