"""Publish a batch: point `main` of all its tables at what its driver staged."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from functools import partial
from typing import Final

from pyiceberg.exceptions import CommitStateUnknownException

from sluice.catalog.retries import retry_while_away
from sluice.catalog.table_publish import publish_table
from sluice.errors import CommitStateUnknownError, PublishRefusedError
from sluice.faults import Point, reach
from sluice.ledger import details, states
from sluice.manifest import Manifest
from sluice.operations import comments
from sluice.operations.context import Context
from sluice.operations.load import current_result, load
from sluice.operations.publication import (
    begin_undoing,
    intents,
    is_current,
    is_under_way,
    is_undoing,
    may_begin,
    recorded_by,
    refuse_conflicting_batches,
    refuse_moved,
    require_current,
    require_done,
)
from sluice.operations.shares import split_off
from sluice.operations.sweep import clean_up
from sluice.operations.undo import finish_undone
from sluice.operations.upgraded import refuse_unpublishable
from sluice.result import BatchResult

MERGE_AGAIN_AT_MOST: Final = 3


def publish(ctx: Context, manifest_key: str) -> BatchResult:
    """Point `main` of every table at the batch's branch; if `main` has moved, merge again, and if
    an answer of the catalog is lost, look what arrived and go on (see `retries`).

    Raises PublishRefusedError after a bounded number of tries, LeaseHeldError if a later attempt
    has taken the batch over.
    """
    manifest = ctx.files.read_manifest(manifest_key)
    _load_if_given_up(ctx, manifest_key, manifest.batch_id)
    for _ in range(MERGE_AGAIN_AT_MOST - 1):
        try:
            return _publish_current(ctx, manifest)
        except PublishRefusedError as refused:
            ctx.say(f"publish: {refused}; merging the batch again on the new head")
            load(ctx, manifest_key)
    return _publish_current(ctx, manifest)


def _load_if_given_up(ctx: Context, manifest_key: str, batch_id: str) -> None:
    """Load a failed batch again.

    In Airflow a publish task that fails gives its batch up, and may then be cleared without its
    load task.
    """
    row = ctx.ledger.batches.get(batch_id)
    if row is not None and row.state == states.FAILED:
        ctx.say(f"publish: batch {batch_id} was given up; loading it again")
        load(ctx, manifest_key)


def _publish_current(ctx: Context, manifest: Manifest) -> BatchResult:
    result = current_result(ctx, manifest.batch_id)
    # No step repeats what is done already, so whichever answer was lost, all of them go again.
    moved: set[str] = set()
    retry_while_away(
        partial(_publish, ctx, manifest, result, moved),
        also=(CommitStateUnknownError, CommitStateUnknownException),
        progress=lambda: len(moved),
    )
    return result


def _publish(ctx: Context, manifest: Manifest, result: BatchResult, moved: set[str]) -> None:
    """Publish the batch; the names of the tables that have it are added to `moved`."""
    row = ctx.ledger.batches.get(result.batch_id)
    if row is not None and row.state == states.PUBLISHED:
        ctx.say(f"publish: batch {result.batch_id} is published; nothing to do")
        return
    ctx.ledger.lease.renew(result.batch_id, result.attempt, ctx.lease)
    reach(Point.PUBLISH_HELD)
    if not is_undoing(row, result):  # else whoever moved a table since did so after it
        refuse_unpublishable(ctx, result)
        _begin(ctx, manifest, result)
        _move(ctx, result, moved)
    _finish(ctx, manifest, result)


def _begin(ctx: Context, manifest: Manifest, result: BatchResult) -> None:
    """Record the publication that is about to happen, for another process that may have
    to complete it; raises as `refuse_conflicting_batches`."""
    # If this process was suspended here, it is refused; if it dies, reconcile completes its work.
    begun = ctx.ledger.batches.record(
        result.batch_id, states.PUBLISHING,
        expected=lambda row: row is not None and may_begin(row, result),
        refuse=partial(refuse_conflicting_batches, manifest, result),
    )  # fmt: skip
    if not begun:
        require_current(ctx, result)
    reach(Point.PUBLISH_MARKED)
    require_current(ctx, result)
    ctx.ledger.publications.record(intents(ctx, result))
    reach(Point.PUBLISH_INTENT)


def _move(ctx: Context, result: BatchResult, moved: set[str]) -> None:
    """Move `main` of every table, and record it; add each to `moved` when it has the batch."""
    refuse_moved(ctx, result)
    for table in result.staged:
        publish_table(ctx.catalog, table, result.batch_id)
        moved.add(table.full_name)
        reach(Point.PUBLISH_TABLE)
        ctx.say(f"publish: {table.full_name} is at snapshot {table.head_snapshot}")
    own = recorded_by(ctx, result)  # read before the check: what is undone after it stays so
    require_current(ctx, result)
    ctx.ledger.publications.record(replace(p, state=states.PUBLISHED) for p in own)
    reach(Point.PUBLISH_RECORDED)


def _finish(ctx: Context, manifest: Manifest, result: BatchResult) -> None:
    """Finish a batch that all tables have: end the batches that it undoes, mark its files as
    loaded, and the batch as published."""
    _end_undone(ctx, manifest, result)
    require_current(ctx, result)
    comments.apply_comments(ctx, result.batch_id)
    # Read before the check: if the batch is undone and released, another landing may take them.
    files = frozenset(ctx.ledger.files.of_batch(result.batch_id))
    require_current(ctx, result)
    ctx.ledger.files.mark(result.batch_id, states.FILE_LOADED, files)
    reach(Point.PUBLISH_FILES)
    # Else the batch may be undone, landed anew, and need its staged files.
    if is_current(ctx, result):
        # Before the batch is recorded as published, for nobody looks at it after that.
        split_off(ctx, manifest, result)
        clean_up(ctx.files, ctx.ledger, manifest, ctx.say)
    reach(Point.PUBLISH_CLEANED)
    _record_published(ctx, manifest, result)


def _end_undone(ctx: Context, manifest: Manifest, result: BatchResult) -> None:
    if not manifest.undone:
        return
    begin_undoing(ctx, result)
    reach(Point.PUBLISH_UNDOING)
    for undone in _shares_last(ctx, manifest.undone):
        require_current(ctx, result)  # the undone batch may have been published anew
        finish_undone(ctx, undone, details.order_of(manifest, undone))


def _record_published(ctx: Context, manifest: Manifest, result: BatchResult) -> None:
    done = ctx.ledger.batches.record(
        result.batch_id, states.PUBLISHED,
        replace_details=details.of_published(result)
        | details.of_completed(result.completed) | details.of_reprocess(manifest.reprocess)
        | details.of_tables(manifest) | details.of_rebuild(manifest) | details.of_share(manifest),
        expected=lambda row: row is not None and is_under_way(row, result),
    )  # fmt: skip
    if not done:
        require_done(ctx, result)
    reach(Point.PUBLISH_DONE)


def _shares_last(ctx: Context, undone: Iterable[str]) -> list[str]:
    """Return the undone batches, shares last: whether one waits again depends on its batch."""
    rows = {row.batch_id: row for row in ctx.ledger.batches.all()}
    return sorted(undone, key=lambda one: one in rows and details.SHARE_OF in rows[one].details)
