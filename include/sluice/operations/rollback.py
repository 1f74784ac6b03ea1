"""rollback: what an operator may ask to be undone, or made again, and all that is done for it."""

from __future__ import annotations

from dataclasses import dataclass

from sluice.errors import ConfigError
from sluice.ledger.details import undone_by
from sluice.ledger.rows import ROLLED_BACK
from sluice.manifest import as_batch_id
from sluice.operations import refolding, undo
from sluice.operations.context import Context


@dataclass(frozen=True)
class RollbackRequest:
    """Exactly one of: the `batch` to undo, the one to go back `to` (every batch published after it
    is undone), or `rebuild` (targets are made again, with `table` that one alone).

    `release`: the next run may load the files of what is undone again, else they are held until
    then. `dry_run`: say what would be done, and do nothing. `user`: who asks, kept in the ledger.
    """

    batch: str = ""
    to: str = ""
    rebuild: bool = False
    table: str = ""
    release: bool = False
    dry_run: bool = False
    user: str = ""

    def __post_init__(self) -> None:
        """Raises ConfigError for what does not go together, and for what cannot be a batch."""
        one = [bool(self.batch), bool(self.to), self.rebuild].count(True) == 1
        if not one or (self.table and not self.rebuild):
            raise ConfigError(
                "rollback: name the batch to undo (batch), or the one to go back to (to), or ask "
                "for targets to be made again (rebuild, with table for one)"
            )
        as_batch_id(self.batch)
        as_batch_id(self.to)

    @property
    def holds_files(self) -> bool:
        """Whether files of what is undone are held from then on."""
        return not (self.rebuild or self.release or self.dry_run)


def roll_back(ctx: Context, asked: RollbackRequest) -> list[str]:
    """Do what is asked for, in all tables or in none; returns what was done, or would be.

    Raises RollbackRefused naming who stands in the way, TerminalError for an unknown batch or
    table; then every table is as it was.
    """
    if asked.dry_run or not (asked.release or asked.user):
        return _undo(ctx, asked)
    undone = _to_undo(ctx, asked)
    lines = _undo(ctx, asked)
    if asked.release:
        count = sum(_release(ctx, batch) for batch in undone)
        lines.append(f"{count} files released: the next run takes them")
    for batch in undone if asked.user else ():
        _sign(ctx, batch, asked)
    return lines


def _to_undo(ctx: Context, asked: RollbackRequest) -> list[str]:
    if asked.rebuild:
        return []
    return undo.published_after(ctx, asked.to) if asked.to else [asked.batch]


def _undo(ctx: Context, asked: RollbackRequest) -> list[str]:
    if asked.rebuild:
        return refolding.rebuild(ctx, asked.table, asked.dry_run)
    if asked.to:
        return refolding.rollback_to(ctx, asked.to, asked.dry_run)
    return refolding.rollback(ctx, asked.batch, asked.dry_run)


def _release(ctx: Context, batch: str) -> int:
    """Batches without files, which undid others, are left as they are."""
    row = ctx.ledger.batch(ctx.pipeline.name, batch)
    undone = row is not None and row.state == ROLLED_BACK
    return undo.release(ctx, batch) if undone else 0


def _sign(ctx: Context, batch: str, asked: RollbackRequest) -> None:
    """Keep in the ledger who had a batch undone, and its files released."""
    ctx.ledger.record_batch(
        ctx.pipeline.name,
        batch,
        ROLLED_BACK,
        more=undone_by(asked.user, asked.release),
        expected=lambda now: now is not None and now.state == ROLLED_BACK,
    )
