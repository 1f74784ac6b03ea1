"""The branches that a batch's attempts staged, over all tables of a pipeline."""

from __future__ import annotations

from collections.abc import Callable

from pyiceberg.catalog import Catalog

from sluice.catalog.snapshots import branches, drop_branches
from sluice.names import branch_name, full_name
from sluice.operations.context import Context
from sluice.operations.published import tables
from sluice.operations.sweep import left_to_maintenance


def staged_branches(ctx: Context, *batches: str) -> list[str]:
    """Return which branches `drop_all_branches` would drop."""
    return [line for batch_id in batches for line in _of_each_table(ctx, batch_id, branches)]


def drop_all_branches(ctx: Context, *batches: str) -> list[str]:
    """Drop the branches of every attempt of the batches; return what was dropped."""
    dropped = []
    for batch_id in batches:
        dropped += _of_each_table(ctx, batch_id, drop_branches)
        with left_to_maintenance(f"batch {batch_id}", ctx.say):
            ctx.files.forget_scratch(ctx.pipeline.name, batch_id)
    return dropped


def _of_each_table(
    ctx: Context, batch_id: str, take: Callable[[Catalog, str, str, str], list[str]]
) -> list[str]:
    """Return which branches of the batch are dropped; `take` lists or drops those of one table."""
    prefix = branch_name(batch_id, "")
    return [
        f"{full_name(namespace, name)}: branch {branch} dropped"
        for namespace, name in tables(ctx)
        for branch in take(ctx.catalog, namespace, name, prefix)
    ]
