"""The mark of a rollback under way, and the rest of the rollback once no table has its batch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from sluice.errors import LeaseHeldError
from sluice.faults import Point, reach
from sluice.ledger import states
from sluice.ledger.changelogs import forget_changes
from sluice.ledger.details import RELEASE, UndoOrder, of_undo
from sluice.ledger.rows import BatchRow
from sluice.operations import comments
from sluice.operations.context import Context, known_batch
from sluice.operations.held_files import hold_files, release_held
from sluice.operations.holding import given_up
from sluice.operations.undone_shares import as_ended, origin_of


@dataclass(frozen=True)
class RollbackMark:
    """What a rollback left in the ledger of one batch.

    `unchanged`: whether the batch's row is still as the rollback left it. `order`: None if the row
    itself says what was ordered.
    """

    ctx: Context
    batch_id: str
    unchanged: Callable[[BatchRow | None], bool]
    order: UndoOrder | None = None

    def require(self) -> None:
        """Raise LeaseHeldError if another process completed this rollback: the batch may be
        loaded again."""
        if not self.unchanged(known_batch(self.ctx, self.batch_id)):
            raise LeaseHeldError(changed_meanwhile(self.ctx, self.batch_id))

    def close(self) -> list[str]:
        """Finish a rollback once no table has the batch: remove its changes and hold its files, or
        release them; return what was done."""
        done = self.forget_changes()
        self.record_undone()
        comments.apply_comments(self.ctx)
        self.end()
        return done

    def forget_changes(self) -> list[str]:
        """Remove the batch's changes from the changelogs; return what was done."""
        namespace = self.ctx.pipeline.namespace
        done = forget_changes(self.ctx.catalog, namespace, self.batch_id, confirm=self.require)
        reach(Point.ROLLBACK_CHANGES)
        return done

    def record_undone(self) -> None:
        """Mark the publications of all attempts as rolled back, since the batch may be published
        again; those of dropped tables too."""
        recorded = self.ctx.ledger.publications.of_batches(self.batch_id)
        self.require()
        undone = (replace(p, state=states.ROLLED_BACK) for p in recorded)
        self.ctx.ledger.publications.record(undone)
        reach(Point.ROLLBACK_RECORDED)

    def end(self) -> None:
        """End a rollback: hold the files, or the share, and release them if that was ordered. A
        batch that is marked stays so until then, so that whoever completes the rollback does all of
        it."""
        hold_files(self.ctx, self.batch_id, self.require)
        reach(Point.ROLLBACK_HELD)
        row = known_batch(self.ctx, self.batch_id)
        if self.order is not None:
            row = row.with_details(of_undo(row.details, self.order))
        if RELEASE in row.details:
            release_held(self.ctx, self.batch_id, self.require)
        reach(Point.ROLLBACK_FILES)
        self._record(as_ended(row, origin_of(self.ctx, row)))
        reach(Point.ROLLBACK_DONE)

    def _record(self, ended: BatchRow) -> None:
        recorded = self.ctx.ledger.batches.record(
            self.batch_id, ended.state, attempt=given_up(), replace_details=ended.details,
            expected=self.unchanged,
        )  # fmt: skip
        if not recorded:
            raise LeaseHeldError(changed_meanwhile(self.ctx, self.batch_id))


def mark_of(ctx: Context, batch_id: str, attempt: str) -> RollbackMark:
    """Return the mark of a rollback that gave the batch this attempt."""
    return RollbackMark(ctx, batch_id, lambda now: now is not None and now.attempt == attempt)


def changed_meanwhile(ctx: Context, batch_id: str) -> str:
    """Return the message for a rollback whose batch is no longer as it left it."""
    now = known_batch(ctx, batch_id).state
    return (
        f"batch {batch_id} of {ctx.pipeline.name} is {now}: another run went on with it meanwhile; "
        "wait for it, and try again"
    )
