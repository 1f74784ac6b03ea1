"""The branches that a batch's attempts staged, over all tables of a pipeline."""

from __future__ import annotations

from collections.abc import Callable

from pyiceberg.catalog import Catalog

from sluice.catalog.listing import tables_of
from sluice.catalog.snapshots import branches, drop_branches
from sluice.names import branch_name, full_name
from sluice.operations.context import Context
from sluice.operations.pipeline_tables import skip_unreadable_table
from sluice.operations.sweep import defer_to_maintenance


def staged_branches(ctx: Context, *batches: str) -> list[str]:
    """Return which branches `drop_all_branches` would drop."""
    return _of_each_table(ctx, batches, branches)


def drop_all_branches(ctx: Context, *batches: str) -> list[str]:
    """Drop the branches of every attempt of the batches; return what was dropped."""
    dropped = _of_each_table(ctx, batches, drop_branches)
    for batch_id in batches:
        with defer_to_maintenance(f"batch {batch_id}", ctx.say):
            ctx.files.delete_scratch(ctx.pipeline.name, batch_id)
    return dropped


def _of_each_table(
    ctx: Context,
    batches: tuple[str, ...],
    take: Callable[[Catalog, str, str, tuple[str, ...]], list[str]],
) -> list[str]:
    """Return which branches of the batches are dropped; `take` lists or drops those of one table.

    Each table is looked at once, however many batches there are.
    """
    prefixes = tuple(branch_name(batch_id, "") for batch_id in batches)
    taken: list[str] = []
    for namespace, name in tables_of(ctx.catalog, ctx.pipeline.namespace) if prefixes else ():
        with skip_unreadable_table(ctx, namespace, name):
            found = take(ctx.catalog, namespace, name, prefixes)
            taken += (f"{full_name(namespace, name)}: branch {ref} dropped" for ref in found)
    return taken
