"""refolding: a batch undone beneath later ones, and a target made again from its changelog.

Both are a batch of their own, without files: its driver folds keys again from the changelogs of
what is published (`spark_jobs/rebuild.py`), and it is audited by the same requirements and
published by the same commits as any other, so that all of its tables change or none.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime

from pyiceberg.exceptions import NoSuchTableError
from pyiceberg.table import Table

from sluice import ledger as states
from sluice import undo
from sluice.context import Context
from sluice.errors import Followed, RollbackRefused, SluiceError, TerminalError
from sluice.ledger_tables import equals
from sluice.manifest import Manifest, Rebuild, name_by_content
from sluice.names import (
    BATCH_ID,
    PROP_FLOOR,
    PROP_PIPELINE,
    changelog_namespace,
    changelog_table,
    target_of,
)
from sluice.snapshots import head, strangers_since
from sluice.stages import load, publish


@dataclass(frozen=True)
class Changes:
    """How many changes of a batch the changelog of a target has."""

    batch_id: str
    target: str
    records: int


def rollback(ctx: Context, batch_id: str, dry_run: bool = False) -> list[str]:
    """Undo a batch for good: move its tables back, or, where later batches are built on it, fold
    the keys that it changed again without it.

    Returns what was done, or with `dry_run` what would be. Raises RollbackRefused naming who stands
    in the way; then every table is as it was.
    """
    try:
        return undo.rollback(ctx, batch_id, hold=True, dry_run=dry_run)
    except Followed as followed:
        return _fold_without(ctx, [batch_id], str(followed), dry_run)


def rollback_to(ctx: Context, batch_id: str, dry_run: bool = False) -> list[str]:
    """The same for every batch that was published after one; all or none."""
    try:
        return undo.rollback_to(ctx, batch_id, dry_run)
    except Followed as followed:
        newer = undo.published_after(ctx, batch_id)
        return _fold_without(ctx, newer, str(followed), dry_run)


def rebuild(ctx: Context, table: str = "", dry_run: bool = False) -> list[str]:
    """Make every target of the pipeline, or one, again from its changelog; see `Rebuild`.

    Raises TerminalError for an unknown table.
    """
    known = [target_of_changelog(name) for name in _changelogs(ctx)]
    chosen = [t for t in known if table in ("", t, f"{ctx.pipeline.namespace}.{t}")]
    if not chosen:
        listed = ", ".join(known) or "none"
        raise TerminalError(f"pipeline {ctx.pipeline.name} has no table {table}; it has: {listed}")
    undo.refuse_in_use(ctx, [])
    if dry_run:
        return [f"would make again: {ctx.pipeline.namespace}.{t}" for t in chosen]
    return _carry_out(ctx, Rebuild(tuple(chosen), _now()))


def _fold_without(ctx: Context, batches: list[str], why: str, dry_run: bool) -> list[str]:
    chosen = [b for b in batches if _has_changes_of_its_own(ctx, b)]
    if not chosen:
        raise RollbackRefused(
            f"{why}; to have that back, release its files and run: sluice release "
            f"{ctx.pipeline.name} --batch ID"
        )
    undo.refuse_in_use(ctx, chosen)
    changes = [found for batch_id in chosen for found in _changes(ctx, batch_id)]
    told = [
        f"{ctx.pipeline.namespace}.{c.target}: {c.records} changes of batch {c.batch_id}"
        for c in changes
    ]
    if dry_run:
        return [why, *(f"would fold again without: {line}" for line in told)]
    ctx.say(f"rollback: {why}: keys are folded again without it")
    targets = tuple(sorted({c.target for c in changes}))
    bases = {target: _base(ctx, target, chosen) for target in targets}
    return told + _carry_out(ctx, Rebuild(targets, _now(), tuple(sorted(chosen)), bases))


def _base(ctx: Context, target: str, batches: list[str]) -> int | None:
    """The snapshot of a target that the first of the batches to write it was merged onto."""
    oldest_first = reversed(ctx.ledger.batches(ctx.pipeline.name))
    mine = [row.batch_id for row in oldest_first if row.batch_id in batches]
    written = (p for b in mine for p in undo.publications(ctx, b) if p.table_name == target)
    return next((p.base_snapshot for p in written), _main(ctx, target))


def _main(ctx: Context, target: str) -> int | None:
    table = _load(ctx, ctx.pipeline.namespace, target)
    return None if table is None else head(table)


def _has_changes_of_its_own(ctx: Context, batch_id: str) -> bool:
    row = ctx.ledger.batch(ctx.pipeline.name, batch_id)
    if row is not None and row.state != states.PUBLISHED:
        raise RollbackRefused(f"batch {batch_id} of {ctx.pipeline.name} is {row.state} meanwhile")
    return row is not None and not row.details.keys() & {undo.UNDONE, undo.REBUILT}


def _changes(ctx: Context, batch_id: str) -> list[Changes]:
    """The tables that a published batch has changes of; raises RollbackRefused where somebody else
    wrote to one since, or maintenance has forgotten them."""
    published = undo.publications(ctx, batch_id)
    found = []
    for name in _changelogs(ctx):
        target = target_of_changelog(name)
        records = _records(ctx, name, batch_id)
        mine = [p for p in published if target_of(p.table_name) == target]
        for p in mine:
            _refuse_strangers(ctx, p)
        if records:
            found.append(Changes(batch_id, target, records))
        elif mine and _property(ctx, target, PROP_FLOOR):
            raise RollbackRefused(
                f"{ctx.pipeline.namespace}.{target}: maintenance has forgotten the changes of "
                f"batch {batch_id} (changelog_days); it cannot be undone any more"
            )
    return found


def _refuse_strangers(ctx: Context, p: states.Publication) -> None:
    table = _load(ctx, p.namespace, p.table_name)
    strangers = [] if table is None else strangers_since(table, p.head_snapshot)
    if strangers:
        raise RollbackRefused(
            f"{p.namespace}.{p.table_name}: somebody else wrote {', '.join(strangers)} after batch "
            f"{p.batch_id}; take that back first, by set_current_snapshot (docs/operations.md)"
        )


def _records(ctx: Context, changelog: str, batch_id: str) -> int:
    table = _load(ctx, changelog_namespace(ctx.pipeline.namespace), changelog)
    files = [] if table is None else table.scan(row_filter=equals(BATCH_ID, batch_id)).plan_files()
    return sum(file.file.record_count for file in files)


def _changelogs(ctx: Context) -> list[str]:
    namespace = changelog_namespace(ctx.pipeline.namespace)
    listed = [name for where, name in undo.tables(ctx) if where == namespace]
    mine = (n for n in listed if n.endswith(changelog_table("")))
    return [n for n in mine if _property(ctx, n, PROP_PIPELINE, namespace) == ctx.pipeline.name]


def target_of_changelog(name: str) -> str:
    """The target's name for that of its changelog."""
    return name.removesuffix(changelog_table(""))


def _property(ctx: Context, table: str, name: str, namespace: str = "") -> str | None:
    loaded = _load(ctx, namespace or ctx.pipeline.namespace, table)
    return None if loaded is None else loaded.properties.get(name)


def _load(ctx: Context, namespace: str, name: str) -> Table | None:
    try:
        return ctx.catalog.load_table((namespace, name))
    except NoSuchTableError:
        return None


def _now() -> str:
    return f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%S.%fZ}"


def _carry_out(ctx: Context, asked: Rebuild) -> list[str]:
    """Load and publish the batch; where that fails, nothing is left of it."""
    manifest = Manifest(ctx.pipeline.name, "", (), rebuild=asked)
    batch_id = name_by_content(manifest)
    key = _record(ctx, replace(manifest, batch_id=batch_id))
    try:
        load(ctx, key)
        result = publish(ctx, key)
    except SluiceError:
        _give_up(ctx, batch_id)
        raise
    moved = [s for table in result.tables for s in table.staged]
    return [f"{s.namespace}.{s.name}: main {s.base_snapshot} → {s.head_snapshot}" for s in moved]


def _record(ctx: Context, manifest: Manifest) -> str:
    key = ctx.files.write_manifest(manifest)
    ctx.ledger.record_batch(manifest.pipeline, manifest.batch_id, states.LANDED, manifest=key)
    return key


def _give_up(ctx: Context, batch_id: str) -> None:
    try:
        undo.rollback(ctx, batch_id, hold=True)
    except SluiceError as error:  # the first error is the one to tell
        ctx.say(f"rollback: batch {batch_id} is left to sluice reconcile: {error}")
