"""Objects that changed after they were loaded, for a run with `--changed`.

Events that such an object shares with the one it replaces have the same position and count as
duplicates, so it is loaded at the epoch of that one. If arrival is the order, all its events come
after those of the replaced object.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from sluice.ledger.claims import may_be_replaced
from sluice.ledger.rows import FileRow
from sluice.objects.store import StoredObject
from sluice.operations.claim import Inspected
from sluice.operations.context import Context
from sluice.operations.copies import without_copies
from sluice.operations.loaded_files import arrivals
from sluice.positions import arrival_changed


@dataclass(frozen=True)
class Replaced:
    """The published batches that loaded other objects under a key, and the last one's place in the
    order of arrival."""

    batches: tuple[str, ...]
    arrival: str


@dataclass(frozen=True)
class LoadableGroup:
    """Objects that may share a batch: new ones, or changed ones that were loaded at one `epoch`.

    `before`: what was loaded under the keys of changed ones; `replaced`: their rows in the ledger.
    """

    objects: list[StoredObject]
    epoch: int | None = None
    before: Mapping[str, Replaced] = field(default_factory=dict)
    replaced: frozenset[FileRow] = frozenset()

    def placed(self, inspected: Iterable[Inspected]) -> list[Inspected]:
        """Return the inspections, with changed objects placed after what they replace."""
        return [self._placed(one, self.before.get(one.object.key)) for one in inspected]

    def _placed(self, one: Inspected, before: Replaced | None) -> Inspected:
        if before is None:
            return one
        arrival = arrival_changed(before.arrival or one.inspection.file.arrival)
        file = replace(one.inspection.file, arrival=arrival, replaces=before.batches)
        return replace(one, inspection=replace(one.inspection, file=file))


def grouped(
    ctx: Context, objects: list[StoredObject], known: Mapping[str, FileRow]
) -> list[LoadableGroup]:
    """Group objects that may share a batch, new ones first, without known copies.

    Changed objects get groups of their own: they may be refused, which must not keep others from
    being loaded.
    """
    groups = _by_epoch(ctx, objects, known)
    return [replace(one, objects=without_copies(ctx, one.objects, one.epoch)) for one in groups]


def _by_epoch(
    ctx: Context, objects: list[StoredObject], known: Mapping[str, FileRow]
) -> list[LoadableGroup]:
    loaded = _loaded(ctx, objects, known)
    if not loaded:
        return [LoadableGroup(objects)]
    places = arrivals(ctx, (row for rows in loaded.values() for row in rows))
    at = ctx.ledger.batches.epochs()
    before = {key: _before(rows, places) for key, rows in loaded.items()}
    replaced = frozenset(row for row in known.values() if row in loaded.get(row.object_key, ()))
    groups: defaultdict[int | None, list[StoredObject]] = defaultdict(list)
    for found in (o for o in objects if o.key in loaded):
        groups[at.get(loaded[found.key][-1].batch_id)].append(found)
    new = LoadableGroup([o for o in objects if o.key not in loaded])
    return [
        new,
        *(LoadableGroup(found, epoch, before, replaced) for epoch, found in groups.items()),
    ]


def _loaded(
    ctx: Context, objects: list[StoredObject], known: Mapping[str, FileRow]
) -> dict[str, list[FileRow]]:
    """Return by key what published batches loaded under the objects' keys, oldest first.

    An object may be free and still have such rows: a batch that had taken it was rolled back, and
    the batch before was not.
    """
    if not objects:
        return {}
    found = {o.key: o for o in objects}
    rows: defaultdict[str, list[FileRow]] = defaultdict(list)
    for row in ctx.ledger.files.replaced(found.keys()):
        rows[row.object_key].append(row)
    for key, one in found.items():
        if key in known and may_be_replaced(one, known[key]):
            rows[key].append(known[key])
    return rows


def _before(rows: list[FileRow], places: Mapping[tuple[str, str], str]) -> Replaced:
    batches = tuple(sorted(row.batch_id for row in rows))
    return Replaced(batches, max(places.get((r.batch_id, r.object_key), "") for r in rows))
