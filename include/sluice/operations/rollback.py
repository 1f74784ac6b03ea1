"""rollback, the command: carry out requests to undo batches or to rebuild targets."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from pyiceberg.table import Table

from sluice.counting import are, counted
from sluice.errors import ConfigError
from sluice.ledger.changelogs import files_of
from sluice.ledger.details import SHARE_OF, UndoOrder, of_rollback_by
from sluice.ledger.rows import BatchRow
from sluice.ledger.states import FAILED, FILE_RELEASED, ROLLED_BACK
from sluice.manifest import as_batch_id
from sluice.names import PROP_FLOOR, changelog_namespace, full_name, published_tables
from sluice.operations import refolding, undo
from sluice.operations.context import Context
from sluice.operations.in_use import refuse_in_use
from sluice.operations.loaded_files import at_another_epoch
from sluice.operations.pipeline_tables import changelogs
from sluice.operations.unclaimed import comes_back
from sluice.operations.undone_shares import (
    as_if_undone,
    in_words,
    is_held_share,
    origin_of,
    release_batch,
)


@dataclass(frozen=True)
class RollbackRequest:
    """A request with exactly one of: the `batch` to undo, the batch to go back `to` (every batch
    published after it is undone), or `rebuild` (of all targets, or only `table`).

    `release`: let the next run load the undone files again; else they are held. `dry_run`: only
    return what would be done. `user`: who makes the request, kept in the ledger. `called`: what the
    user calls `batch`, `to`, `rebuild` and `table`.
    """

    batch: str = ""
    to: str = ""
    rebuild: bool = False
    table: str = ""
    release: bool = False
    dry_run: bool = False
    user: str = ""
    called: tuple[str, str, str, str] = field(
        default=("--batch", "--to", "--rebuild", "--table"), compare=False, repr=False
    )

    def __post_init__(self) -> None:
        """Raise ConfigError for options that exclude each other, and for an invalid batch id."""
        batch, to, rebuild, table = self.called
        given = {batch: self.batch, to: self.to, rebuild: self.rebuild}
        named = [option for option, value in given.items() if value]
        if len(named) != 1:
            raise ConfigError(
                f"rollback: give one of {batch} (the batch to undo), {to} (the one to go back to), "
                f"{rebuild} (make targets again, with {table} one of them); got "
                f"{' and '.join(named) or 'none of them'}"
            )
        if self.table and not self.rebuild:
            raise ConfigError(
                f"rollback: {table} goes with {rebuild}; {named[0]} undoes a batch in all tables"
            )
        as_batch_id(self.batch)
        as_batch_id(self.to)

    @property
    def order(self) -> UndoOrder:
        """What is ordered for the batches whose rollback begins with the request."""
        return UndoOrder(self.user, self.release)


def roll_back(ctx: Context, request: RollbackRequest) -> list[str]:
    """Carry out the request, in all tables or in none; return what was done, or would be.

    Raises RollbackRefusedError with the reason if that is impossible, TerminalError for an unknown
    batch or table; then every table is as it was.
    """
    undone = _to_undo(ctx, request)
    if request.dry_run:
        return _would(ctx, request, undone)
    lines = _rebuild(ctx, request) if request.rebuild else _undo(ctx, request).lines
    if request.batch:  # it may have been undone before
        _end_again(ctx, request)
    if request.release:
        states = Counter((file.batch_id, file.state) for file in ctx.ledger.files.undone())
        count = sum(states[batch, FILE_RELEASED] for batch in undone)
        lines.append(f"{counted(count, 'file')} released to the next run")
    rows = {row.batch_id: row for row in ctx.ledger.batches.all()}
    return [*lines, *_held(ctx, undone), *_without_files(rows, undone)]


def _would(ctx: Context, request: RollbackRequest, undone: list[str]) -> list[str]:
    """Describe what would be done, with all batches that would be undone and their changes."""
    if request.rebuild:
        return _would_rebuild(ctx, request)
    would = _undo(ctx, request)
    goes = refolding.taken_out(ctx, undone) if would.folds else undone
    named = [f"would undo: batch {', '.join(goes)}"] if request.to and undone else []
    changes = _changes(ctx, () if would.folds else undone)
    rows = as_if_undone(ctx.ledger.batches.all(), goes, _orders(ctx, request, goes))
    later = (f"afterwards: {line}" for line in _without_files(rows, goes))
    return [*named, *would.lines, *changes, *later]


def _changes(ctx: Context, batches: Sequence[str]) -> Iterator[str]:
    """Name the changelogs that have changes of the batches, as a failed batch may leave them."""
    logs = changelogs(ctx) if batches else {}
    for batch in batches:
        for log in logs.values():
            if files_of(log, batch):
                yield f"would undo: {'.'.join(log.name()[-2:])}: changes of batch {batch}"


def _held(ctx: Context, batches: Sequence[str]) -> Iterator[str]:
    """Yield, for each batch that has files, the command with which they can be landed again."""
    held = Counter(file.batch_id for file in ctx.ledger.files.held())
    for batch in batches:
        if held[batch]:
            command = f"sluice release {ctx.pipeline.name} --batch {batch}"
            files = f"{counted(held[batch], 'file')} of batch {batch} {are(held[batch])}"
            until = f"{files} held until: {command}"
            yield "; ".join(filter(None, (until, at_another_epoch(ctx, batch))))


def _without_files(rows: Mapping[str, BatchRow], batches: Iterable[str]) -> Iterator[str]:
    """Yield, for each batch that claimed no files, how what it brought comes back."""
    for row in (rows[batch] for batch in batches if batch in rows):
        if SHARE_OF in row.details and row.state == FAILED:
            yield in_words(row)
        elif back := comes_back(row, rows.values()):
            yield f"batch {row.batch_id} is undone; {back}"


def _to_undo(ctx: Context, request: RollbackRequest) -> list[str]:
    if request.rebuild:
        return []
    return undo.published_after(ctx, request.to) if request.to else [request.batch]


def _undo(ctx: Context, request: RollbackRequest) -> refolding.Undone:
    if request.to:
        return refolding.undo_or_refold_after(ctx, request.to, request.dry_run, request.order)
    return refolding.undo_or_refold(ctx, request.batch, request.dry_run, request.order)


def _orders(ctx: Context, request: RollbackRequest, batches: Iterable[str]) -> undo.Orders:
    """Return what the request orders for batches that it undoes."""
    if request.to:
        return undo.orders_for(ctx, batches, request.order)
    return {request.batch: request.order}


def _would_rebuild(ctx: Context, request: RollbackRequest) -> list[str]:
    targets = refolding.named_targets(ctx, request.table)
    refuse_in_use(ctx, [])
    logs = changelogs(ctx)
    return [
        f"would make again: {ctx.pipeline.full_name(target)}{_forgotten(logs[target])}"
        for target in targets
    ]


def _forgotten(changelog: Table) -> str:
    """Say that a target could not be made again if it were dropped, because maintenance has
    forgotten changes; "" if it could."""
    floor = changelog.properties.get(PROP_FLOOR)
    return f" (do not drop it: its changes up to {floor} are forgotten)" if floor else ""


def _rebuild(ctx: Context, request: RollbackRequest) -> list[str]:
    targets = refolding.named_targets(ctx, request.table)
    changes = refolding.rebuild(ctx, request.table, request.user)
    moved = {change.table for change in changes}
    return [str(change) for change in changes] + [
        f"{ctx.pipeline.full_name(target)}: nothing differs from its changelog"
        for target in targets
        if moved.isdisjoint(_tables_of(ctx, target))
    ]


def _tables_of(ctx: Context, target: str) -> set[str]:
    """Return the possible full names of all tables that a batch publishes of a target."""
    namespace = ctx.pipeline.namespace
    places = (namespace, changelog_namespace(namespace))
    return {full_name(place, table) for place in places for table in published_tables(target)}


def _end_again(ctx: Context, request: RollbackRequest) -> None:
    """Release the files of a batch that is rolled back, and record in the ledger who asked for it;
    nothing is left to do if the rollback was this one, or if nothing of the batch can be held."""
    row = ctx.ledger.batches.get(request.batch)
    if row is None or row.state != ROLLED_BACK or not _may_be_held(ctx, row):
        return
    details = of_rollback_by(request.user, request.release) if request.user else {}
    if not details.items() <= row.details.items():
        ctx.ledger.batches.record(
            request.batch, ROLLED_BACK, add_details=details,
            expected=lambda now: now is not None and now.state == ROLLED_BACK,
        )  # fmt: skip
    if request.release:
        release_batch(ctx, request.batch)


def _may_be_held(ctx: Context, row: BatchRow) -> bool:
    """Whether a batch has files of its own, or is a held share. The row of any other stays: what
    was loaded since is compared with its place in the ledger."""
    return bool(ctx.ledger.files.of_batch(row.batch_id)) or is_held_share(row, origin_of(ctx, row))
