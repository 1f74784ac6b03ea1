"""A shop of one or two tables whose batches go through the ledger, as a run's do."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta
from typing import Any

from sluice.ledger import states
from sluice.ledger.leases import Lease, this_holder
from sluice.operations import stages
from sluice.operations.maintenance import MaintenanceResult
from sluice.result import BatchResult
from spark_jobs.lake.tables import Lake
from spark_jobs.maintaining.agenda import maintain
from spark_jobs.maintaining.context import MaintenanceContext
from tests.spark.sandbox import NAMESPACE, Sandbox

LONG_AFTER = timedelta(days=40)


def event(op: str, table: str, lsn: int, **row: Any) -> str:
    """One change as Debezium writes it without schema; `__debezium…` stands for a lost value."""
    source = {
        "connector": "postgresql", "db": "shop", "schema": "public", "table": table,
        "lsn": lsn, "sequence": json.dumps([str(lsn), str(lsn)]), "ts_ms": 1_760_000_000_000 + lsn,
    }  # fmt: skip
    before, after = (row, None) if op == "d" else (None, row)
    return json.dumps({"before": before, "after": after, "source": source, "op": op})


def truncate(lsn: int) -> str:
    """A TRUNCATE of `orders`."""
    return json.dumps(json.loads(event("t", "orders", lsn)) | {"after": None})


class Shop(Sandbox):
    """A sandbox with a ledger, which has what was published when, as a rollback needs it."""

    def run(self, *events: Any) -> BatchResult:
        """Land the events as one file, load them and publish them, as the stages do."""
        number = f"{next(self._attempts):04d}"
        self.write(f"{number}.jsonl", events)
        ctx, manifest = self.context(), self.land()
        published = sorted(ctx.ledger.batches.published())
        self.published[:] = published
        result = self.stage_manifest(manifest)
        lease = Lease(this_holder(), 60)
        ctx.ledger.lease.acquire(manifest.batch_id, result.attempt, lease)
        ctx.files.write_result(result)
        ctx.ledger.batches.record(manifest.batch_id, states.LOADED, attempt=result.attempt)
        return stages.publish(ctx, ctx.files.manifest_key("p", manifest.batch_id))

    def maintain(
        self,
        after: timedelta = LONG_AFTER,
        dry_run: bool = False,
        proceed: Callable[[], bool] = lambda: True,
    ) -> MaintenanceResult:
        """Maintain the pipeline as if `after` had passed since."""
        return maintain(self.upkeep(after, dry_run), proceed)

    def upkeep(self, after: timedelta = LONG_AFTER, dry_run: bool = False) -> MaintenanceContext:
        """The context of each step of maintenance."""
        ctx = self.context()
        lake, pipeline = Lake(self.spark, ctx.catalog, "p"), ctx.pipeline
        now = datetime.now(UTC) + after
        return MaintenanceContext(self.spark, lake, ctx.ledger, ctx.files, pipeline, now, dry_run)

    def table(self, name: str, namespace: str = NAMESPACE) -> Any:
        """A table's metadata as it is now."""
        return self.catalog.load_table((namespace, name))

    def seen(self, table: str = "orders") -> list[tuple[Any, ...]]:
        """A target's rows without metadata, sorted."""
        return sorted(tuple(row.values()) for row in self.rows(table))


def steps(result: MaintenanceResult, table: str) -> set[str]:
    """What was done to one table."""
    return {step.step for step in result.steps if step.table == table}


def ids(table: Any) -> set[int]:
    """The snapshots that a table still has."""
    return {snapshot.snapshot_id for snapshot in table.metadata.snapshots}


def tags(table: Any) -> set[str]:
    """The batches whose tags a table still has."""
    return {name.removeprefix("batch-") for name in table.metadata.refs if name != "main"}


def orders(*rows: tuple[str, int, int, str]) -> Iterable[str]:
    """Changes of `orders`: operation, position, id, status."""
    for op, lsn, key, status in rows:
        yield event(op, "orders", lsn, id=key, status=status)
