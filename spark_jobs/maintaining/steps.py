"""The steps of maintenance.

Each checks whether the table needs it, and returns what it did or, in a dry run, would do; "" for
nothing.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Final

from pyiceberg.table import Table

from sluice import names
from sluice.catalog.gap_property import gap_after_rewrite
from sluice.catalog.snapshots import drop_branches, drop_tags
from sluice.counting import counted
from sluice.ledger.appends import LedgerTables
from sluice.ledger.states import FINISHED
from sluice.operations.expiry import expirable, stale_tags
from sluice.operations.sweep import sweep
from spark_jobs.lake.column_rewrite import drop_wider, has_wider
from spark_jobs.lake.table_id import TableId
from spark_jobs.maintaining import procedures
from spark_jobs.maintaining.context import MaintenanceContext
from spark_jobs.planning.stored_types import refuse_unreadable_types, unreadable_types

_POSITION_DELETES: Final = 2  # the format version that has them as files
_KEEPS_FILES: Final = "gc.enabled is false"


def _loaded(ctx: MaintenanceContext, table: TableId) -> Table | None:
    """Return the table if it has rows; after a rollback of its first batch it has no `main`."""
    loaded = ctx.lake.load(table)
    return loaded if loaded is not None and loaded.current_snapshot() is not None else None


def refuse_types(ctx: MaintenanceContext, table: TableId) -> str:
    """Raise PlanError if another writer gave the table columns that Spark cannot read."""
    if (loaded := ctx.lake.load(table)) is not None:
        refuse_unreadable_types(loaded)
    return ""


def drop_stale_tags(ctx: MaintenanceContext, table: TableId) -> str:
    """Drop the tags of batches beyond `keep_tags`: a tag keeps its snapshot from expiring."""
    loaded = ctx.lake.load(table)
    tags = stale_tags(loaded, ctx.retentions.current()) if loaded is not None else []
    if tags and loaded is not None and not ctx.dry_run:
        drop_tags(ctx.lake.catalog, loaded, tags)
    return counted(len(tags), "tag") if tags else ""


def drop_dead_branches(ctx: MaintenanceContext, table: TableId) -> str:
    """Drop the branches of finished batches: a branch keeps its snapshots from expiring.

    A suspended driver may have written one after the others were dropped.
    """
    loaded = ctx.lake.load(table)
    refs = (
        [] if loaded is None else [r for r in loaded.metadata.refs if r.startswith(names.BRANCHES)]
    )
    batches = ctx.ledger.batches.all() if refs else []
    ended = tuple(names.branch_name(b.batch_id, "") for b in batches if b.state in FINISHED)
    dead = [ref for ref in refs if ref.startswith(ended)]
    if not ctx.dry_run:
        for ref in dead:
            drop_branches(ctx.lake.catalog, table.namespace, table.name, ref)
    return counted(len(dead), "branch") if dead else ""


def drop_wider_columns(ctx: MaintenanceContext, table: TableId) -> str:
    """Drop the column and the branch that a killed driver left while it changed a column's type.

    Not beside a batch that is being loaded: decoding, which changes types, needs no lease.
    """
    loaded = ctx.lake.load(table)
    if loaded is None or not has_wider(loaded):
        return ""
    if not all(ctx.ledger.lease.has_lapsed(batch) for batch in ctx.ledger.unfinished()):
        return ""
    if not ctx.dry_run:
        drop_wider(ctx.lake.catalog, table)
    return "an unfinished change of a column's type"


def rewrite_data(ctx: MaintenanceContext, table: TableId) -> str:
    """Rewrite data files where many are small or deletes hide many rows."""
    if _loaded(ctx, table) is None:
        return ""
    due = procedures.rewrite_need(ctx.spark, table, ctx.pipeline.maintenance)
    if not due.crowded and not due.hidden:
        return ""
    if ctx.dry_run:
        return f"{counted(due.crowded, 'partition')} of small files, {due.hidden} with many deletes"
    return procedures.rewrite_data(ctx.spark, table, ctx.pipeline.maintenance)


def rewrite_deletes(ctx: MaintenanceContext, table: TableId) -> str:
    """Rewrite position-delete files where fewer would do; format version 3 has none."""
    loaded = _loaded(ctx, table)
    if loaded is None or loaded.metadata.format_version > _POSITION_DELETES:
        return ""
    spare = procedures.spare_deletes(ctx.spark, table)
    if spare < ctx.pipeline.maintenance.small_files:
        return ""
    if ctx.dry_run:
        return f"{counted(spare, 'delete file')} more than needed"
    return procedures.rewrite_deletes(ctx.spark, table, ctx.pipeline.maintenance)


def rewrite_manifests(ctx: MaintenanceContext, table: TableId) -> str:
    """Rewrite manifests where many are small."""
    if _loaded(ctx, table) is None:
        return ""
    small = procedures.small_manifests(ctx.spark, table)
    if small < procedures.MANIFESTS:
        return ""
    if ctx.dry_run:
        return f"{small} small manifests"
    return procedures.rewrite_manifests(ctx.spark, table)


def expire_snapshots(ctx: MaintenanceContext, table: TableId) -> str:
    """Expire old snapshots that no branch, tag or rollback needs."""
    loaded = ctx.lake.load(table)
    if loaded is None:
        return ""
    promised = ctx.retentions.current()
    before = ctx.days_ago(ctx.pipeline.maintenance.snapshot_days)
    stale = stale_tags(loaded, promised) if ctx.dry_run else []
    snapshots = expirable(loaded, promised.snapshots, before, dropped=stale)
    if not snapshots:
        return ""
    if not _may_delete_files(loaded):
        return f"{counted(len(snapshots), 'snapshot')} kept, for {_KEEPS_FILES}"
    if ctx.dry_run:
        return counted(len(snapshots), "snapshot")
    if followed := gap_after_rewrite(loaded):
        ctx.lake.set_property(table, names.PROP_GAP, followed)
    return procedures.expire_snapshots(ctx.spark, table, snapshots)


def remove_orphans(ctx: MaintenanceContext, table: TableId) -> str:
    """Delete files that no snapshot refers to and that are too old to belong to a running write.

    Their age counts from the present time, not from `now`, since the store dates them by it. All
    are kept where another table may have files in the folder, which no snapshot of this one has.
    """
    loaded = ctx.lake.load(table)
    if loaded is None:
        return ""
    if not _may_delete_files(loaded):
        return f"kept, for {_KEEPS_FILES}"
    if others := ctx.folders.shared_with(loaded):
        return f"kept, for {', '.join(others)} may have files in the folder of {table.full_name}"
    before = datetime.now(UTC) - timedelta(days=ctx.pipeline.maintenance.orphan_days)
    removed = procedures.remove_orphans(ctx.spark, table, before, ctx.dry_run)
    return counted(removed, "file") if removed else ""


def _may_delete_files(table: Table) -> bool:
    """Whether Iceberg deletes files of the table: not with `gc.enabled=false`, which its procedure
    `snapshot` sets on a table whose files another one has."""
    return table.properties.get("gc.enabled", "true").lower() == "true"


def remove_leftovers(ctx: MaintenanceContext, table: TableId) -> str:
    """Remove files that dead attempts left beside the tables, as far as the ledger shows."""
    before = ctx.days_ago(ctx.pipeline.maintenance.orphan_days)
    removed = sweep(ctx.files, ctx.ledger, before, dry_run=ctx.dry_run)
    return counted(removed, "file") if removed else ""


def compact(ctx: MaintenanceContext, table: TableId) -> str:
    """Compact one table of the ledger, which all pipelines share."""
    done = LedgerTables(ctx.lake.catalog).compact(table.name, dry_run=ctx.dry_run)
    return f"{done.before} → {done.after} rows" if done.after < done.before else ""


def mark(ctx: MaintenanceContext, table: TableId) -> str:
    """Record when this pipeline finished the table; the oldest mark comes first in a run.

    A table with columns that Spark cannot read gets no mark; so it stays first in line, but delays
    no other.
    """
    loaded = ctx.lake.load(table)
    if not ctx.dry_run and loaded is not None and not unreadable_types(loaded):
        moment = datetime.now(UTC).isoformat(timespec="seconds")
        ctx.lake.set_property(table, _marked_by(ctx, table.namespace), moment)
    return ""


def last_marked(ctx: MaintenanceContext, table: Table | None) -> str:
    """Return when this pipeline finished the table last; "" for never."""
    if table is None:
        return ""
    namespace = table.name()[-2]
    return table.properties.get(_marked_by(ctx, namespace), "")


def _marked_by(ctx: MaintenanceContext, namespace: str) -> str:
    """Return the name of the property with the mark; in tables that pipelines share
    each has its own."""
    suffix = f".{ctx.pipeline.name}" if namespace == names.LEDGER_NAMESPACE else ""
    return f"{names.PROP_MAINTAINED}{suffix}"
