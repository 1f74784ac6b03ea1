"""Files that a run for single tables has read and that no batch has loaded for all tables.

If the epoch is raised meanwhile, the batch that loads them makes other events of their records.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from sluice.catalog.failures import EXPECTED, as_sluice_error
from sluice.counting import counted
from sluice.escaping import shown
from sluice.ledger.details import EPOCH, SHARE_OF, TABLES
from sluice.ledger.rows import BatchRow
from sluice.ledger.states import FILE_LOADED, PUBLISHED
from sluice.operations.context import Context, Say, open_context
from sluice.operations.loaded_files import epochs_of_same_load


def warn_of_read_ahead(project: Path, pipeline: str, say: Say) -> None:
    """Say what `read_ahead` returns, once the epoch is raised; that it is unknown, if the catalog
    does not answer or the manifest of such a batch cannot be read."""
    try:
        for line in read_ahead(open_context(project, pipeline, say, read_only=True)):
            say(f"raise-epoch: {line}")
    except EXPECTED as error:
        unknown = "it is unknown whether runs for single tables read files that are not loaded yet"
        say(f"raise-epoch: {unknown}: {as_sluice_error(error)}")


def read_ahead(ctx: Context) -> list[str]:
    """Return, for each published batch that read such files at an older epoch, what comes of it and
    what to do."""
    read = {row: _read_by(ctx, row) for row in _of_older_epochs(ctx)}
    not_loaded = frozenset[str]().union(*read.values()) - _loaded(ctx, read.values())
    return [
        _message(row, sorted(ahead), ctx.pipeline.epoch)
        for row, keys in read.items()
        if (ahead := keys & not_loaded)
    ]


def _of_older_epochs(ctx: Context) -> list[BatchRow]:
    """Return the published batches for single tables, of epochs whose rows stay.

    A share is none: its batch has claimed the files.
    """
    same_load = epochs_of_same_load(ctx, None)

    def stays(epoch: int) -> bool:
        return epoch < ctx.pipeline.epoch and (same_load is None or epoch in same_load)

    return [
        row
        for row in ctx.ledger.batches.all()
        if row.state == PUBLISHED and TABLES in row.details and SHARE_OF not in row.details
        if stays(row.details.get(EPOCH, 0))
    ]


def _read_by(ctx: Context, row: BatchRow) -> frozenset[str]:
    return frozenset(file.key for file in ctx.files.read_manifest(row.manifest).files)


def _loaded(ctx: Context, read: Iterable[frozenset[str]]) -> set[str]:
    """Return those of the objects that a batch has loaded, itself or another with its bytes."""
    rows = ctx.ledger.files.of_keys(set().union(*read))
    published = ctx.ledger.batches.published()
    copies = ctx.ledger.files.copies().items()
    return {row.object_key for row in rows if row.state == FILE_LOADED} | {
        key for key, row in copies if row.batch_id in published
    }


def _message(row: BatchRow, ahead: list[str], epoch: int) -> str:
    tables = ", ".join(row.details[TABLES])
    return (
        f"batch {row.batch_id} read {counted(len(ahead), 'file')}, such as {shown(ahead[0])}, for "
        f"{tables} alone, and no batch has loaded them for all tables: if the next run does, at "
        f"epoch {epoch}, a table without a key, and a table of events, has their rows twice; keep "
        f"them out, or before that run: sluice rollback {row.pipeline} --batch {row.batch_id}"
    )
