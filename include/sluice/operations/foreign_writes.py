"""Advice for undoing a batch after which another writer than Sluice wrote to one of its tables."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from sluice.catalog.client import find_table
from sluice.errors import FollowedError, RollbackRefusedError
from sluice.ledger import states
from sluice.ledger.rows import Publication
from sluice.names import published_tables
from sluice.operations.context import Context, known_batch
from sluice.operations.pipeline_tables import changelogs

_WHERE: Final = "docs/operations.md, Verifying"


@contextmanager
def advise_recovery(ctx: Context, p: Publication) -> Iterator[None]:
    """Add advice how to go on to the error that refuses to move a table back."""
    try:
        yield
    except FollowedError:  # nobody but a batch
        raise
    except RollbackRefusedError as refused:
        raise RollbackRefusedError(f"{refused}; {recovery_advice(ctx, p)}") from refused


def recovery_advice(ctx: Context, p: Publication) -> str:
    """Return how to go on with undoing a batch after whose publication another writer wrote to a
    table.

    A table cannot be rebuilt while a batch is half published or half rolled back.
    """
    row = known_batch(ctx, p.batch_id)
    if row.state == states.PUBLISHED:
        return (
            "make the table again from its changelog (sluice rollback "
            f"{ctx.pipeline.name} --rebuild --table {_target(ctx, p)}), or take that back first, "
            f"by set_current_snapshot ({_WHERE})"
        )
    again = f"sluice rollback {ctx.pipeline.name} --batch {p.batch_id}"
    if row.state == states.ROLLING_BACK:
        again = f"sluice reconcile {ctx.pipeline.name}"
    return f"take that back by {_call(ctx, p)} ({_WHERE}), and go on ({again})"


def _call(ctx: Context, p: Publication) -> str:
    """Return the SQL call that sets a table to what the batch published or, if that has expired, to
    what was there before it."""
    table = find_table(ctx.catalog, p.namespace, p.table_name)
    snapshots = set() if table is None else {s.snapshot_id for s in table.metadata.snapshots}
    back = next((s for s in (p.head_snapshot, p.base_snapshot) if s in snapshots), None)
    return "set_current_snapshot" + ("" if back is None else f"('{p.full_name}', {back})")


def _target(ctx: Context, p: Publication) -> str:
    """Return the target of a table, which may be the target itself or its history or events."""
    targets = (target for target in changelogs(ctx) if p.table_name in published_tables(target))
    return next(targets, p.table_name)
