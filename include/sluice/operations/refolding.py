"""Refolding: undo a batch that others followed, or rebuild a target from its changelog.

Both are a batch of their own, without files: its driver folds keys again from the changes of
published batches (`spark_jobs/merging/rebuild.py`). It is audited and published like any other
batch, so either all of its tables change or none.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Final

from pyiceberg.table import Table

from sluice.catalog.client import find_table
from sluice.catalog.failures import EXPECTED, as_sluice_error
from sluice.catalog.lineage import ancestors
from sluice.catalog.snapshots import head
from sluice.catalog.table_rollback import MainChange, foreign_snapshots
from sluice.counting import counted
from sluice.errors import FollowedError, RollbackRefusedError, TerminalError, no_table
from sluice.ledger import states
from sluice.ledger.changelogs import files_of
from sluice.ledger.column_log import recorded
from sluice.ledger.details import KEEP_FILES_HELD, REBUILT, UNDONE, UndoOrder, of_rebuild
from sluice.ledger.rows import BatchRow, Publication
from sluice.manifest import Manifest, Rebuild, name_by_content
from sluice.names import (
    PROP_SOURCE,
    history_table,
    published_tables,
    target_namespace,
)
from sluice.operations import undo
from sluice.operations.claim import record_landed
from sluice.operations.context import Context
from sluice.operations.foreign_writes import recovery_advice
from sluice.operations.held_files import would_hold
from sluice.operations.in_use import refuse_in_use
from sluice.operations.load import load
from sluice.operations.pipeline_tables import changelogs, has_floor, tables_renamed
from sluice.operations.publish import publish
from sluice.operations.published_batches import published_rows
from sluice.operations.unclaimed import to_have_back
from sluice.operations.valid_publications import Published, is_here, publications, publications_of

_COST: Final = "would take a Spark job and the pipeline's lease, as a load does"


@dataclass(frozen=True)
class Changes:
    """The number of a batch's changes in the changelog of a target."""

    batch_id: str
    target: str
    records: int


@dataclass(frozen=True)
class Undone:
    """What undoing batches did, or would do, in lines; `folds`: keys are folded again."""

    lines: list[str]
    folds: bool = False


def undo_or_refold(
    ctx: Context, batch_id: str, dry_run: bool = False, order: UndoOrder = KEEP_FILES_HELD
) -> Undone:
    """Undo a batch for good: move its tables back or, if later batches are built on it, fold the
    keys that it changed again without it.

    Return what was done, or with `dry_run` what would be. Raises RollbackRefusedError with the
    reason if that is impossible; then every table is as it was.
    """
    _finish_dead_rebuilds(ctx, dry_run, batch_id)
    try:
        return Undone(undo.undo_batch(ctx, batch_id, dry_run, order))
    except FollowedError as followed:
        batches, orders = undo.begun(ctx) or [batch_id], {batch_id: order}
        return _refold_without(ctx, batches, str(followed), dry_run, orders)


def undo_or_refold_after(
    ctx: Context, batch_id: str, dry_run: bool = False, order: UndoOrder = KEEP_FILES_HELD
) -> Undone:
    """Undo, as `undo_or_refold` does, every batch that was published after one; all or none."""
    _finish_dead_rebuilds(ctx, dry_run)
    try:
        return Undone(undo.undo_batches_after(ctx, batch_id, dry_run, order))
    except FollowedError as followed:
        newer = undo.published_after(ctx, batch_id)
        orders = undo.orders_for(ctx, newer, order)
        return _refold_without(ctx, newer, str(followed), dry_run, orders)


def rebuild(ctx: Context, table: str = "", user: str = "") -> list[MainChange]:
    """Rebuild all targets of the pipeline, or one, from their changelogs; see `Rebuild`. Return the
    tables that changed.

    Raises TerminalError for an unknown table.
    """
    chosen = named_targets(ctx, table)
    _finish_dead_rebuilds(ctx, dry_run=False)
    refuse_in_use(ctx, [])
    return _carry_out(ctx, Rebuild(tuple(chosen), _now(), user=user))


def named_targets(ctx: Context, table: str) -> list[str]:
    """Return the pipeline's targets, or the named one; raises TerminalError if there is none."""
    targets = list(changelogs(ctx))
    chosen = [t for t in targets if table in ("", t, ctx.pipeline.full_name(t))]
    if not targets and not table:
        raise TerminalError(f"pipeline {ctx.pipeline.name} has no table yet")
    if not chosen:
        raise no_table(ctx.pipeline.name, table, targets)
    return chosen


def _refold_without(
    ctx: Context, batches: list[str], why: str, dry_run: bool, orders: undo.Orders
) -> Undone:
    published = taken_out(ctx, batches)
    if not published:
        raise RollbackRefusedError(f"{why}; {_instead(ctx, batches)}")
    refuse_in_use(ctx, list(published))
    logs = changelogs(ctx)
    changes = [c for b, written in published.items() for c in _changes(ctx, logs, b, written)]
    if not changes and not undo.begun(ctx):
        raise RollbackRefusedError(f"{why}, and no changelog has changes of {', '.join(published)}")
    lines = [
        f"{ctx.pipeline.full_name(c.target)}: {counted(c.records, 'change')} of batch {c.batch_id}"
        for c in changes
    ]
    stay = _undos_that_stay(ctx, batches)
    if dry_run:
        folds = (f"would fold again without: {line}" for line in lines)
        held = would_hold(ctx, list(published))
        return Undone([why, *folds, *stay, _COST, held], folds=True)
    ctx.say(f"rollback: {why}: keys are folded again without {', '.join(published)}")
    moves = _carry_out(ctx, _rebuild_without(ctx, published, changes, orders))
    return Undone(lines + stay + list(map(str, moves)), folds=True)


def _rebuild_without(
    ctx: Context, published: Published, changes: list[Changes], orders: undo.Orders
) -> Rebuild:
    """Return the request to rebuild the targets that the batches changed, without their changes."""
    targets = tuple(sorted({change.target for change in changes}))
    rows_of = (name for target in targets for name in (target, history_table(target)))
    return Rebuild(
        targets=targets,
        at=_now(),
        without=tuple(sorted(published)),
        bases={name: _base(ctx, name, published) for name in rows_of},
        user=next((order.user for order in orders.values()), ""),
        release=tuple(batch for batch, order in orders.items() if order.release),
    )


def _instead(ctx: Context, batches: list[str]) -> str:
    """Return what to do instead of undoing batches that have no changes of their own."""
    if undone := [one for gone in _undone_by(ctx, batches).values() for one in gone]:
        return to_have_back(ctx, undone)
    return "targets that were rebuilt agree with the published batches: there is nothing to undo"


def _undos_that_stay(ctx: Context, batches: list[str]) -> list[str]:
    """Name those of the batches that undid others: no fold brings back what they took out, so the
    tables are not quite as they were before the batches. What is undone with them does not count.
    """
    lines = []
    for batch, undone in _undone_by(ctx, batches).items():
        if gone := [one for one in undone if one not in batches]:
            back = to_have_back(ctx, gone, going=batches)
            lines.append(f"batch {batch} stays, which undid {', '.join(gone)}; {back}")
    return lines


def _undone_by(ctx: Context, batches: list[str]) -> dict[str, list[str]]:
    """Return which batches each of the batches undid."""
    rows = {row.batch_id: row for row in ctx.ledger.batches.all()}
    return {one: rows[one].details.get(UNDONE, []) for one in batches if one in rows}


def taken_out(ctx: Context, batches: list[str]) -> Published:
    """Return the publications of those of the batches that have changes of their own. A rebuild
    that is half rolled back is included with no publications; it ends with the others.

    Raises RollbackRefusedError unless all batches are still published, or all are half rolled back.
    """
    rows = [row for row in ctx.ledger.batches.all() if row.batch_id in batches]
    half_back = all(row.state == states.ROLLING_BACK for row in rows)
    for row in rows:
        if row.state != states.PUBLISHED and not half_back:
            raise RollbackRefusedError(
                f"batch {row.batch_id} of {ctx.pipeline.name} is {row.state} meanwhile: complete "
                f"that first (sluice reconcile {ctx.pipeline.name})"
            )
    own = [r.batch_id for r in rows if not r.details.keys() & {UNDONE, REBUILT}]
    rebuilt: Published = {r.batch_id: [] for r in rows if half_back and REBUILT in r.details}
    return rebuilt | publications_of(ctx, reversed(own))


def _base(ctx: Context, target: str, published: Published) -> int | None:
    """Return the snapshot of a target on which the first of the batches that wrote it was built;
    the target's present one if none did."""
    name = ctx.pipeline.full_name(target)
    written = [p for batch in published.values() for p in batch if p.full_name == name]
    # The ledger's rows do not have the order of the batches: that of a half rolled back batch is
    # newer than its rows in the tables.
    first = min(written, key=lambda p: p.seq, default=None)
    return _main(ctx, target) if first is None else first.base_snapshot


def _main(ctx: Context, target: str) -> int | None:
    table = find_table(ctx.catalog, ctx.pipeline.namespace, target)
    return None if table is None else head(table)


def _changes(
    ctx: Context, logs: dict[str, Table], batch_id: str, published: list[Publication]
) -> list[Changes]:
    """Return the targets of which a published batch has changes or renamed columns.

    Raises RollbackRefusedError if another writer wrote to one since, or if a changelog, or the
    batch's changes in it, are gone: then it is unknown which keys have to be folded.
    """
    _refuse_without_changelog(ctx, logs, published)
    found = []
    statements = [r for r in recorded(ctx.catalog, ctx.pipeline.name) if r.batch_id == batch_id]
    renamed = tables_renamed(ctx, statements, logs)
    for target, log in logs.items():
        records = sum(file.record_count for file in files_of(log, batch_id))
        own = [p for p in published if p.table_name in published_tables(target)]
        for p in own:
            _refuse_foreign_writes(ctx, p)
        if records or log.properties.get(PROP_SOURCE) in renamed:
            found.append(Changes(batch_id, target, records))
        elif own:
            raise RollbackRefusedError(_without_changes(ctx, target, batch_id))
    return found


def _refuse_without_changelog(
    ctx: Context, logs: dict[str, Table], published: list[Publication]
) -> None:
    """Raise RollbackRefusedError for a table without a changelog, or one in a namespace that the
    pipeline has left."""
    tables = frozenset[str]().union(*map(published_tables, logs))
    for p in published:
        if not is_here(ctx, p):
            raise RollbackRefusedError(f"{p.full_name}: {_left(ctx, p)}")
        if p.table_name not in tables:
            raise RollbackRefusedError(
                f"{p.full_name}: it is unknown what batch {p.batch_id} changed: its changelog is "
                "gone"
            )


def _left(ctx: Context, p: Publication) -> str:
    left = target_namespace(p.namespace)
    return (
        f"batch {p.batch_id} wrote it in namespace {left}, which pipeline {ctx.pipeline.name} left "
        f"for {ctx.pipeline.namespace}: with `namespace: {left}` again it can be undone; or, if "
        "nobody reads the table any more, drop it and try again"
    )


def _without_changes(ctx: Context, target: str, batch_id: str) -> str:
    name = ctx.pipeline.full_name(target)
    if has_floor(ctx, ctx.pipeline.namespace, target):
        return (
            f"{name}: maintenance has forgotten the changes of batch {batch_id} (changelog_days); "
            "it cannot be undone any more"
        )
    again = f"sluice rollback {ctx.pipeline.name} --rebuild --table {target}"
    return (
        f"{name}: its changelog has no changes of batch {batch_id}, which wrote it; to "
        f"rebuild it from the changes of the others: {again}"
    )


def _refuse_foreign_writes(ctx: Context, p: Publication) -> None:
    table = find_table(ctx.catalog, p.namespace, p.table_name)
    writes = [] if table is None else foreign_snapshots(table, _made_since(ctx, table, p))
    if writes:
        raise RollbackRefusedError(
            f"{p.full_name}: somebody else wrote {', '.join(writes)} after batch "
            f"{p.batch_id}; {recovery_advice(ctx, p)}"
        )


def _made_since(ctx: Context, table: Table, p: Publication) -> int:
    """Return the snapshot by which a table was last rebuilt from its changelog after a batch, else
    the one that the batch published.

    Nothing is left of what other writers wrote before it. A rebuild that somebody took back since
    does not count.
    """
    since = ancestors(table, head(table)) - ancestors(table, p.head_snapshot)
    rebuilds = (row for row in published_rows(ctx) if REBUILT in row.details)
    newest_first = (again for row in rebuilds for again in publications(ctx, row.batch_id))
    made = (
        again.head_snapshot
        for again in newest_first
        if again.full_name == p.full_name and again.head_snapshot in since
    )
    return next(made, p.head_snapshot)


def _now() -> str:
    return f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%S.%fZ}"


def _carry_out(ctx: Context, request: Rebuild) -> list[MainChange]:
    """Load and publish the batch, and return what moved; if that fails, remove all it left."""
    manifest = Manifest(ctx.pipeline.name, "", (), rebuild=request)
    batch_id = name_by_content(manifest)
    # It has no files, so without a lease it would look abandoned until its driver begins.
    key = record_landed(ctx, replace(manifest, batch_id=batch_id), of_rebuild(manifest), ctx.lease)
    try:
        load(ctx, key)
        result = publish(ctx, key)
    except BaseException:  # Airflow's own limit of time among them: no later task would know of it
        _give_up(ctx, batch_id)
        raise
    return [MainChange(s.full_name, s.base_snapshot, s.head_snapshot) for s in result.staged]


def _finish_dead_rebuilds(ctx: Context, dry_run: bool, requested: str = "") -> None:
    """End batches that undo or rebuild and whose process died, since no later run finds them by
    their files.

    One that is half published is completed, any other is given up. The `requested` batch is left
    alone, since it is undone next.
    """
    if dry_run:
        return
    for row in ctx.ledger.unfinished():
        idle = ctx.ledger.lease.has_lapsed(row) and row.batch_id != requested
        if not idle or not row.details.keys() & {UNDONE, REBUILT}:
            continue
        if row.state == states.PUBLISHING:
            _complete(ctx, row)
        elif not row.halfway:
            ctx.say(f"rollback: batch {row.batch_id} was left unfinished and is given up")
            _give_up(ctx, row.batch_id)


def _complete(ctx: Context, row: BatchRow) -> None:
    """Complete a publication; if that fails, the undo that follows is refused, or
    rebuilds the tables."""
    ctx.say(f"rollback: completing the publication of batch {row.batch_id}")
    try:
        publish(ctx, row.manifest)
    except EXPECTED as error:
        ctx.say(f"rollback: batch {row.batch_id} is not published: {as_sluice_error(error)}")


def _give_up(ctx: Context, batch_id: str) -> None:
    try:
        undo.undo_batch(ctx, batch_id)
    except EXPECTED as error:  # the caller raises the first one
        why = as_sluice_error(error)
        ctx.say(f"rollback: batch {batch_id} is left to sluice reconcile: {why}")
