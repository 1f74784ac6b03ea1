"""plan: forecast what a run would do, without changing anything.

Landed files are inspected and read as for a load. The staged files that Spark needs of some are
in a folder of their own, which is removed afterwards. No claim, manifest, changelog or branch is
made.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from sluice.bounds import rejects_of_a_batch
from sluice.landing.inspection import Inspection
from sluice.landing.table_folders import content_of
from sluice.ledger.claims import fresh_content
from sluice.ledger.leases import new_attempt
from sluice.ledger.states import ROLLING_BACK
from sluice.manifest import Manifest, SourceFile
from sluice.operations.batch_limits import split_by_limits
from sluice.operations.changed import LoadableGroup
from sluice.operations.claim import Inspected
from sluice.operations.context import Context
from sluice.operations.inspecting import Inspecting, chunks
from sluice.operations.land import loadable_groups
from sluice.operations.loaded_files import epochs_of_same_load, other_epoch
from sluice.operations.selection import EVERYTHING, Selection, open_landing
from sluice.operations.sweep import defer_to_maintenance
from sluice.operations.unreadable_files import UnreadableFiles
from sluice.result import Counts, Nulled
from sluice.spark_submit.submit import PLAN_BATCH, submit
from sluice.typed_json import TypedJson

ByEpoch = dict[int | None, list[Inspection]]
"""Inspected files by the epoch at which they would be loaded; None: the pipeline's own."""


@dataclass(frozen=True)
class TableForecast:
    """The changes that a run would make to one target.

    `added` (of a table that is made: all columns of the source) and `widened`: columns with their
    types; `renamed`: both names. `hit_files` and `hit_bytes`: data files of the target with rows to
    be replaced or deleted; None if unknown (no key). `nulled`: the values that would become NULL
    (`null_misfits`). `dropped`: columns that the source dropped and that would go
    (`on_dropped_column`).
    """

    source: str
    target: str
    key: tuple[str, ...]
    created: bool
    added: tuple[str, ...]
    widened: tuple[str, ...]
    counts: Counts
    write_mode: str
    hit_files: int | None = None
    hit_bytes: int | None = None
    renamed: tuple[str, ...] = ()
    nulled: tuple[Nulled, ...] = ()
    dropped: tuple[str, ...] = ()


@dataclass(frozen=True)
class Forecast(TypedJson):
    """The driver's forecast: tables, and records that belong to none of them; `notes` as in
    `BatchResult`."""

    tables: tuple[TableForecast, ...] = ()
    unassigned: Counts = field(default_factory=Counts)
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Preview:
    """The files that a run would take, and its forecast.

    `files` and `bytes` in so many `batches`. `repeated`: files that have the bytes of another one
    and are left out. `unfinished`: batches that would be loaded again first, and are not part of
    the forecast. `denied`: files that cannot be read, with the reason; a run would load the others
    and end with an error. `changed`: the files that would replace loaded ones.
    """

    pipeline: str
    files: tuple[str, ...]
    bytes: int
    batches: int
    repeated: tuple[str, ...]
    unfinished: tuple[str, ...]
    forecast: Forecast
    denied: Mapping[str, str] = field(default_factory=dict)
    changed: tuple[str, ...] = ()


def preview(ctx: Context, selection: Selection = EVERYTHING) -> Preview:
    """Forecast a run that starts now, as one batch per epoch; raises PlanError if a load would."""
    folder = f"planned-{new_attempt()}"
    prefix = f"{ctx.pipeline.name}/{folder}/"
    store = open_landing(ctx)
    groups = loadable_groups(ctx, store, selection)
    unreadable = UnreadableFiles()
    inspecting = Inspecting(ctx, store, bool(selection.files), unreadable, f"{prefix}staged/")

    try:
        inspections = _inspect(inspecting, groups)
        unreadable.raise_if_store_is_away()
        by_epoch, repeated = _without_copies(ctx, inspections)
        forecast = _forecasts(ctx, folder, by_epoch)
    finally:
        with defer_to_maintenance("plan", ctx.say):
            ctx.files.store.delete_prefix(prefix)
    fresh = [one for inspected in by_epoch.values() for one in inspected]
    return Preview(
        pipeline=ctx.pipeline.name,
        files=tuple(sorted(one.file.key for one in fresh)),
        bytes=sum(one.file.size for one in fresh),
        batches=_count_batches(ctx, groups, fresh),
        repeated=tuple(one.file.key for one in repeated),
        unfinished=_unfinished(ctx),
        forecast=forecast,
        denied={key: str(error) for key, error in sorted(unreadable.errors.items())},
        changed=tuple(sorted(one.file.key for one in fresh if one.file.replaces)),
    )


def _inspect(inspecting: Inspecting, groups: Sequence[LoadableGroup]) -> ByEpoch:
    inspections: ByEpoch = {}
    for group in groups:
        epoch = other_epoch(inspecting.ctx, group.epoch)
        for one in group.placed(inspecting.all(group.objects)):
            inspections.setdefault(epoch, []).append(one.inspection)
    return inspections


def _count_batches(ctx: Context, groups: Sequence[LoadableGroup], fresh: list[Inspection]) -> int:
    inspections = {one.file.key: one for one in fresh}
    kept = ([o for o in group.objects if o.key in inspections] for group in groups)
    landed = (
        [Inspected(found, inspections[found.key]) for found in chunk]
        for objects in kept
        for chunk in chunks(ctx, objects)
    )
    rejects = rejects_of_a_batch(ctx.pipeline.max_bad_records)
    most = ctx.pipeline.max_bytes_per_batch
    return sum(len(list(split_by_limits(chunk, rejects, most))) for chunk in landed)


def _unfinished(ctx: Context) -> tuple[str, ...]:
    left = ctx.ledger.unfinished()
    return tuple(row.batch_id for row in left if row.state != ROLLING_BACK)


def _without_copies(ctx: Context, inspections: ByEpoch) -> tuple[ByEpoch, list[Inspection]]:
    """Return the files to take, and those with the bytes of others, as the claims of a run would
    decide, epoch by epoch."""
    content, taken = content_of(ctx.pipeline), set[SourceFile]()
    checksums = {one.file.sha256 for found in inspections.values() for one in found}
    for epoch, found in inspections.items():
        of_load = epochs_of_same_load(ctx, epoch)
        loaded = ctx.ledger.files.known_contents(content, epochs=of_load, among=checksums)
        loaded |= {content(file.key, file.sha256) for file in taken}
        taken |= set(fresh_content(tuple(one.file for one in found), loaded, content))
    fresh = {at: [one for one in found if one.file in taken] for at, found in inspections.items()}
    return fresh, [one for f in inspections.values() for one in f if one.file not in taken]


def _forecasts(ctx: Context, folder: str, inspections: ByEpoch) -> Forecast:
    """Forecast the load of the files by one driver per epoch."""
    whole = Forecast()
    for epoch, files in inspections.items():
        if not files:
            continue
        part = _forecast(ctx, folder if epoch is None else f"{folder}/{epoch}", files, epoch)
        notes = dict.fromkeys((*whole.notes, *part.notes))
        whole = Forecast(
            (*whole.tables, *part.tables), whole.unassigned + part.unassigned, tuple(notes)
        )
    return whole


def _forecast(
    ctx: Context, folder: str, inspections: list[Inspection], epoch: int | None
) -> Forecast:
    rejects = tuple(reject for one in inspections for reject in one.rejects)
    files = tuple(one.file for one in inspections)
    manifest = Manifest(ctx.pipeline.name, folder, files, rejects, epoch=epoch)
    key = ctx.files.write_manifest(manifest)
    return Forecast.from_json(submit(ctx.project, PLAN_BATCH, "--manifest", key))
