"""What people and programs see of batches: Rich tables, or JSON."""

from __future__ import annotations

from dataclasses import asdict, fields
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from sluice.ledger import BatchRow
from sluice.maintenance import MaintenanceResult
from sluice.result import BatchResult, Counts, TableResult

_OUTCOMES = [f.name for f in fields(Counts)]


def batch_json(result: BatchResult) -> dict[str, Any]:
    """One batch for programs: counts and snapshots of every table."""
    return {
        "pipeline": result.pipeline,
        "batch_id": result.batch_id,
        "seconds": result.seconds,
        "unassigned": asdict(result.unassigned),
        "tables": [
            {
                "source": t.source,
                "table": t.target,
                "counts": asdict(t.counts),
                "snapshots": [
                    {
                        "table": f"{s.namespace}.{s.name}",
                        "before": _text(s.base_snapshot),
                        "after": _text(s.head_snapshot),
                    }
                    for s in t.staged
                ],
            }
            for t in result.tables
        ],
    }


def _text(snapshot: int | None) -> str | None:
    """Snapshot ids are beyond what JSON readers hold exactly."""
    return None if snapshot is None else str(snapshot)


def show_batch(console: Console, result: BatchResult) -> None:
    """One batch for people: a line a table, what happened to every record, and the snapshots."""
    table = Table(title=f"{result.pipeline}: batch {result.batch_id} ({result.seconds} s)")
    table.add_column("table", overflow="fold")
    for outcome in _OUTCOMES:
        table.add_column(outcome, justify="right")
    for t in result.tables:
        table.add_row(t.target, *_numbers(t.counts))
    if result.unassigned.read:
        table.add_row("(no table)", *_numbers(result.unassigned))
    console.print(table)
    for t in result.tables:
        console.print(f"{t.target}: {_moved(t)}", highlight=False, soft_wrap=True)


def _moved(result: TableResult) -> str:
    main = [s for s in result.staged if f"{s.namespace}.{s.name}" == result.target]
    if not main:
        return "unchanged, no new snapshot"
    return f"snapshot {main[0].base_snapshot or 'none'} → {main[0].head_snapshot}"


def _numbers(counts: Counts) -> list[str]:
    return [f"{getattr(counts, name):,}" for name in _OUTCOMES]


def status_json(rows: list[BatchRow]) -> list[dict[str, Any]]:
    """The ledger's batches for programs, newest first."""
    return [
        {
            "pipeline": r.pipeline,
            "batch_id": r.batch_id,
            "state": r.state,
            "attempt": r.attempt,
            "at": r.at.isoformat() if r.at else None,
            **{
                key: r.details.get(key)
                for key in ("read", "applied", "quarantined", "newest_source_ts", "error")
            },
        }
        for r in rows
    ]


def show_status(console: Console, rows: list[BatchRow], lag: str) -> None:
    """The last batches for people."""
    table = Table(title=f"last batches{lag}")
    for name in (
        "pipeline",
        "batch",
        "state",
        "at",
        "read",
        "applied",
        "quarantined",
        "newest source time",
    ):
        table.add_column(name, overflow="fold")
    for r in rows:
        d = r.details
        shown = [str(d.get(k, "")) for k in ("read", "applied", "quarantined", "newest_source_ts")]
        at = f"{r.at:%Y-%m-%d %H:%M:%S}" if r.at else ""
        table.add_row(r.pipeline, r.batch_id, r.state, at, *shown)
        if d.get("error"):
            table.add_row("", f"[red]{d['error']}[/red]")
    console.print(table)


def show_maintenance(console: Console, result: MaintenanceResult) -> None:
    """What maintenance did, a line a step, and what it left."""
    done = "would be done" if result.dry_run else f"done in {result.seconds} s"
    table = Table(title=f"{result.pipeline}: maintenance, {len(result.steps)} steps {done}")
    for name in ("table", "step", "what"):
        table.add_column(name, overflow="fold")
    for step in result.steps:
        table.add_row(escape(step.table), step.step, escape(step.detail))
    console.print(table)
    if result.left:
        told = f"time is up; left for the next run: {', '.join(result.left)}"
        console.print(escape(told), highlight=False, soft_wrap=True)
