"""How what an undone batch brought comes back if it claimed no files, which could be released."""

from __future__ import annotations

from collections.abc import Container, Iterable
from shlex import quote

from sluice.counting import are
from sluice.ledger.details import REASON, REBUILT, REPROCESSED, SHARE_OF, TABLES
from sluice.ledger.rows import BatchRow
from sluice.ledger.states import PUBLISHED, ROLLED_BACK
from sluice.operations import held_files
from sluice.operations.context import Context
from sluice.operations.quarantined import resolutions
from sluice.operations.undone_shares import in_words, is_held_share


def comes_back(undone: BatchRow, batches: Iterable[BatchRow]) -> str:
    """Return the command that brings back what an undone batch brought; "" if that is the release
    of its files, or if nothing has to come back. `batches`: all of the pipeline."""
    if undone.state != ROLLED_BACK:
        return ""
    known, rows = undone.details, list(batches)
    if SHARE_OF in known:
        origin = next((row for row in rows if row.batch_id == known[SHARE_OF]), None)
        return in_words(undone) if is_held_share(undone, origin) else ""
    if REPROCESSED in known and REASON in known:
        return _reprocess_again(undone, rows)
    if _done_again(undone, rows):
        return ""
    if TABLES in known:
        chosen = " ".join(f"--table {quote(table)}" for table in known[TABLES])
        return (
            f"it claimed no files; what it read for {', '.join(known[TABLES])} comes again with: "
            f"sluice run {undone.pipeline} {chosen}"
        )
    return _rebuild_again(undone) if REBUILT in known else ""


def _done_again(undone: BatchRow, rows: list[BatchRow]) -> bool:
    """Whether a run since was asked for the same tables or targets."""
    asked = [undone.details.get(key) for key in (TABLES, REBUILT)]
    since = [row.details for row in rows if row.state == PUBLISHED and row.seq > undone.seq]
    return any(
        SHARE_OF not in details and [details.get(key) for key in (TABLES, REBUILT)] == asked
        for details in since
    )


def to_have_back(ctx: Context, undone: Iterable[str], going: Container[str] = ()) -> str:
    """Return how what these batches brought comes back; of those that claimed files see
    `held_files.to_have_back`."""
    rows, wanted = ctx.ledger.batches.all(), set(undone)
    told = {
        row.batch_id: how
        for row in rows
        if row.batch_id in wanted and (how := comes_back(row, rows))
    }
    others = wanted - told.keys()
    of_files = [held_files.to_have_back(ctx, others, going)] if others else []
    return "; ".join([*told.values(), *of_files])


def _reprocess_again(undone: BatchRow, rows: list[BatchRow]) -> str:
    resolved = resolutions(rows)
    published = {row.batch_id for row in rows if row.state == PUBLISHED}
    wait = [b for b in undone.details[REPROCESSED] if b in published and b not in resolved]
    if not wait:
        return ""
    records = f"the quarantined records of batch {', '.join(wait)} wait again"
    return f"{records}: sluice reprocess {undone.pipeline}"


def _rebuild_again(undone: BatchRow) -> str:
    targets = undone.details[REBUILT]
    rebuild = f"sluice rollback {undone.pipeline} --rebuild --table"
    commands = ", ".join(f"{rebuild} {quote(target)}" for target in targets)
    return f"{', '.join(targets)} {are(len(targets))} as before: {commands}"
