"""reprocess: decode quarantined records again, after a fix of configuration or code.

A reprocess is a batch of the whole files that hold the records. Events that were applied before
count as duplicates, records that can be decoded now are applied at their own position, and the rest
is quarantined again. It claims no file: files stay with the batch that loaded them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final

from sluice.bounds import SCHEMA_BYTES_OF_A_BATCH
from sluice.counting import counted
from sluice.errors import SluiceError, TerminalError
from sluice.landing.inspection import Inspection
from sluice.ledger.details import of_reprocess
from sluice.ledger.leases import Lease
from sluice.manifest import Manifest, Reprocess, SourceFile, name_by_content
from sluice.objects.store import is_same_object
from sluice.operations.claim import record_landed
from sluice.operations.context import Context
from sluice.operations.holding import renewing_landed
from sluice.operations.inspecting import Inspecting
from sluice.operations.quarantined import Unresolved, repeated, unresolved
from sluice.operations.reconcile import reconcile
from sluice.operations.selection import open_landing
from sluice.operations.stages import load_and_publish
from sluice.operations.undo import undo_batch
from sluice.operations.unreadable_files import UnreadableFiles, listed_errors
from sluice.positions import arrival_again
from sluice.result import BatchResult

_OTHER_BYTES: Final = "not what was loaded: their bytes changed"
NO_OPTIONS: Final = Reprocess()


@dataclass(frozen=True)
class QuarantinedFiles:
    """A batch with quarantined records, and those of its files that hold them, as in
    its manifest."""

    unresolved: Unresolved
    files: tuple[SourceFile, ...]
    generation: int
    tables: tuple[str, ...] = ()

    @property
    def group_key(self) -> tuple[int | None, tuple[str, ...]]:
        """Epoch and tables, which must be equal for batches that are decoded again together."""
        return self.unresolved.epoch, self.tables

    @property
    def bytes(self) -> int:
        """The size of its files."""
        return sum(file.size for file in self.files)

    @property
    def schemas(self) -> set[str]:
        """The distinct schemas of its files."""
        return {file.avro_schema for file in self.files}


def reprocess(
    ctx: Context, batch_id: str = "", request: Reprocess = NO_OPTIONS
) -> tuple[list[BatchResult], SluiceError | None]:
    """Decode the unresolved records of the pipeline, or of one batch, and publish the result.

    `request`: the reason and the `accept` options. A reason that occurs in `sluice.quarantine`
    selects the batches with such records; any other text is only recorded. Return the results and
    the first failure; ([], None) if nothing is in quarantine.
    """
    with renewing_landed(ctx):
        return load_and_publish(ctx, land_quarantined(ctx, batch_id, request, ctx.lease))


def land_quarantined(
    ctx: Context,
    batch_id: str = "",
    request: Reprocess = NO_OPTIONS,
    lease: Lease | None = None,
    signature: str = "",
) -> list[str]:
    """Make batches of the files that hold unresolved records; return their manifests' keys.

    `lease`: taken for a caller that loads them at once, so that no other run takes them for
    abandoned. `signature`: kept in the ledger after the reason. A reprocess that an earlier run
    left unfinished is given up first, since its manifest has the files as they were read before the
    fix. Raises TerminalError naming a file that is gone, changed or denied; then no batch is made.
    """
    _give_up(ctx, reconcile(ctx))
    waiting = _for_reason(ctx, unresolved(ctx, batch_id), request.reason)
    taken = [quarantined_files_of(ctx, batch) for batch in waiting]
    request = replace(request, reason=f"{request.reason} {signature}".strip())
    manifests = [m for chunk in _chunks(ctx, taken) for m in _read_apart(ctx, chunk, request)]
    return [_record(ctx, manifest, lease) for manifest in manifests]


def _for_reason(ctx: Context, waiting: list[Unresolved], reason: str) -> list[Unresolved]:
    """Return the batches with a record in quarantine for the reason; all of them if there is none,
    since the reason is then the operator's own text."""
    chosen = [batch for batch in waiting if batch.waits_for(reason)]
    if waiting and reason and not chosen:
        ctx.say(f"reprocess: no record is in quarantine for {reason!r}; all that wait are taken")
    return chosen or waiting


def _give_up(ctx: Context, unfinished: list[str]) -> None:
    for key in unfinished:
        manifest = ctx.files.read_manifest(key)
        # The share of a published reprocess stays: nothing else can bring its table's rows.
        if manifest.reprocess is not None and not manifest.share_of:
            ctx.say(f"reprocess: batch {manifest.batch_id} was left unfinished and is given up")
            undo_batch(ctx, manifest.batch_id)


def quarantined_files_of(ctx: Context, batch: Unresolved) -> QuarantinedFiles:
    """Return a batch's files with quarantined records; raises TerminalError if its manifest does
    not name one of them."""
    name, wanted = ctx.pipeline.name, set(batch.files)
    manifest = ctx.files.manifest_of(name, batch.batch_id)
    files, generation = _find(ctx, manifest, wanted)
    if unknown := sorted(wanted.difference(files)):
        raise TerminalError(
            f"pipeline {name}: the manifest of batch {batch.batch_id} does not name {unknown}, "
            "where it has records in quarantine; reprocess the other batches one by one (--batch)"
        )
    return QuarantinedFiles(batch, tuple(files.values()), generation, manifest.tables)


def _find(
    ctx: Context, manifest: Manifest, wanted: Collection[str]
) -> tuple[dict[str, SourceFile], int]:
    """Find files in a batch, or in the batches whose transactions it completed; return them with
    the generation of the reprocess."""
    found: dict[str, SourceFile] = {}
    generation = 0
    for level, manifests in enumerate(_levels(ctx, manifest)):
        found = {f.key: f for m in manifests for f in m.files if f.key in wanted} | found
        earlier = (m.reprocess.generation for m in manifests if m.reprocess is not None)
        generation = level + max(earlier, default=0)
        if len(found) == len(wanted):
            break
    return found, generation


def _levels(ctx: Context, manifest: Manifest) -> Iterator[list[Manifest]]:
    """Yield the batch, then repeatedly those whose transactions the last ones completed."""
    manifests = [manifest]
    while manifests:
        yield manifests
        manifests = _completed_by(ctx, manifests)


def _completed_by(ctx: Context, manifests: list[Manifest]) -> list[Manifest]:
    """Return the manifests of the batches whose transactions these ones completed."""
    completed = repeated(ctx.ledger.batches.all())
    others = sorted({b for m in manifests for b in completed.get(m.batch_id, ())})
    return [ctx.files.manifest_of(ctx.pipeline.name, other) for other in others]


def _chunks(ctx: Context, taken: list[QuarantinedFiles]) -> Iterator[list[QuarantinedFiles]]:
    """Group batches of one epoch and for the same tables, as many as the limits allow; a batch
    is never split."""
    chunk: list[QuarantinedFiles] = []
    for one in taken:
        together = [*chunk, one]
        if chunk and (_too_much(ctx, together) or chunk[0].group_key != one.group_key):
            yield chunk
            together = [one]
        chunk = together
    if chunk:
        yield chunk


def _too_much(ctx: Context, together: list[QuarantinedFiles]) -> bool:
    """Whether these batches together exceed a limit of one batch."""
    files, size = sum(len(t.files) for t in together), sum(t.bytes for t in together)
    schemas = sum(len(s.encode()) for s in set[str]().union(*(t.schemas for t in together)))
    return (
        files > ctx.pipeline.max_files_per_batch
        or size > ctx.pipeline.max_bytes_per_batch
        or schemas > SCHEMA_BYTES_OF_A_BATCH
    )


def _read_apart(
    ctx: Context, chunk: list[QuarantinedFiles], request: Reprocess
) -> Iterator[Manifest]:
    """Yield manifests as of `reread_manifest`, each with as many batches as the limit on bytes
    allows.

    The limit is checked after inspection, which gives the size of staged files.
    """
    inspections = _inspections_of(ctx, chunk)
    part, sizes = list[QuarantinedFiles](), dict[str, int]()
    for one in chunk:
        own = {file.key: inspections[file.key].bytes_to_read for file in one.files}
        if part and sum((sizes | own).values()) > ctx.pipeline.max_bytes_per_batch:
            yield _manifest(ctx, part, inspections, request)
            part, sizes = [], {}
        part.append(one)
        sizes |= own
    yield _manifest(ctx, part, inspections, request)


def reread_manifest(ctx: Context, chunk: list[QuarantinedFiles]) -> Manifest:
    """Return the manifest that decodes these files again, each at its former place in the order.

    Raises TerminalError naming a file that is gone, changed or denied.
    """
    return _manifest(ctx, chunk, _inspections_of(ctx, chunk), NO_OPTIONS)


def _inspections_of(ctx: Context, chunk: list[QuarantinedFiles]) -> dict[str, Inspection]:
    """Inspect the files of some batches; return the inspections by key."""
    old: dict[str, SourceFile] = {}
    files = [file for taken in chunk for file in taken.files]
    changed = sorted({f.key for f in files if not _same(old.setdefault(f.key, f), f)})
    if changed:
        raise TerminalError(_missing(ctx, changed, _OTHER_BYTES))
    return {one.file.key: one for one in _inspect_unchanged(ctx, old)}


def _manifest(
    ctx: Context,
    chunk: list[QuarantinedFiles],
    inspected: Mapping[str, Inspection],
    request: Reprocess,
) -> Manifest:
    old = {file.key: file for taken in reversed(chunk) for file in reversed(taken.files)}
    inspections = [one for key, one in inspected.items() if key in old]
    generation = 1 + max(taken.generation for taken in chunk)
    files = tuple(_as_before(old[i.file.key], i.file, generation) for i in inspections)
    batches = tuple(sorted(taken.unresolved.batch_id for taken in chunk))
    records = sum(taken.unresolved.records for taken in chunk)
    again = replace(request, batches=batches, records=records, generation=generation)
    rejects = tuple(reject for i in inspections for reject in i.rejects)
    epoch, tables = chunk[0].group_key
    manifest = Manifest(
        ctx.pipeline.name, "", files, rejects, reprocess=again, tables=tables, epoch=epoch
    )
    return replace(manifest, batch_id=name_by_content(manifest))


def _inspect_unchanged(ctx: Context, old: dict[str, SourceFile]) -> list[Inspection]:
    """Inspect the files; raises TerminalError unless all are there with the same
    bytes as before."""
    store = open_landing(ctx)
    listed = {found.key: found for found in store.list(ctx.pipeline.landing.pattern)}
    gone = sorted(set(old) - set(listed))
    if gone:
        raise TerminalError(_missing(ctx, gone, "not there any more"))
    unreadable = UnreadableFiles()
    wanted = [listed[key] for key in sorted(old)]
    inspected = Inspecting(ctx, store, True, unreadable).all(wanted)
    if unreadable.errors:
        raise TerminalError(
            f"pipeline {ctx.pipeline.name}: files with quarantined records cannot be read:\n"
            f"{listed_errors(unreadable.errors)}\n"
            "Or reprocess the other batches one by one (--batch)"
        ).in_lines()
    files = [one.inspection.file for one in inspected]
    changed = [file.key for file in files if not _same(old[file.key], file)]
    if changed:
        raise TerminalError(_missing(ctx, changed, _OTHER_BYTES))
    return [one.inspection for one in inspected]


def _missing(ctx: Context, keys: list[str], what: str) -> str:
    return (
        f"pipeline {ctx.pipeline.name}: {keys} hold quarantined records and are {what} in "
        f"{ctx.pipeline.landing.url} (pattern {ctx.pipeline.landing.pattern}). Put the same bytes "
        "back there and try again, or reprocess the other batches one by one (--batch)"
    )


def _same(old: SourceFile, new: SourceFile) -> bool:
    if old.sha256:
        return old.sha256 == new.sha256
    return is_same_object(old, new)


def _as_before(old: SourceFile, new: SourceFile, generation: int) -> SourceFile:
    """Return the new inspection's file with its old hour and old place in the order of arrival,
    which older manifests may give another one."""
    first = old.arrival or new.arrival
    return replace(new, hour=old.hour, arrival=arrival_again(first, generation))


def _record(ctx: Context, manifest: Manifest, lease: Lease | None) -> str:
    again = manifest.reprocess
    key = record_landed(ctx, manifest, of_reprocess(again), lease)
    if again is not None:
        ctx.say(
            f"reprocess: batch {manifest.batch_id}, {counted(len(manifest.files), 'file')} with "
            f"{counted(again.records, 'quarantined record')} of {', '.join(again.batches)}"
        )
    return key
