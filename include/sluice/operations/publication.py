"""Checks before a publication begins, and its records in the ledger."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from sluice.catalog.client import known_table
from sluice.catalog.snapshots import head
from sluice.catalog.table_publish import is_published
from sluice.counting import counted
from sluice.errors import LeaseHeldError, PublishRefusedError
from sluice.ledger import details, states
from sluice.ledger.refusals import refuse_halfway
from sluice.ledger.rows import BatchRow, Publication
from sluice.manifest import Manifest
from sluice.operations.context import Context
from sluice.operations.valid_publications import came_to_main
from sluice.result import BatchResult, StagedTable

_COMPARED: Final = frozenset({states.LOADING, states.LOADED})


def refuse_moved(ctx: Context, result: BatchResult) -> None:
    """Raise PublishRefusedError if `main` of a staged table has moved; so most races end before the
    first commit.

    Tables with which the batch was only compared are checked too, as long as nothing is published.
    """
    begun = False
    for table in result.staged:
        now = known_table(ctx.catalog, table.namespace, table.name)
        begun = begun or is_published(now, table)
        if not is_published(now, table) and head(now) != table.base_snapshot:
            raise PublishRefusedError(
                f"{table.full_name}: main is at {head(now)}, "
                f"the batch was staged on {table.base_snapshot}"
            )
    if begun:
        return
    for other in (one for table in result.tables for one in table.compared):
        at = head(known_table(ctx.catalog, other.namespace, other.name))
        if at != other.snapshot:
            raise PublishRefusedError(
                f"{other.full_name}: main is at {at}, "
                f"the batch was compared with {other.snapshot}, and had nothing for it then"
            )


def refuse_conflicting_batches(
    manifest: Manifest, result: BatchResult, rows: Mapping[str, BatchRow]
) -> None:
    """Raise HalfwayError if another batch is half published or half rolled back, and
    PublishRefusedError if the published batches are not those that this rebuild folded; `rows`: the
    pipeline's, as they are in the ledger.

    A batch that was late everywhere moves no `main`, so `refuse_moved` does not notice it. A
    publication that has begun goes on.
    """
    row = rows.get(manifest.batch_id)
    if row is not None and row.state == states.PUBLISHING:
        return
    refuse_halfway(rows.values(), {manifest.batch_id, *manifest.undone})
    if manifest.rebuild is None:
        return
    published = {row.batch_id for row in rows.values() if row.state == states.PUBLISHED}
    if others := (published - set(manifest.undone)) ^ set(result.folded):
        raise PublishRefusedError(
            f"batch {min(others)} was published or undone since the changes of "
            f"{counted(len(result.folded), 'published batch')} were folded"
        )
    _refuse_compared(manifest, rows)


def _refuse_compared(manifest: Manifest, rows: Mapping[str, BatchRow]) -> None:
    """Raise PublishRefusedError if another batch is loaded or loading: it may have been compared
    with the batches to be undone, and be published after their changes are gone."""
    for row in rows.values():
        if manifest.undone and row.state in _COMPARED and row.batch_id != manifest.batch_id:
            raise PublishRefusedError(
                f"batch {row.batch_id} is {row.state}, and may have been compared with "
                f"{', '.join(manifest.undone)}"
            )


def intents(ctx: Context, result: BatchResult) -> list[Publication]:
    """Return, for each staged table, the record of its publication that is about to happen."""
    earlier = _earlier_publications(ctx, result)
    return [
        _intent(ctx, result, staged, earlier.get((staged.namespace, staged.name), staged))
        for staged in result.staged
    ]


def recorded_by(ctx: Context, result: BatchResult) -> list[Publication]:
    """Return this attempt's publications of those tables about which no later attempt
    recorded anything."""
    newest = ctx.ledger.publications.of_batches(result.batch_id)
    return [p for p in newest if p.attempt == result.attempt]


def _intent(
    ctx: Context, result: BatchResult, staged: StagedTable, base: StagedTable | Publication
) -> Publication:
    """Return the record of a table's intended publication.

    `base`: an earlier attempt's publication, which has the state from before the batch; without
    one, the staged table's base is used.
    """
    return Publication(
        pipeline=ctx.pipeline.name,
        batch_id=result.batch_id,
        attempt=result.attempt,
        namespace=staged.namespace,
        table_name=staged.name,
        base_snapshot=base.base_snapshot,
        base_schema=base.base_schema,
        head_snapshot=staged.head_snapshot,
        branch=staged.branch,
        created=staged.created,
    )


def _earlier_publications(ctx: Context, result: BatchResult) -> dict[tuple[str, str], Publication]:
    """Return, by namespace and name, the publications of tables that an earlier attempt published;
    a rollback restores their bases."""
    counted = (
        next((p for p in rows if p.attempt == result.attempt or came_to_main(ctx, p)), None)
        for rows in ctx.ledger.publications.since_undo(result.batch_id)
    )
    return {(p.namespace, p.table_name): p for p in counted if p}


def begin_undoing(ctx: Context, result: BatchResult) -> None:
    """Record that all tables of a batch that undoes others are published, and that the undone
    batches' changes are deleted next. From here on the batch can only be completed.

    Raises LeaseHeldError if another process undid it.
    """
    begun = ctx.ledger.batches.record(
        result.batch_id, states.PUBLISHING,
        add_details=details.of_deleting_undone(result.attempt),
        expected=lambda row: row is not None and is_under_way(row, result),
    )  # fmt: skip
    if not begun:
        require_current(ctx, result)


def is_undoing(row: BatchRow | None, result: BatchResult) -> bool:
    """Whether this attempt undoes others and has begun to delete their changes (see
    `begin_undoing`)."""
    return row is not None and row.details.get(details.UNDOING) == result.attempt


def require_done(ctx: Context, result: BatchResult) -> None:
    """Raise LeaseHeldError unless this attempt is published, or its publication is under way."""
    row = ctx.ledger.batches.get(result.batch_id)
    if row is None or (row.state, row.attempt) != (states.PUBLISHED, result.attempt):
        require_current(ctx, result)


def is_current(ctx: Context, result: BatchResult) -> bool:
    """Whether the ledger still has this attempt's publication as under way."""
    row = ctx.ledger.batches.get(result.batch_id)
    return row is not None and is_under_way(row, result)


def require_current(ctx: Context, result: BatchResult) -> None:
    """Raise LeaseHeldError if another process has completed or undone this attempt's publication.

    It may do so once the lease has lapsed, as that of a suspended process.
    """
    if not is_current(ctx, result):
        row = ctx.ledger.batches.get(result.batch_id)
        now = "gone" if row is None else row.state
        raise LeaseHeldError(
            f"batch {result.batch_id} of {ctx.pipeline.name} is {now} by somebody else; "
            f"attempt {result.attempt} stops here"
        )


def may_begin(row: BatchRow, result: BatchResult) -> bool:
    """Whether this attempt is the batch's current one, and the batch is not closed."""
    return row.attempt == result.attempt and row.state not in states.CLOSED


def is_under_way(row: BatchRow, result: BatchResult) -> bool:
    """Whether the batch is being published, by this attempt."""
    return row.state == states.PUBLISHING and row.attempt == result.attempt
