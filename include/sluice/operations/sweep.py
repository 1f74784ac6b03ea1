"""Remove files beside the tables that no batch needs: staged files, scratch and manifests."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime

from sluice.catalog.failures import EXPECTED, error_text
from sluice.errors import BatchFileDamagedError, SluiceError, TerminalError
from sluice.globs import is_hidden
from sluice.ledger.ledger import PipelineLedger
from sluice.ledger.states import PUBLISHING
from sluice.manifest import Manifest, SourceFile
from sluice.objects.batch_files import SCRATCH, BatchFiles
from sluice.objects.store import StoredObject
from sluice.operations.context import Say


@dataclass(frozen=True)
class _Needs:
    """The batches that the ledger knows, the unfinished ones, and the staged files they read."""

    batches: frozenset[str]
    unfinished: frozenset[str]
    staged: frozenset[str]


def sweep(files: BatchFiles, ledger: PipelineLedger, before: datetime, *, dry_run: bool) -> int:
    """Remove files that no batch needs and that are older than `before`; return how many.

    Newer files may belong to a landing under way: they are there before the ledger knows them.
    """
    pipeline = ledger.pipeline
    doomed = sorted(_doomed(files, pipeline, _needs(files, ledger), before))
    if not dry_run:
        files.store.delete(doomed)
        files.store.delete_unfinished(f"{pipeline}/", before)
    return len(doomed)


def clean_up(files: BatchFiles, ledger: PipelineLedger, manifest: Manifest, say: Say) -> None:
    """Remove a finished batch's staged and scratch files."""
    batch_id = manifest.batch_id
    with defer_to_maintenance(f"batch {batch_id}", say):
        delete_staged(files, ledger, manifest.files, but=batch_id)
        files.delete_scratch(manifest.pipeline, batch_id)


@contextmanager
def defer_to_maintenance(subject: str, say: Say) -> Iterator[None]:
    """Report, instead of raising, that files beside the tables cannot be removed.

    The work that they were for is done all the same, and `sweep` removes them later.
    """
    try:
        yield
    except EXPECTED as error:
        why = error if isinstance(error, SluiceError) else error_text(error)
        say(f"{subject}: files beside the tables are left to maintenance: {why}")


def delete_staged(
    files: BatchFiles, ledger: PipelineLedger, landed: Iterable[SourceFile], but: str = ""
) -> None:
    """Remove the staged files of these, unless an unfinished batch other than `but` may read
    them.

    A driver that misses one makes it again (`spark_jobs.decoding.staged_files`).
    """
    pipeline = ledger.pipeline
    staged = {files.staged_key(pipeline, file): file.key for file in landed if file.staged}
    if not staged:
        return
    # Shares and batches of a reprocess have claimed nothing, and are asked.
    others = ledger.files.batches_without(staged.values())
    # By the batch's name: one that is claimed and not recorded yet has a manifest already.
    names = [
        row.batch_id
        for row in ledger.unfinished()
        if row.batch_id not in {but, *others} and row.state != PUBLISHING
    ]
    needed = {key for name in names for key in _staged(files, pipeline, name)}
    files.store.delete(sorted(staged.keys() - needed))


def _needs(files: BatchFiles, ledger: PipelineLedger) -> _Needs:
    # A claim that was never recorded as a batch is among the unfinished.
    unfinished = frozenset(row.batch_id for row in ledger.unfinished())
    recorded = unfinished | {row.batch_id for row in ledger.batches.all()}
    staged = (key for batch_id in unfinished for key in _staged(files, ledger.pipeline, batch_id))
    return _Needs(recorded, unfinished, frozenset(staged))


def _staged(files: BatchFiles, pipeline: str, batch_id: str) -> list[str]:
    try:
        manifest = files.manifest_of(pipeline, batch_id)
    except BatchFileDamagedError:
        raise  # it may name staged files
    except TerminalError:  # its landing failed before it had one
        return []
    return [files.staged_key(pipeline, file) for file in manifest.files if file.staged]


def _doomed(files: BatchFiles, pipeline: str, needs: _Needs, before: datetime) -> Iterator[str]:
    staging = files.staging_prefix(pipeline)
    for found in files.store.list(f"{pipeline}/**/*", hidden=True):
        needed = found.key in needs.staged if found.key.startswith(staging) else _kept(found, needs)
        if found.modified < before and not needed:
            yield found.key


def _kept(found: StoredObject, needs: _Needs) -> bool:
    """Whether the file must stay: manifests and results as long as the ledger has the batch,
    scratch files until the batch is finished; hidden files elsewhere are not the batches'."""
    batch_id, _, name = found.key.partition("/")[2].partition("/")
    if name.startswith(SCRATCH):  # Spark hides what it has not finished
        return batch_id in needs.unfinished
    return batch_id in needs.batches or is_hidden(found.key)
