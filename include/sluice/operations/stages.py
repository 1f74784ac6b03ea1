"""The stages of a batch outside Spark, as the command line and the DAG's tasks call them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Final

from sluice.catalog.patience import EXPECTED, as_sluice_error
from sluice.catalog.snapshots import publish_table
from sluice.errors import (
    ConfigError,
    FollowedError,
    LeaseHeldError,
    PublishRefusedError,
    SluiceError,
    TerminalError,
)
from sluice.faults import Point, reach
from sluice.ledger import details
from sluice.ledger import rows as states
from sluice.ledger.leases import this_holder
from sluice.ledger.rows import landed_anew, seq_of
from sluice.manifest import Manifest
from sluice.objects.batch_files import batch_of
from sluice.operations import comments
from sluice.operations.context import Context, open_context
from sluice.operations.empty_tables import drop_empty_tables
from sluice.operations.land import land
from sluice.operations.obsolete import why_obsolete
from sluice.operations.publication import (
    begin_to_take_out,
    detail,
    intents,
    is_mine,
    is_taking_out,
    is_under_way,
    may_begin,
    recorded_by,
    refuse_moved,
    require_done,
    require_mine,
)
from sluice.operations.selection import EVERYTHING, Selection, covers
from sluice.operations.shares import error_for_left_out, split_off
from sluice.operations.single_tables import land_tables
from sluice.operations.sweep import clean_up
from sluice.operations.undo import (
    complete_rollbacks,
    drop_all_branches,
    give_up,
    release,
    take_out,
    undo_batch,
)
from sluice.operations.undoable import advise_rollback, unfinished
from sluice.operations.unreadable_files import UnreadableFiles, files_left_out
from sluice.operations.waiting import (
    is_held,
    renewing_landed,
    taken_up,
    wait_for_others,
    wait_for_turn,
)
from sluice.result import BatchResult
from sluice.spark_submit.submit import LOAD_BATCH, is_small, submit

__all__ = [
    "BatchResult", "Context", "current_result", "error_for_left_out", "give_up", "land",
    "land_tables", "load", "load_and_publish", "open_context", "publish", "reconcile", "release",
    "run",
]  # fmt: skip

MERGE_AGAIN_AT_MOST: Final = 3


def load(ctx: Context, manifest_key: str) -> BatchResult:
    """Run the Spark driver for a landed batch and wait for it.

    Raises TransientError or TerminalError with the driver's own message.
    """
    manifest = ctx.files.read_manifest(manifest_key)
    ctx.say(f"load: batch {manifest.batch_id}, {len(manifest.files)} files")
    submit(
        ctx.project, LOAD_BATCH, "--manifest", manifest_key, "--publisher", this_holder(),
        small=is_small(manifest),
    )  # fmt: skip
    result = current_result(ctx, manifest.batch_id)
    for note in result.notes:
        ctx.say(f"load: {note}")
    return result


def current_result(ctx: Context, batch_id: str) -> BatchResult:
    """Return the result of the batch's current attempt.

    Raises TerminalError if nothing is loaded, or the batch was rolled back, LeaseHeldError while an
    attempt is loading.
    """
    row = ctx.ledger.batches.get(batch_id)
    if row is None or not row.attempt:
        raise TerminalError(f"batch {batch_id} of {ctx.pipeline.name} is not loaded yet")
    if row.state in (states.ROLLING_BACK, states.ROLLED_BACK):
        raise TerminalError(
            f"batch {batch_id} was rolled back, so it is not published; its files are held: "
            f"sluice release {ctx.pipeline.name} --batch {batch_id}, then run again"
        )
    if row.state in (states.LANDED, states.LOADING) and is_held(ctx, row):
        raise LeaseHeldError(
            f"batch {batch_id} of {ctx.pipeline.name} is being loaded by {row.holder}"
        )
    return ctx.files.read_result(ctx.pipeline.name, batch_id, row.attempt)


def publish(ctx: Context, manifest_key: str) -> BatchResult:
    """Point `main` of every table at the batch's branch; merge again if `main` has moved.

    Raises PublishRefusedError after a bounded number of tries, LeaseHeldError when a later attempt
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
    """Load a failed batch again: in Airflow a publish that fails gives its batch up, and its task
    may be cleared alone."""
    row = ctx.ledger.batches.get(batch_id)
    if row is not None and row.state == states.FAILED:
        ctx.say(f"publish: batch {batch_id} was given up; loading it again")
        load(ctx, manifest_key)


def _publish_current(ctx: Context, manifest: Manifest) -> BatchResult:
    result = current_result(ctx, manifest.batch_id)
    _publish(ctx, manifest, result)
    return result


def _publish(ctx: Context, manifest: Manifest, result: BatchResult) -> None:
    row = ctx.ledger.batches.get(result.batch_id)
    if row is not None and row.state == states.PUBLISHED:
        ctx.say(f"publish: batch {result.batch_id} is published; nothing to do")
        return
    ctx.ledger.lease.renew(result.batch_id, result.attempt, ctx.lease)
    reach(Point.PUBLISH_HELD)
    if not is_taking_out(row, result):  # else whoever moved a table since did so after it
        _begin(ctx, result)
        _move(ctx, result)
    _finish(ctx, manifest, result)


def _begin(ctx: Context, result: BatchResult) -> None:
    """Record the publication that is about to happen, for whoever may have to complete it."""
    # A process that was suspended here is refused; reconcile completes for one that dies.
    begun = ctx.ledger.batches.record(
        result.batch_id, states.PUBLISHING,
        expected=lambda row: row is not None and may_begin(row, result),
    )  # fmt: skip
    if not begun:
        require_mine(ctx, result)
    reach(Point.PUBLISH_MARKED)
    require_mine(ctx, result)
    ctx.ledger.publications.record(intents(ctx, result))
    reach(Point.PUBLISH_INTENT)


def _move(ctx: Context, result: BatchResult) -> None:
    """Move `main` of every table, and record it."""
    refuse_moved(ctx, result)
    for table in result.staged:
        publish_table(ctx.catalog, table, result.batch_id)
        reach(Point.PUBLISH_TABLE)
        ctx.say(f"publish: {table.full_name} is at snapshot {table.head_snapshot}")
    own = recorded_by(ctx, result)  # read before the check: what is undone after it stays so
    require_mine(ctx, result)
    ctx.ledger.publications.record(replace(p, state=states.PUBLISHED) for p in own)
    reach(Point.PUBLISH_RECORDED)


def _finish(ctx: Context, manifest: Manifest, result: BatchResult) -> None:
    """Finish a batch that all tables have: end the batches it undoes, mark its files as loaded."""
    if manifest.undone:
        begin_to_take_out(ctx, result)
    for undone in manifest.undone:
        require_mine(ctx, result)  # the undone batch may have been published anew
        take_out(ctx, undone)
    require_mine(ctx, result)
    comments.settle(ctx, result.batch_id)
    # Read before the check: if the batch is undone and released, another landing may take them.
    files = frozenset(ctx.ledger.files.of_batch(result.batch_id))
    require_mine(ctx, result)
    ctx.ledger.files.mark(result.batch_id, states.FILE_LOADED, files)
    reach(Point.PUBLISH_FILES)
    if is_mine(ctx, result):  # else the batch may be undone, landed anew, and need its copies
        # Before the batch is recorded as published, for nobody looks at it after that.
        split_off(ctx, manifest, result)
        clean_up(ctx.files, ctx.ledger, manifest, ctx.say)
    done = ctx.ledger.batches.record(
        result.batch_id, states.PUBLISHED,
        replace_details=detail(result)
        | details.of_completed(result.completed) | details.of_reprocess(manifest.reprocess)
        | details.of_tables(manifest) | details.of_rebuild(manifest) | details.of_share(manifest),
        expected=lambda row: row is not None and is_under_way(row, result),
    )  # fmt: skip
    if not done:
        require_done(ctx, result)
    reach(Point.PUBLISH_DONE)


def _none(_: Manifest) -> bool:
    return False


def reconcile(ctx: Context, loads: Callable[[Manifest], bool] = _none) -> list[str]:
    """Finish or undo what dead attempts left; return the manifests of batches to load again.

    Publications and rollbacks that were under way are completed; branches of failed attempts and
    tables that were never published are dropped; a batch whose lease somebody holds is left alone.
    `loads`: whether the caller loads a batch at once. It gets the lease of these, so that of
    concurrent runs only one returns a batch.
    """
    keys = [_reconcile_batch(ctx, row, loads) for row in _without_rollbacks(ctx)]
    again = [key for key in keys if key is not None]
    newest = ctx.ledger.batches.all(limit=1)
    if again or any(row.state == states.ROLLED_BACK for row in newest):
        for table in drop_empty_tables(ctx):
            ctx.say(f"reconcile: {table} was made by a batch that never was published: dropped")
    return again


def _reconcile_batch(
    ctx: Context, row: states.BatchRow, loads: Callable[[Manifest], bool]
) -> str | None:
    """Finish or undo one batch; return its manifest if it is to be loaded again, None if another
    process has it, or it is finished or undone now."""
    if not ctx.ledger.lease.has_lapsed(row):
        ctx.say(f"reconcile: batch {row.batch_id} is {row.state}, held by {row.holder}")
        return None
    key = row.manifest or ctx.files.manifest_key(ctx.pipeline.name, row.batch_id)
    with advise_rollback(ctx, row.batch_id):
        if row.state == states.PUBLISHING:
            ctx.say(f"reconcile: completing the publication of batch {row.batch_id}")
            publish(ctx, key)
            return None
        manifest = ctx.files.read_manifest(key)
    if why := why_obsolete(ctx, manifest):
        ctx.say(f"reconcile: batch {row.batch_id} {why}")
        undo_batch(ctx, row.batch_id, hold=True)
        return None
    free = _take_up if loads(manifest) else _record_landed
    if not free(ctx, row, key):
        ctx.say(f"reconcile: batch {row.batch_id} was taken up by another run")
        return None
    drop_all_branches(ctx, row.batch_id)
    return key


def _take_up(ctx: Context, row: states.BatchRow, key: str) -> bool:
    """Take the batch with this process's lease; return False if its row has changed since."""
    return ctx.ledger.batches.record(
        row.batch_id, states.LANDED, attempt=taken_up(), manifest=key,
        lease=ctx.lease, expected=partial(_is_unchanged, row),
    )  # fmt: skip


def _record_landed(ctx: Context, row: states.BatchRow, key: str) -> bool:
    """Record a batch that was never recorded, or not since its files were released; one that failed
    or died keeps its row, which says since when. Return False if the row has changed since."""
    recorded = ctx.ledger.batches.record(
        row.batch_id, states.LANDED, manifest=key,
        expected=lambda now: landed_anew(now) and _is_unchanged(row, now),
    )  # fmt: skip
    return recorded or _is_unchanged(row, ctx.ledger.batches.get(row.batch_id))


def _is_unchanged(row: states.BatchRow, now: states.BatchRow | None) -> bool:
    return seq_of(now) == row.seq


def _without_rollbacks(ctx: Context) -> list[states.BatchRow]:
    """Complete the rollbacks that died; return the batches that are unfinished then."""
    rows = unfinished(ctx)
    begun = [row.batch_id for row in rows if row.state == states.ROLLING_BACK]
    if not begun:
        return rows
    ctx.say(f"reconcile: completing the rollback of {', '.join(begun)}")
    try:
        complete_rollbacks(ctx)
    except FollowedError as followed:
        fold = f"sluice rollback {ctx.pipeline.name} --batch {begun[0]}"
        raise FollowedError(
            f"{followed}: fold its keys again without what goes ({fold})"
        ) from followed
    return unfinished(ctx)


def run(
    ctx: Context,
    selection: Selection = EVERYTHING,
    tables: Sequence[str] = (),
    changed: bool = False,
) -> tuple[list[BatchResult], SluiceError | None]:
    """Run all stages: for batches that earlier attempts left first, then for landed files.

    `tables`: load only these, from loaded files too (see `single_tables`); `changed`: also load
    objects that replaced loaded ones. A batch that fails does not hold up the next ones; return the
    results and the first failure, or else FilesLeftOutError or FilesUnreadError if files could not
    be read. Raises LeaseHeldError if the batches of other runs make no progress for as long as a
    lease lasts.
    """
    if tables and changed:
        raise ConfigError(
            f"sluice run {ctx.pipeline.name}: changed files are loaded for all tables: --changed "
            "without --table"
        )
    wait_for_others(ctx)
    unreadable = UnreadableFiles()
    with renewing_landed(ctx):
        if tables:
            reconcile(ctx)
            manifests = land_tables(ctx, tables, selection, ctx.lease, unreadable)
        else:
            left = _left(ctx, selection)
            manifests = [*left, *land(ctx, selection, ctx.lease, unreadable, changed)]
        results, failure = load_and_publish(ctx, manifests)
    return results, failure or files_left_out(ctx.pipeline.name, unreadable)


def _left(ctx: Context, selection: Selection) -> list[str]:
    """Reconcile; return the manifests of batches to load again that the selection covers."""
    own: list[str] = []

    def is_covered(manifest: Manifest) -> bool:
        taken = [(file.key, file.hour) for file in manifest.files]
        if covers(ctx, taken, selection):
            own.append(manifest.batch_id)
            return True
        ctx.say(f"batch {manifest.batch_id} is not published; a run without a window loads it")
        return False

    return [key for key in reconcile(ctx, is_covered) if batch_of(key) in own]


def load_and_publish(
    ctx: Context, manifests: list[str]
) -> tuple[list[BatchResult], SluiceError | None]:
    """Load and publish landed batches one after the other; see `run`. The caller renews their
    leases (`renewing_landed`)."""
    results: list[BatchResult] = []
    failure: SluiceError | None = None
    for key in manifests:
        try:
            result = _load_in_turn(ctx, key)
        except EXPECTED as raised:
            error = as_sluice_error(raised)
            # Another run may have finished the batch: then it stays in the tables.
            if not _is_finished(ctx, ctx.ledger.batches.get(batch_of(key))):
                # The caller prints the first failure.
                why = f": {error}" if failure is not None else ""
                ctx.say(f"batch {batch_of(key)} is not published, {type(error).__name__}{why}")
                failure = failure or error
                _give_up(ctx, key)
        else:
            if result is not None:
                results.append(result)
                failure = failure or error_for_left_out(ctx, ctx.files.read_manifest(key), result)
    return results, failure


def _load_in_turn(ctx: Context, key: str) -> BatchResult | None:
    """Load and publish one batch in its turn; return None if another run has it, or finished it."""
    wait_for_turn(ctx, batch_of(key))
    row = ctx.ledger.batches.get(batch_of(key))
    if _is_finished(ctx, row):
        return None
    if row is not None and is_held(ctx, row):
        ctx.say(f"batch {row.batch_id} was taken up by another run")
        return None
    load(ctx, key)
    return publish(ctx, key)


def _is_finished(ctx: Context, row: states.BatchRow | None) -> bool:
    if row is None or row.state not in states.FINISHED:
        return False
    ctx.say(f"batch {row.batch_id} is {row.state} by another run")
    return True


def _give_up(ctx: Context, manifest_key: str) -> None:
    """Drop what the batch staged; one that another run has is left to that run."""
    try:
        for line in give_up(ctx, batch_of(manifest_key)):
            ctx.say(f"rollback: {line}")
    except EXPECTED as error:
        ctx.say(f"rollback: {as_sluice_error(error)}")
