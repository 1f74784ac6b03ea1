"""The stages of a batch outside Spark, as the command line and the DAG's tasks call them."""

from __future__ import annotations

from dataclasses import dataclass

from sluice.catalog.failures import EXPECTED, as_sluice_error
from sluice.errors import (
    HalfwayError,
    LeaseHeldError,
    PublishRefusedError,
    SluiceError,
    TerminalError,
)
from sluice.ledger import states
from sluice.ledger.refusals import completed_by
from sluice.ledger.rows import BatchRow
from sluice.manifest import Manifest
from sluice.objects.batch_files import batch_of
from sluice.operations.context import Context, open_context
from sluice.operations.held_files import release
from sluice.operations.holding import is_held, renewing_landed
from sluice.operations.land import land
from sluice.operations.load import current_result, load
from sluice.operations.loading_order import Shares, in_turn, tried
from sluice.operations.publish import publish
from sluice.operations.reconcile import reconcile
from sluice.operations.rollback_advice import advise_rollback
from sluice.operations.selection import EVERYTHING, FileHour, Selection, covers
from sluice.operations.shares import error_for_left_out
from sluice.operations.single_tables import land_tables
from sluice.operations.undo import give_up
from sluice.operations.undone_shares import release_batch
from sluice.operations.unreadable_files import UnreadableFiles, files_left_out
from sluice.operations.valid_publications import publications
from sluice.operations.waiting import is_blocked, wait_for_others, wait_for_turn
from sluice.result import BatchResult

__all__ = [
    "current_result", "error_for_left_out", "give_up", "land", "land_tables", "load",
    "load_and_publish", "open_context", "publish", "reconcile", "release",
    "release_batch", "run",
]  # fmt: skip


@dataclass(frozen=True)
class _Outcome:
    """The result of a batch, or why it has none; neither if another run has it.

    `blocked`: no other batch can be loaded either. It or another one is half published, or may be,
    or others do not let go of the pipeline.
    """

    result: BatchResult | None = None
    error: SluiceError | None = None
    blocked: bool = False


def run(
    ctx: Context, selection: Selection = EVERYTHING
) -> tuple[list[BatchResult], SluiceError | None]:
    """Run all stages, for landed files and for batches that earlier attempts left (`in_turn`).

    A batch that fails does not keep the next ones from being loaded, unless it is half published
    (see `load_and_publish`). Return the results and the first failure, or else FilesLeftOutError or
    FilesUnreadError if files could not be read. Raises LeaseHeldError if the batches of other runs
    make no progress for as long as a lease lasts.
    """
    wait_for_others(ctx)
    unreadable = UnreadableFiles()
    with renewing_landed(ctx):
        if selection.tables:
            reconcile(ctx)
            manifests = land_tables(ctx, selection, unreadable, ctx.lease)
        else:
            before = tried(ctx)  # to take a batch up is a new attempt
            left = _left(ctx, selection)
            new = land(ctx, selection, unreadable, ctx.lease)
            manifests = in_turn(ctx, [*left, *new], before)
        results, failure = load_and_publish(ctx, manifests)
    return results, failure or files_left_out(ctx.pipeline.name, unreadable)


def _left(ctx: Context, selection: Selection) -> list[str]:
    """Reconcile; return the manifests of batches to load again that the selection covers, and take
    them up.

    Of the shares of a table only the first is taken up: the others may have to wait for the next
    run, which finds in their rows when they were tried.
    """
    own: dict[str, tuple[str, ...]] = {}

    def is_taken(manifest: Manifest) -> bool:
        files = [FileHour(file.key, file.hour) for file in manifest.files]
        if not covers(ctx, files, selection):
            ctx.say(f"batch {manifest.batch_id} is not published; a run without a window loads it")
            return False
        tables = manifest.tables if manifest.share_of else ()
        is_first = not tables or tables not in own.values()
        own[manifest.batch_id] = tables
        return is_first

    return [key for key in reconcile(ctx, is_taken) if batch_of(key) in own]


def load_and_publish(
    ctx: Context, manifests: list[str]
) -> tuple[list[BatchResult], SluiceError | None]:
    """Load and publish landed batches one after the other; see `run`.

    A half published batch is completed before the next one, which could not be loaded beside it;
    if that fails, the rest stay landed. So they do beside a half published batch of another run,
    and if others that hold the pipeline make no progress for as long as a lease lasts. Behind a
    share that fails, those of its table are left out (`Shares`). The caller renews their leases
    (`renewing_landed`).
    """
    results: list[BatchResult] = []
    failure: SluiceError | None = None
    shares = Shares(ctx)
    for key in manifests:
        if shares.leave(key):
            continue
        done = _load_or_complete(ctx, key)
        if done.error is not None:
            # The caller prints the first failure whole.
            text = str(done.error) if failure is not None else str(done.error).partition("\n")[0]
            ctx.say(f"batch {batch_of(key)} is not published, {type(done.error).__name__}: {text}")
            failure = failure or done.error
            if done.blocked:
                break
            shares.failed(key)
            _give_up(ctx, key)
        elif done.result is not None:
            results.append(done.result)
            failure = failure or _left_out(ctx, key, done.result)
    shares.report()
    return results, failure


def _left_out(ctx: Context, key: str, result: BatchResult) -> SluiceError | None:
    """Return the error for tables that the batch was published without, or of looking for them."""
    try:
        return error_for_left_out(ctx, ctx.files.read_manifest(key), result)
    except EXPECTED as error:
        return as_sluice_error(error)


def _load_or_complete(ctx: Context, key: str) -> _Outcome:
    """Load and publish one batch; if it is half published then, complete it."""
    try:
        return _load_in_turn(ctx, key)
    except EXPECTED as raised:
        error = as_sluice_error(raised)
    try:
        return _look_and_complete(ctx, key, error)
    except EXPECTED as raised:  # nothing else is loaded while nobody can say what it would be on
        unknown = as_sluice_error(raised)
        ctx.say(f"batch {batch_of(key)}: how far it came cannot be looked up: {unknown}")
        return _Outcome(error=error, blocked=True)


def _look_and_complete(ctx: Context, key: str, error: SluiceError) -> _Outcome:
    """Look how far a batch came before `error`; if it is half published, complete it."""
    row = ctx.ledger.batches.get(batch_of(key))
    # Another run may have finished the batch: then it stays in the tables.
    if _is_finished(ctx, row):
        return _Outcome()
    # Whoever holds it completes it, or undoes it; the next batch waits for that.
    if row is None or not row.halfway or row.state == states.ROLLING_BACK or is_held(ctx, row):
        return _Outcome(error=error, blocked=is_blocked(ctx))
    if row.state != states.PUBLISHING:  # it was merged again, and that failed
        ctx.say(f"batch {row.batch_id} is half published; {completed_by(row)} first")
        _give_up(ctx, key)
        return _Outcome(error=error, blocked=True)
    if isinstance(error, PublishRefusedError):  # `publish` has merged it as often as it may
        return _halfway(ctx, row.batch_id, error)
    ctx.say(f"batch {row.batch_id} is being published: {error}; completing it")
    return _complete(ctx, key, error)


def _complete(ctx: Context, key: str, first: SluiceError) -> _Outcome:
    """Complete a batch whose publication ended with the error `first`."""
    batch_id = batch_of(key)
    try:
        with advise_rollback(ctx, batch_id):
            return _Outcome(publish(ctx, key))
    except EXPECTED as raised:
        error = as_sluice_error(raised)
    row = ctx.ledger.batches.get(batch_id)
    if _is_finished(ctx, row):
        return _Outcome()
    if row is None or not row.halfway:
        return _Outcome(error=error)
    if isinstance(error, TerminalError):  # which says what to do first
        return _Outcome(error=error, blocked=True)
    return _halfway(ctx, batch_id, first, error)


def _halfway(ctx: Context, batch_id: str, *errors: SluiceError) -> _Outcome:
    """Return the outcome of a batch that the next run completes; `errors`: of each try so far."""
    how = "half published" if publications(ctx, batch_id) else "being published"
    why = "; then: ".join(dict.fromkeys(map(str, errors)))
    error = HalfwayError(f"batch {batch_id} is {how}: {why}; the next run completes it")
    return _Outcome(error=error, blocked=True)


def _load_in_turn(ctx: Context, key: str) -> _Outcome:
    """Load and publish one batch when its turn comes, unless another run has it, or finished it."""
    try:
        wait_for_turn(ctx, batch_of(key))
    except LeaseHeldError as held:
        return _Outcome(error=held, blocked=True)
    row = ctx.ledger.batches.get(batch_of(key))
    if _is_finished(ctx, row):
        return _Outcome()
    if row is not None and is_held(ctx, row):
        ctx.say(f"batch {row.batch_id} was taken up by another run")
        return _Outcome()
    load(ctx, key)
    return _Outcome(publish(ctx, key))


def _is_finished(ctx: Context, row: BatchRow | None) -> bool:
    if row is None or row.state not in states.FINISHED:
        return False
    ctx.say(f"batch {row.batch_id} is {row.state} by another run")
    return True


def _give_up(ctx: Context, manifest_key: str) -> None:
    """Drop what the batch staged; a batch that another run has is left to that run."""
    try:
        for line in give_up(ctx, batch_of(manifest_key)):
            ctx.say(f"rollback: {line}")
    except EXPECTED as error:
        ctx.say(f"rollback: {as_sluice_error(error)}")
