"""Drop the tables of batches that were never published, so that the next batch
creates them again."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import Final

from pyiceberg.exceptions import NoSuchTableError
from pyiceberg.table import Table

from sluice.catalog.client import find_table
from sluice.catalog.listing import tables_of
from sluice.errors import LeaseHeldError
from sluice.faults import Point, reach
from sluice.ledger import states
from sluice.ledger.changelogs import batches_in
from sluice.ledger.leases import this_holder
from sluice.ledger.rows import BatchRow
from sluice.names import (
    PROP_PIPELINE,
    is_changelog,
    owner_target,
    tables_of_target,
    target_of_changelog,
)
from sluice.operations.context import Context
from sluice.operations.holding import is_taken_up, pipeline_lease
from sluice.operations.pipeline_tables import skip_unreadable_table

_DEAD: Final = frozenset({states.FAILED, states.ROLLED_BACK})


def drop_empty_tables(ctx: Context) -> list[str]:
    """Drop the targets in which nothing was ever published, or everything was rolled back, with
    their changelogs, tombstones, histories and events; return the targets' names.

    Their types and key are those of a batch that failed, perhaps because of a wrong hint that has
    been corrected. Nothing is dropped while a batch is being decoded, which needs no lease and may
    create tables, nor while another process has the pipeline's lease. A catalog drops a table
    without checking its state, so the state is checked before each drop. Files are kept, so that a
    table dropped by mistake can be registered again (some catalogs refuse `purge`).
    """
    empty = [t for t in _targets(ctx) if _is_empty(ctx, t)] if _nobody_stages(ctx) else []
    if not empty:
        return []
    with suppress(LeaseHeldError), pipeline_lease(ctx):
        return [ctx.pipeline.full_name(target) for target in empty if _drop(ctx, target)]
    return []


def _nobody_stages(ctx: Context) -> bool:
    return all(map(_is_dead, ctx.ledger.unfinished()))


def _is_dead(row: BatchRow) -> bool:
    """Whether no process writes for the batch; also true of one that this process has taken up and
    not yet given to a driver."""
    own = row.holder == this_holder() and is_taken_up(row)
    return own or row.state in _DEAD


def _targets(ctx: Context) -> Iterator[str]:
    """Yield the pipeline's targets without snapshots, and those of which only the
    changelog is left."""
    own = ctx.pipeline.namespace
    tables = tables_of(ctx.catalog, own)
    for space, name in tables:
        target = target_of_changelog(name) if is_changelog(space, name) else ""
        if space != own and (not target or (own, target) in tables):
            continue
        table = _readable(ctx, space, name)
        if table is None or table.properties.get(PROP_PIPELINE) != ctx.pipeline.name:
            continue
        if target or (owner_target(table.properties) is None and not table.metadata.refs):
            yield target or name


def _readable(ctx: Context, space: str, name: str) -> Table | None:
    """Return a table; None if it is gone, or somebody else's that cannot be read."""
    with skip_unreadable_table(ctx, space, name):
        return find_table(ctx.catalog, space, name)
    return None


def _is_empty(ctx: Context, target: str) -> bool:
    """Whether no table of the target has a snapshot, and its changelog only has changes of batches
    that are not published."""
    *published, changelog = tables_of_target(ctx.pipeline.namespace, target)
    if any(table.metadata.refs for table in _existing(ctx, published)):
        return False
    dead = {row.batch_id for row in ctx.ledger.batches.all() if _is_dead(row)}
    return all(batches_in(log) <= dead for log in _existing(ctx, [changelog]))


def _existing(ctx: Context, idents: list[tuple[str, str]]) -> Iterator[Table]:
    tables = (find_table(ctx.catalog, *ident) for ident in idents)
    return (table for table in tables if table is not None)


def _drop(ctx: Context, target: str) -> bool:
    """Drop the tables of a target; return whether all of them were dropped.

    The target goes first, so that nothing is published to it, and the changelog last, by which a
    later run finds what is left.
    """
    for ident in tables_of_target(ctx.pipeline.namespace, target):
        if not (_is_empty(ctx, target) and _nobody_stages(ctx)):
            return False
        with suppress(NoSuchTableError):
            ctx.catalog.drop_table(ident)
            reach(Point.RECONCILE_TABLE)
    return True
