"""Reports on batches: Rich tables for people, JSON for programs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, fields
from typing import Any, Final

from rich.console import Console
from rich.table import Table

from sluice.counting import counted
from sluice.ledger.quarantine import query_of
from sluice.names import changelog_namespace, changelog_table
from sluice.operations.maintenance import MaintenanceResult
from sluice.operations.preview import Preview, TableForecast
from sluice.output.terminal import for_terminal, print_line
from sluice.result import BatchResult, Counts, Nulled, TableResult, moved_main

MOST_COLUMNS: Final = 50
_OUTCOMES: Final = [f.name for f in fields(Counts)]


def batch_json(result: BatchResult) -> dict[str, Any]:
    """Return one batch for programs: counts and snapshots of every table."""
    return {
        "pipeline": result.pipeline,
        "batch_id": result.batch_id,
        "seconds": result.seconds,
        "unassigned": asdict(result.unassigned),
        "tables": [_table_json(table) for table in result.tables],
        "left_out": [asdict(left) for left in result.left_out],
    }


def _table_json(table: TableResult) -> dict[str, Any]:
    return {
        "source": table.source,
        "table": table.target,
        "counts": asdict(table.counts),
        "conflicts": asdict(table.conflicts),
        "nulled": _by_column(table.nulled),
        "dropped": list(table.dropped),
        "snapshots": [
            {
                "table": staged.full_name,
                "before": id_text(staged.base_snapshot),
                "after": id_text(staged.head_snapshot),
            }
            for staged in table.staged
        ],
    }


def id_text(snapshot: int | None) -> str | None:
    """Return a snapshot id as text: it exceeds what JSON readers hold exactly."""
    return None if snapshot is None else str(snapshot)


def show_batch(console: Console, result: BatchResult) -> None:
    """Show one batch: a line per table with the outcomes of its records, and the snapshots."""
    table = Table(title=f"{result.pipeline}: batch {result.batch_id} ({result.seconds} s)")
    table.add_column("table", overflow="fold")
    for outcome in _OUTCOMES:
        table.add_column(outcome, justify="right")
    for t in result.tables:
        table.add_row(for_terminal(t.target), *_numbers(t.counts))
    if result.unassigned.read:
        table.add_row("(no table)", *_numbers(result.unassigned))
    console.print(table)
    for t in result.tables:
        print_line(console, f"{t.target}: {_moved(t)}")
        for line in remarks(t):
            print_line(console, line)
    if bad := result.total.quarantined:
        query = query_of(result.batch_id)
        print_line(console, f'{bad:,} quarantined; look: sluice sql "{query}"')


def remarks(result: TableResult) -> Iterator[str]:
    """Yield what needs attention in a table after a batch."""
    if result.conflicts.records:
        yield _conflict_note(result)
    if result.nulled:
        yield f"{result.target}: values that did not fit are NULL: {_listed(result.nulled)}"
    if result.dropped:
        yield f"{result.target}: columns dropped, as at the source: {', '.join(result.dropped)}"


def _conflict_note(result: TableResult) -> str:
    """Return the message about records that conflict at one position, and where to look."""
    namespace, _, target = result.target.rpartition(".")
    changes = f"{changelog_namespace(namespace)}.{changelog_table(target)}"
    at = (result.conflicts.at or "").replace("'", "''")
    query = f"SELECT * FROM {changes} WHERE _position = '{at}'"
    return (
        f"{result.target}: records that say something else than another of their key at the same "
        f"position: {result.conflicts.records:,}; the greater content hash decided; "
        f'look: sluice sql "{query}"'
    )


def _listed(nulled: Iterable[Nulled]) -> str:
    return ", ".join(f"{n.values:,} of {n.column}" for n in nulled)


def _moved(result: TableResult) -> str:
    main = [s for s in result.staged if s.full_name == result.target]
    if not main:
        return "unchanged, no new snapshot"
    return f"snapshot {moved_main(main[0].base_snapshot, main[0].head_snapshot)}"


def _numbers(counts: Counts) -> list[str]:
    return [f"{getattr(counts, name):,}" for name in _OUTCOMES]


def preview_json(preview: Preview) -> dict[str, Any]:
    """Return what a run would do, for programs."""
    raw_preview = asdict(preview)
    for raw, table in zip(raw_preview["forecast"]["tables"], preview.forecast.tables, strict=True):
        raw["nulled"] = _by_column(table.nulled)
    return raw_preview


def _by_column(nulled: Iterable[Nulled]) -> dict[str, int]:
    return {n.column: n.values for n in nulled}


def show_preview(console: Console, preview: Preview) -> None:
    """Show what a run would do: files, one line per table, changes of schema."""
    if preview.unfinished:
        listed = ", ".join(preview.unfinished)
        print_line(console, f"would first load again, and is not looked into here: {listed}")
    print_line(
        console,
        f"{preview.pipeline}: {counted(len(preview.files), 'file')}, {preview.bytes:,} bytes, "
        f"{counted(preview.batches, 'batch')}; repeated files: {len(preview.repeated)}",
    )
    for key in preview.changed:
        print_line(console, f"has changed since it was loaded, and would be too: {key}")
    for key, why in preview.denied.items():
        print_line(console, f"cannot be read, and would be left out: {key}: {why}")
    if preview.files:
        console.print(_preview_table(preview))
    for table in preview.forecast.tables:
        for line in _schema_lines(table):
            print_line(console, f"{table.target}: {line}")


def _preview_table(preview: Preview) -> Table:
    table = Table(title="would become")
    table.add_column("table", overflow="fold")
    for name in (*_OUTCOMES, "files hit", "bytes hit"):
        table.add_column(name, justify="right")
    for t in preview.forecast.tables:
        hit = ["" if n is None else f"{n:,}" for n in (t.hit_files, t.hit_bytes)]
        table.add_row(for_terminal(t.target), *_numbers(t.counts), *hit)
    if preview.forecast.unassigned.read:
        table.add_row("(no table)", *_numbers(preview.forecast.unassigned))
    return table


def _schema_lines(table: TableForecast) -> list[str]:
    if table.created:
        lines = [f"would be made, with the key {', '.join(table.key) or '(none)'}"]
        lines.append(f"its columns would be {_bounded(table.added)}")
    else:
        lines = [f"column {column} would be added" for column in table.added]
    lines += [f"column {column} would be widened" for column in table.widened]
    lines += [f"column {columns} would be renamed" for columns in table.renamed]
    lines += [f"column {column} would be dropped" for column in table.dropped]
    if table.nulled:
        lines.append(f"values that do not fit would be NULL: {_listed(table.nulled)}")
    if table.hit_files:
        how = "rewritten" if table.write_mode == "copy-on-write" else "kept, with deletes beside"
        lines.append(f"{counted(table.hit_files, 'data file')} would be {how}")
    return lines


def _bounded(columns: Sequence[str]) -> str:
    more = len(columns) - MOST_COLUMNS
    return ", ".join(columns[:MOST_COLUMNS]) + (f" and {more} more (--json)" if more > 0 else "")


def show_maintenance(console: Console, result: MaintenanceResult) -> None:
    """Show what maintenance did, one line per step, and what it left."""
    if not result.steps and not result.left:
        print_line(console, f"{result.pipeline}: nothing to maintain")
        return
    done = "would be done" if result.dry_run else f"done in {result.seconds} s"
    steps = counted(len(result.steps), "step")
    table = Table(title=f"{result.pipeline}: maintenance, {steps} {done}")
    for name in ("table", "step", "what"):
        table.add_column(name, overflow="fold")
    for step in result.steps:
        table.add_row(for_terminal(step.table), step.step, for_terminal(step.detail))
    console.print(table)
    if result.left:
        print_line(console, f"time is up; left for the next run: {', '.join(result.left)}")
