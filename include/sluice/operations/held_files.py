"""The files of undone batches: held, so that they are not loaded again, until they are released."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable

from sluice.counting import counted
from sluice.errors import TerminalError
from sluice.ledger import states
from sluice.ledger.rows import FileRow
from sluice.ledger.states import FOLLOWS
from sluice.operations.context import Context, known_batch
from sluice.operations.loaded_files import at_another_epoch


def would_hold(ctx: Context, batches: list[str]) -> str:
    """Say how many files the undo of these batches would hold."""
    number = sum(len(to_hold(ctx, batch_id)) for batch_id in batches)
    return f"would hold: {counted(number, 'file')}"


def hold_files(ctx: Context, batch_id: str, confirm: Callable[[], None]) -> None:
    """Mark the batch's files as held, until none is left to mark; `confirm` is called before each
    round.

    Only rows that are unchanged since they were read are marked: another landing may have got the
    file since. Files that a publisher marks in between are held in the next round.
    """
    while files := to_hold(ctx, batch_id):
        confirm()
        ctx.ledger.files.mark(batch_id, states.FILE_HELD, files)


def to_hold(ctx: Context, batch_id: str) -> frozenset[FileRow]:
    """Return the files of a batch that may be held and are not."""
    files = ctx.ledger.files.of_batch(batch_id)
    return frozenset(f for f in files if f.state in FOLLOWS[states.FILE_HELD])


def release(ctx: Context, batch_id: str) -> int:
    """Let the files of a rolled back batch be landed again; return how many.

    Raises TerminalError for any other batch, whose files are in use.
    """
    row = known_batch(ctx, batch_id)
    if row.state != states.ROLLED_BACK:
        raise TerminalError(
            f"batch {batch_id} of pipeline {ctx.pipeline.name} is {row.state}: only the files of "
            f"one that is rolled back are released (sluice rollback {ctx.pipeline.name} --batch "
            f"{batch_id})"
        )
    released = ctx.ledger.files.mark(batch_id, states.FILE_RELEASED)
    if released:
        _say_epoch(ctx, batch_id)
    return released


def release_held(ctx: Context, batch_id: str, confirm: Callable[[], None]) -> None:
    """Release the files that the batch's rollback holds, before it ends; `confirm` as for
    `hold_files`."""
    held = [f for f in ctx.ledger.files.of_batch(batch_id) if f.state == states.FILE_HELD]
    confirm()
    if held and ctx.ledger.files.mark(batch_id, states.FILE_RELEASED, frozenset(held)):
        _say_epoch(ctx, batch_id)


def to_have_back(ctx: Context, undone: Iterable[str], going: Container[str] = ()) -> str:
    """Return how what these batches brought comes back: by the batches that have their files now,
    of which those that are `going` will be undone."""
    files = ctx.ledger.files.once_of(undone)
    if not files:
        return "it claimed no files: ask for the same again"
    held = {f.batch_id for f in files if f.state == states.FILE_HELD or f.batch_id in going}
    in_use = {f.batch_id for f in files if f.state != states.FILE_RELEASED} - held
    ways = []
    if held:
        releases = (f"sluice release {ctx.pipeline.name} --batch {one}" for one in sorted(held))
        ways.append(f"to have that back, release its files and run: {', '.join(releases)}")
    if in_use:
        ways.append(f"its files are those of batch {', '.join(sorted(in_use))} by now")
    return "; ".join(ways) or "its files are released: the next run loads them"


def _say_epoch(ctx: Context, batch_id: str) -> None:
    if otherwise := at_another_epoch(ctx, batch_id):
        ctx.say(f"release: {otherwise}")
