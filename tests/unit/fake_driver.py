"""A driver that is simulated, or has no Spark, with real landing, ledger and operations."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Never

import pyarrow as pa
import pytest

from sluice.config.project import Project
from sluice.ledger.appends import LedgerTables
from sluice.ledger.leases import Lease, this_holder
from sluice.ledger.states import LOADED
from sluice.ledger.tables import QUARANTINE
from sluice.manifest import Manifest
from sluice.operations import stages
from sluice.operations.context import Context
from sluice.result import BatchResult, Counts, LeftOut
from spark_jobs.driver import Driver

ONE = Counts(read=1, applied=1)


def driver_of(ctx: Context, manifest: Manifest) -> Driver:
    """A driver, to test what it does before, after and beside its work with Spark."""

    def session() -> Never:
        raise AssertionError("no Spark here")

    return Driver(ctx.project, manifest, session)


def play(ctx: Context, answer: Callable[[Manifest], tuple[Counts, tuple[LeftOut, ...]]]) -> Any:
    """A driver that loads nothing and returns the result that a real one would."""

    def submit(project: Project, entry: Path, *arguments: str, small: bool = False) -> str:
        manifest = ctx.files.read_manifest(arguments[arguments.index("--manifest") + 1])
        counts, left = answer(manifest)
        attempt = f"a{datetime.now(UTC).timestamp()}"
        result = BatchResult("shop", manifest.batch_id, attempt, (), counts, left_out=left)
        ctx.ledger.lease.acquire(manifest.batch_id, attempt, Lease(this_holder(), 60))
        ctx.files.write_result(result)
        ctx.ledger.batches.record(manifest.batch_id, LOADED, attempt=attempt)
        return result.to_json()

    return submit


def quarantine(ctx: Context, batch_id: str, file: str, reason: str = "does_not_fit") -> None:
    table = LedgerTables(ctx.catalog).open(QUARANTINE)
    row = {
        "pipeline": "shop", "batch_id": batch_id, "file": file, "record": 1, "raw": b"{}",
        "reason": reason, "source_table": "d.s.notes", "at": datetime.now(UTC),
    }  # fmt: skip
    schema = table.schema().as_arrow()
    table.append(pa.Table.from_pylist([{f.name: row.get(f.name) for f in schema}], schema=schema))


def quarantined(
    ctx: Context,
    monkeypatch: pytest.MonkeyPatch,
    file: str = "a.jsonl",
    reason: str = "does_not_fit",
) -> str:
    """Publish a batch of one file whose only record is in quarantine; returns its id."""
    (ctx.project.root / "landing" / file).write_text(f'{{"x":"{file}"}}\n')
    bad = Counts(read=1, quarantined=1)
    monkeypatch.setattr("sluice.operations.load.submit", play(ctx, lambda _: (bad, ())))
    (first,), _ = stages.run(ctx)
    quarantine(ctx, first.batch_id, file, reason)
    return first.batch_id
