"""Load a batch: run its driver, and read what it staged."""

from __future__ import annotations

from typing import Final

from sluice.counting import counted
from sluice.errors import LeaseHeldError, TerminalError
from sluice.ledger import states
from sluice.ledger.leases import holder_in_words, this_holder
from sluice.operations.context import Context, known_batch
from sluice.operations.holding import is_held
from sluice.operations.undone_shares import is_held_share
from sluice.result import BatchResult
from sluice.spark_submit.submit import LOAD_BATCH, is_small, submit

# What brings a batch of somebody's request, which claims no files.
SAME_AGAIN: Final = "trigger the same again"


def load(ctx: Context, manifest_key: str) -> BatchResult:
    """Run the Spark driver for a landed batch and wait for it.

    Raises TransientError or TerminalError with the driver's own message.
    """
    manifest = ctx.files.read_manifest(manifest_key)
    ctx.say(f"load: batch {manifest.batch_id}, {counted(len(manifest.files), 'file')}")
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
            f"batch {batch_id} was rolled back, so it is not published; "
            f"{_comes_again(ctx, batch_id)}"
        )
    if row.state in (states.LANDED, states.LOADING) and is_held(ctx, row):
        raise LeaseHeldError(
            f"batch {batch_id} of {ctx.pipeline.name} is being loaded by "
            f"{holder_in_words(row.holder)}"
        )
    return ctx.files.read_result(ctx.pipeline.name, batch_id, row.attempt)


def _comes_again(ctx: Context, batch_id: str) -> str:
    """Return how the records of a rolled back batch are loaded after all: only a batch that claimed
    its files has any to release."""
    name = ctx.pipeline.name
    manifest = ctx.files.manifest_of(name, batch_id)
    if origin := manifest.share_of:
        if is_held_share(known_batch(ctx, batch_id), ctx.ledger.batches.get(origin)):
            return f"it is held: sluice release {name} --batch {batch_id}, then run again"
        return (
            f"its files are those of batch {origin}: sluice rollback {name} --batch {origin}, "
            f"sluice release {name} --batch {origin}, then run again"
        )
    if manifest.repeats or manifest.rebuild is not None:
        return f"it claimed no files: {SAME_AGAIN}"
    return f"its files are held: sluice release {name} --batch {batch_id}, then run again"
