"""`sluice status`: the state of a pipeline's batches, for people and for programs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from textwrap import indent
from typing import Any, Final

from rich.console import Console
from rich.table import Table

from sluice.counting import are, counted
from sluice.escaping import LINES
from sluice.ledger import details
from sluice.ledger.ledger import PipelineLedger
from sluice.ledger.rows import BatchRow
from sluice.ledger.states import FAILED, FILE_HELD, FILE_RELEASED, FINISHED, ROLLED_BACK
from sluice.operations.quarantined import resolutions, unresolved_records
from sluice.operations.unclaimed import comes_back
from sluice.output.terminal import for_terminal, print_line

_ANY_WIDTH: Final = 10_000
_NEWEST: Final = "newest source time"
_COUNTED: Final = (details.READ, details.APPLIED, details.QUARANTINED)
_OF_DETAILS: Final = (*_COUNTED, details.NEWEST_SOURCE_TS, details.ERROR, details.REASON)
_LISTED: Final = (details.REPROCESSED, details.UNDONE, details.REBUILT)


@dataclass(frozen=True)
class BatchStatus:
    """A batch, and what of it waits for an operator.

    `unresolved`: number of its records in quarantine that no reprocess resolved. `resolved_by`: the
    batch that resolved them. `held`: number of its files that wait for release. `released`: number
    of those that were released and that no batch has claimed since. `comes_back`: how what it
    brought comes back, if it is undone and claimed no files.
    """

    row: BatchRow
    unresolved: int = 0
    resolved_by: str | None = None
    held: int = 0
    released: int = 0
    comes_back: str = ""

    @property
    def held_share(self) -> bool:
        """Whether the batch is a share that waits for its release."""
        return bool(self.comes_back) and details.SHARE_OF in self.row.details

    @property
    def waits(self) -> bool:
        """Whether the batch is unfinished, has unresolved records or held files, or is a share
        that is held."""
        held = self.held > 0 or self.held_share
        return self.row.state not in FINISHED or self.unresolved > 0 or held


def batch_statuses(ledger: PipelineLedger) -> list[BatchStatus]:
    """Return the status of each of a pipeline's batches, in the order of `with_claims`."""
    rows = ledger.with_claims()
    undone = any(row.state == ROLLED_BACK for row in rows)
    files = Counter((f.batch_id, f.state) for f in ledger.files.undone()) if undone else Counter()
    resolved = resolutions(rows)
    return [
        BatchStatus(
            row,
            unresolved_records(row, resolved),
            resolved.get(row.batch_id),
            files[row.batch_id, FILE_HELD],
            files[row.batch_id, FILE_RELEASED],
            comes_back(row, rows),
        )
        for row in rows
    ]


def last_and_waiting(statuses: Sequence[BatchStatus], limit: int) -> list[BatchStatus]:
    """Return the first `limit` batches, and all others that wait for an operator."""
    return [*statuses[:limit], *(status for status in statuses[limit:] if status.waits)]


def status_json(statuses: Iterable[BatchStatus]) -> list[dict[str, Any]]:
    """Return batches for programs, in the given order."""
    return [
        {
            "pipeline": status.row.pipeline,
            "batch_id": status.row.batch_id,
            "state": status.row.state,
            "attempt": status.row.attempt,
            "holder": status.row.holder or None,
            "at": status.row.at.isoformat() if status.row.at else None,
            **{key: status.row.details.get(key) for key in _OF_DETAILS},
            details.HALF_PUBLISHED: status.row.details.get(details.HALF_PUBLISHED, False),
            "unresolved": status.unresolved,
            "resolved_by": status.resolved_by,
            "held_files": status.held,
            "released_files": status.released,
            "held_share": status.held_share,
            "comes_back": status.comes_back or None,
            **{key: status.row.details.get(key, []) for key in _LISTED},
        }
        for status in statuses
    ]


def show_status(
    console: Console, statuses: Sequence[BatchStatus], without: Sequence[str] = ()
) -> None:
    """Show batches: one line each if there is room, else two; then errors and ways back.

    `without`: the pipelines that have no batch at all.
    """
    if statuses or not without:
        _show_batches(console, statuses)
    for name in without:
        print_line(console, f"{name}: no batch yet; to load what landed: sluice run {name}")


def _show_batches(console: Console, statuses: Sequence[BatchStatus]) -> None:
    table = _table(statuses)
    anywhere = console.options.update(max_width=_ANY_WIDTH)
    if console.measure(table, options=anywhere).maximum <= console.width:
        console.print(table)
    else:
        _show_in_blocks(console, statuses)
    for status in statuses:
        _show_remarks(console, status)
    for line in _next_commands(statuses):
        print_line(console, line)


def _next_commands(statuses: Sequence[BatchStatus]) -> Iterator[str]:
    """Yield, for each pipeline, what an operator does about failed batches and open records."""
    for name in dict.fromkeys(status.row.pipeline for status in statuses):
        own = [status for status in statuses if status.row.pipeline == name]
        if failed := sum(status.row.state == FAILED for status in own):
            batches = counted(failed, "failed batch")
            yield f"{name}: {batches}; once the cause is gone: sluice run {name}"
        if unresolved := sum(status.unresolved for status in own):
            records = f"{counted(unresolved, 'record')} {are(unresolved)}"
            yield f"{name}: {records} unresolved; after a fix: sluice reprocess {name}"


def _show_remarks(console: Console, status: BatchStatus) -> None:
    row = status.row
    error = row.details.get(details.ERROR)
    undone = row.state == ROLLED_BACK
    if undone:
        print_line(console, _undone(status))
    elif error:
        print_line(console, f"{row.batch_id} is {row.state}:")
    if error and undone:
        print_line(console, "  before that it had failed:")
    if error:
        style = "dim" if undone else "red"
        # Its lines are indented, unlike those of Sluice; and whole, so that the commands in them
        # can be pasted.
        text = indent(for_terminal(error, LINES), "  ", lambda _: True)
        console.print(text, style=style, highlight=False, soft_wrap=True)


def _undone(status: BatchStatus) -> str:
    row = status.row
    parts = [f"{row.batch_id} is undone"]
    if status.held:
        command = f"sluice release {row.pipeline} --batch {row.batch_id}"
        parts.append(f"{counted(status.held, 'file')} held: {command}")
    if status.released:
        those = "the next run takes those that are still there"
        parts.append(f"{counted(status.released, 'file')} released: {those}")
    if status.comes_back:
        parts.append(status.comes_back)
    return "; ".join(parts)


def _table(statuses: Iterable[BatchStatus]) -> Table:
    table = Table(title="batches")
    for name in ("pipeline", "batch", "state", "at", *_COUNTED, "unresolved", _NEWEST):
        table.add_column(name, no_wrap=True)
    for status in statuses:
        row = status.row
        counts = (str(n) for n in _counts(status).values())
        newest = for_terminal(_newest(row))
        table.add_row(row.pipeline, row.batch_id, row.state, _at(row), *counts, newest)
    return table


def _show_in_blocks(console: Console, statuses: Iterable[BatchStatus]) -> None:
    for status in statuses:
        row = status.row
        print_line(console, " ".join((row.pipeline, row.batch_id, row.state, _at(row))))
        facts = [f"{name} {n}" for name, n in _counts(status).items() if n != ""]
        facts += [f"{_NEWEST} {newest}"] if (newest := _newest(row)) else []
        print_line(console, f"  {', '.join(facts)}")


def _counts(status: BatchStatus) -> dict[str, Any]:
    counts = {key: status.row.details.get(key, "") for key in _COUNTED}
    return {**counts, "unresolved": status.unresolved}


def _at(row: BatchRow) -> str:
    return f"{row.at:%Y-%m-%d %H:%M:%S}" if row.at else ""


def _newest(row: BatchRow) -> str:
    """Return a time without fractions of a second, which only programs need."""
    return str(row.details.get(details.NEWEST_SOURCE_TS) or "").partition(".")[0]
