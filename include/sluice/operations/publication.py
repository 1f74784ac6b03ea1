"""What a publication looks at before it begins, and what the ledger is told of it."""

from __future__ import annotations

from sluice.catalog.client import known_table
from sluice.catalog.snapshots import head, is_published
from sluice.errors import LeaseHeld, PublishRefused
from sluice.ledger import details
from sluice.ledger import rows as states
from sluice.ledger.rows import Publication
from sluice.operations.context import Context
from sluice.operations.undoable import came_to_main, told_of_tables
from sluice.result import BatchResult, StagedTable

# Snapshot and schema of tables, by namespace and name.
Bases = dict[tuple[str, str], tuple[int | None, int | None]]


def refuse_moved(ctx: Context, result: BatchResult) -> None:
    """Look at every table before the first commit: most races end here, with nothing published.

    What was only compared is looked at as long as nothing is published.
    """
    begun = False
    for table in result.staged:
        now = known_table(ctx.catalog, table.namespace, table.name)
        begun = begun or is_published(now, table)
        if not is_published(now, table) and head(now) != table.base_snapshot:
            raise PublishRefused(
                f"{table.full_name}: main is at {head(now)}, "
                f"the batch was staged on {table.base_snapshot}"
            )
    compared = (other for table in result.tables for other in table.compared)
    for other in () if begun else compared:
        at = head(known_table(ctx.catalog, other.namespace, other.name))
        if at != other.snapshot:
            raise PublishRefused(
                f"{other.full_name}: main is at {at}, "
                f"the batch was compared with {other.snapshot}, and had nothing for it then"
            )


def intents(ctx: Context, result: BatchResult) -> list[Publication]:
    """A record for each staged table, of what is about to happen to it."""
    bases = _first_bases(ctx, result)
    return [_intent(ctx, result, staged, bases) for staged in result.staged]


def told_by(ctx: Context, result: BatchResult) -> list[Publication]:
    """What the ledger was told by this attempt, of tables that nobody has told of since."""
    told = ctx.ledger.publications(ctx.pipeline.name, result.batch_id)
    return [p for p in told if p.attempt == result.attempt]


def _intent(ctx: Context, result: BatchResult, staged: StagedTable, bases: Bases) -> Publication:
    own = (staged.base_snapshot, staged.base_schema)
    base_snapshot, base_schema = bases.get((staged.namespace, staged.name), own)
    return Publication(
        pipeline=ctx.pipeline.name,
        batch_id=result.batch_id,
        attempt=result.attempt,
        namespace=staged.namespace,
        table_name=staged.name,
        base_snapshot=base_snapshot,
        base_schema=base_schema,
        head_snapshot=staged.head_snapshot,
        branch=staged.branch,
        created=staged.created,
    )


def _first_bases(ctx: Context, result: BatchResult) -> Bases:
    """Snapshot and schema from before the batch, of tables that an earlier attempt published: an
    undo goes back to these."""
    counted = (
        next((p for p in told if p.attempt == result.attempt or came_to_main(ctx, p)), None)
        for told in told_of_tables(ctx, result.batch_id)
    )
    return {(p.namespace, p.table_name): (p.base_snapshot, p.base_schema) for p in counted if p}


def detail(result: BatchResult) -> dict[str, object]:
    """What a batch that is published tells of its rows, its time and its epoch."""
    newest = [t.newest_source_ts for t in result.tables if t.newest_source_ts]
    total = result.total
    return {
        details.READ: total.read,
        details.APPLIED: total.applied,
        details.QUARANTINED: total.quarantined,
        details.NEWEST_SOURCE_TS: max(newest, default=""),
        details.SECONDS: result.seconds,
        details.EPOCH: result.epoch,
    }


def begin_to_take_out(ctx: Context, result: BatchResult) -> None:
    """Say that all tables have a batch that undoes others. From now on it can only go on: of these
    there soon is not all any more that would bring them back.

    Raises LeaseHeld where somebody undid it meanwhile.
    """
    begun = ctx.ledger.record_batch(
        ctx.pipeline.name, result.batch_id, states.PUBLISHING,
        add_details=details.taking_out(result.attempt),
        expected=lambda row: row is not None and is_under_way(row, result),
    )  # fmt: skip
    if not begun:
        require_mine(ctx, result)


def is_taking_out(row: states.BatchRow | None, result: BatchResult) -> bool:
    """Whether this attempt has published all tables of a batch that undoes others."""
    return row is not None and row.details.get(details.TAKING_OUT) == result.attempt


def require_done(ctx: Context, result: BatchResult) -> None:
    """Raise LeaseHeld unless somebody else said that this very attempt is published."""
    row = ctx.ledger.batch(ctx.pipeline.name, result.batch_id)
    if row is None or (row.state, row.attempt) != (states.PUBLISHED, result.attempt):
        require_mine(ctx, result)


def is_mine(ctx: Context, result: BatchResult) -> bool:
    """Whether the publication of this attempt is still under way."""
    row = ctx.ledger.batch(ctx.pipeline.name, result.batch_id)
    return row is not None and is_under_way(row, result)


def require_mine(ctx: Context, result: BatchResult) -> None:
    """Raise LeaseHeld where somebody else has finished or undone the publication meanwhile, for
    whom a process that was suspended here is dead."""
    if not is_mine(ctx, result):
        row = ctx.ledger.batch(ctx.pipeline.name, result.batch_id)
        now = "gone" if row is None else row.state
        raise LeaseHeld(
            f"batch {result.batch_id} of {ctx.pipeline.name} is {now} by somebody else; "
            f"attempt {result.attempt} stops here"
        )


def may_begin(row: states.BatchRow, result: BatchResult) -> bool:
    """Whether this attempt is the batch's own, and the batch is not closed to it."""
    return row.attempt == result.attempt and row.state not in states.CLOSED


def is_under_way(row: states.BatchRow, result: BatchResult) -> bool:
    """Whether the batch is being published from what this attempt staged."""
    return row.state == states.PUBLISHING and row.attempt == result.attempt
