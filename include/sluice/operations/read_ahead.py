"""Files that a run for single tables has read and that no batch has loaded for all tables.

If the epoch is raised meanwhile, the batch that loads them makes other events of their records.
"""

from __future__ import annotations

from functools import partial
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
    does not answer."""
    try:
        for line in read_ahead(open_context(project, pipeline, say, read_only=True)):
            say(f"raise-epoch: {line}")
    except EXPECTED as error:
        unknown = "it is unknown whether runs for single tables read files that are not loaded yet"
        say(f"raise-epoch: {unknown}: {as_sluice_error(error)}")


def read_ahead(ctx: Context) -> list[str]:
    """Return, for each published batch that read such files at an older epoch, what comes of it and
    what to do."""
    loaded = {key for key, row in ctx.ledger.files.known().items() if row.state == FILE_LOADED}
    found = []
    for row in filter(partial(_is_of_older_epoch, ctx), ctx.ledger.batches.all()):
        files = ctx.files.manifest_of(ctx.pipeline.name, row.batch_id).files
        ahead = sorted({file.key for file in files} - loaded)
        found += [_message(row, ahead, ctx.pipeline.epoch)] if ahead else []
    return found


def _is_of_older_epoch(ctx: Context, row: BatchRow) -> bool:
    """Whether it is a published batch for single tables, of an epoch whose rows stay.

    A share is none: its batch has claimed the files.
    """
    known, same_load = row.details, epochs_of_same_load(ctx, None)
    if row.state != PUBLISHED or TABLES not in known or SHARE_OF in known:
        return False
    epoch = known.get(EPOCH, 0)
    return epoch < ctx.pipeline.epoch and (same_load is None or epoch in same_load)


def _message(row: BatchRow, ahead: list[str], epoch: int) -> str:
    tables = ", ".join(row.details[TABLES])
    return (
        f"batch {row.batch_id} read {counted(len(ahead), 'file')}, such as {shown(ahead[0])}, for "
        f"{tables} alone, and no batch has loaded them for all tables: if the next run does, at "
        f"epoch {epoch}, a table without a key, and a table of events, has their rows twice; keep "
        f"them out, or before that run: sluice rollback {row.pipeline} --batch {row.batch_id}"
    )
