"""Tables that batches made which never came through: dropped, so that the next one starts anew."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import Final

from pyiceberg.exceptions import NoSuchNamespaceError, NoSuchTableError
from pyiceberg.expressions import In
from pyiceberg.table import Table

from sluice.catalog.client import find_table
from sluice.ledger import rows as states
from sluice.ledger.leases import this_holder
from sluice.names import (
    BATCH_ID,
    PROP_PIPELINE,
    beside_target,
    changelog_namespace,
    changelog_table,
    tombstone_table,
    whose,
)
from sluice.operations.context import Context
from sluice.operations.waiting import is_taken_up

_DEAD: Final = frozenset({states.FAILED, states.ROLLED_BACK})


def drop_vacant(ctx: Context) -> list[str]:
    """Drop the targets in which nothing was ever published, or all was rolled back, with their
    changelogs, tombstones and what stands beside them; returns their names.

    Their types and key are those of a batch that failed, perhaps for a hint that is mended by now.
    Nothing is dropped while a batch is on its way, for it may be its table: a driver takes the
    lease only when it has decoded. A drop asks for nothing of the table, so all is looked at again
    right before each.
    """
    dropped = []
    for target in list(_targets(ctx)) if _nobody_stages(ctx) else ():
        if _is_vacant(ctx, target) and _nobody_stages(ctx):
            _drop(ctx, target)
            dropped.append(ctx.pipeline.full_name(target))
    return dropped


def _nobody_stages(ctx: Context) -> bool:
    return all(map(_is_dead, ctx.ledger.unfinished(ctx.pipeline.name)))


def _is_dead(row: states.BatchRow) -> bool:
    """Whether nobody stages the batch: so with one that this process took up, and has given to no
    driver yet."""
    mine = row.holder == this_holder() and is_taken_up(row)
    return mine or row.state in _DEAD


def _targets(ctx: Context) -> Iterator[str]:
    """The pipeline's targets that have no rows."""
    with suppress(NoSuchNamespaceError):
        for ident in ctx.catalog.list_tables(ctx.pipeline.namespace):
            table = ctx.catalog.load_table(ident)
            mine = table.properties.get(PROP_PIPELINE) == ctx.pipeline.name
            if mine and whose(table.properties) is None and not table.metadata.refs:
                yield ident[-1]


def _is_vacant(ctx: Context, target: str) -> bool:
    """True where neither a branch nor a change of a living batch hangs on the target."""
    living = [r.batch_id for r in ctx.ledger.batches(ctx.pipeline.name) if not _is_dead(r)]
    beside, own = changelog_namespace(ctx.pipeline.namespace), ctx.pipeline.namespace
    kept = [(own, target), (beside, tombstone_table(target)), *_modes(ctx, target)]
    if any(table.metadata.refs for table in _existing(ctx, kept)):
        return False
    counted = In(BATCH_ID, living)  # type: ignore[call-arg]
    changelog = _existing(ctx, [(beside, changelog_table(target))])
    return not any(any(table.scan(row_filter=counted).plan_files()) for table in changelog)


def _modes(ctx: Context, target: str) -> list[tuple[str, str]]:
    """The tables of its modes beside the target."""
    return [(ctx.pipeline.namespace, name) for name in beside_target(target)]


def _existing(ctx: Context, idents: list[tuple[str, str]]) -> Iterator[Table]:
    found = (find_table(ctx.catalog, *ident) for ident in idents)
    return (table for table in found if table is not None)


def _drop(ctx: Context, target: str) -> None:
    """The target last: as long as it is there, what is beside it is found again."""
    beside = changelog_namespace(ctx.pipeline.namespace)
    for ident in (
        (beside, changelog_table(target)),
        (beside, tombstone_table(target)),
        *_modes(ctx, target),
        (ctx.pipeline.namespace, target),
    ):
        with suppress(NoSuchTableError):
            ctx.catalog.purge_table(ident)
