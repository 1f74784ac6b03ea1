"""The steps of maintenance that each table of a pipeline gets, and their order.

The table that this pipeline maintained least recently comes first, the ledger's tables included. So
the next run continues one that stopped, and no table waits for ever.
"""

from __future__ import annotations

import time
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

from sluice import names
from sluice.catalog.client import UNREADABLE
from sluice.catalog.listing import pipeline_tables
from sluice.errors import TerminalError, TransientError
from sluice.faults import Point, reach
from sluice.ledger import tables as ledger_tables
from sluice.operations.maintenance import MaintenanceResult, Step
from spark_jobs.decoding import quarantine, transactions
from spark_jobs.driver_messages import emit
from spark_jobs.failures import typed
from spark_jobs.lake.table_id import TableId
from spark_jobs.maintaining import steps
from spark_jobs.maintaining.context import MaintenanceContext
from spark_jobs.maintaining.retention import expire, expire_transaction_ends

StepOf = Callable[[MaintenanceContext, TableId], str]

_LEDGER: Final = (ledger_tables.FILES, ledger_tables.BATCHES, ledger_tables.PUBLICATIONS)
# Branches and tags first: they keep snapshots from expiring. Rewritten files expire later.
_TABLE: Final[dict[str, StepOf]] = {
    "branches": steps.drop_dead_branches,
    "columns": steps.drop_wider_columns,
    "tags": steps.drop_stale_tags,
    "data files": steps.rewrite_data,
    "delete files": steps.rewrite_deletes,
    "manifests": steps.rewrite_manifests,
    "snapshots": steps.expire_snapshots,
    "orphans": steps.remove_orphans,
}
_LEDGER_TABLE: Final[dict[str, StepOf]] = {
    "compaction": steps.compact,
    "orphans": steps.remove_orphans,
}
_LEFTOVERS: Final[dict[str, StepOf]] = {"leftovers": steps.remove_leftovers}


def maintain(ctx: MaintenanceContext, proceed: Callable[[], bool]) -> MaintenanceResult:
    """Maintain every table of the pipeline, and the ledger.

    `proceed` is called before each step. If it returns False, the rest is left to the next run; it
    may raise LeaseHeldError. Errors of tables are raised together, after all tables.
    """
    started = time.monotonic()
    progress = _Progress(ctx, proceed)
    for table, work in _agenda(ctx):
        progress.take(table, work)
    progress.refuse_failed()
    seconds = round(time.monotonic() - started, 2)
    return MaintenanceResult(
        ctx.pipeline.name, ctx.dry_run, tuple(progress.done), tuple(progress.left), seconds
    )


@dataclass
class _Progress:
    """The progress of one maintenance: steps done, tables left to the next run, errors."""

    ctx: MaintenanceContext
    proceed: Callable[[], bool]
    done: list[Step] = field(default_factory=list)
    left: list[str] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)
    passing: bool = True
    """Whether every error so far may be tried again."""

    def take(self, table: TableId, work: Mapping[str, StepOf]) -> None:
        """Do all steps of a table, unless time is up; if one fails, other tables are
        still maintained."""
        for kind, step in work.items():
            if self.left or not self.proceed():
                self.left.append(table.full_name)
                return
            if not self._succeeds(table, kind, step):
                break
        self._succeeds(table, "mark", steps.mark)

    def _succeeds(self, table: TableId, kind: str, step: StepOf) -> bool:
        try:
            self._step(table, kind, step)
        except Exception as error:
            self._record_failure(f"{table.full_name}: {kind}", error)
            return False
        return True

    def _step(self, table: TableId, kind: str, step: StepOf) -> None:
        if done := step(self.ctx, table):
            reach(Point.MAINTAIN_STEP)
            self.done.append(Step(table.full_name, kind, done))
            emit(f"maintain: {table.full_name}: {kind}: {done}")

    def _record_failure(self, what: str, error: Exception) -> None:
        problem = typed(error)
        if problem is not error:
            traceback.print_exception(error)
        self.failed.append(f"{what}: {problem}")
        self.passing &= isinstance(problem, TransientError)
        emit(f"maintain: {self.failed[-1]}")

    def refuse_failed(self) -> None:
        """Raise the collected errors: TransientError if a later try may mend all of them, else
        TerminalError."""
        if self.failed:
            kind = TransientError if self.passing else TerminalError
            raise kind("; ".join(self.failed))


def _agenda(ctx: MaintenanceContext) -> list[tuple[TableId, dict[str, StepOf]]]:
    """Return each table with its steps, the least recently maintained first."""
    own = own_tables(ctx)
    work = {table: {"types": steps.refuse_types, "retention": expire, **_TABLE} for table in own}
    shared = {TableId(names.LEDGER_NAMESPACE, name): _LEDGER_TABLE for name in _LEDGER}
    shared[TableId(names.LEDGER_NAMESPACE, ledger_tables.FILES)] = {**_LEDGER_TABLE, **_LEFTOVERS}
    shared[quarantine.TABLE] = _TABLE
    shared[transactions.TABLE] = {"retention": expire_transaction_ends, **_TABLE}
    last = own | {table: steps.last_marked(ctx, ctx.lake.load(table)) for table in shared}
    return sorted((work | shared).items(), key=lambda task: last[task[0]])


def own_tables(ctx: MaintenanceContext) -> dict[TableId, str]:
    """Return the pipeline's targets, histories, tables of events, changelogs and tombstones, each
    with the time when it was maintained last.

    One that cannot be read is among them, so that its first step fails and names it.
    """
    made = [TableId(*name) for name in pipeline_tables(ctx.lake.catalog, ctx.pipeline.namespace)]
    marks = {table: _mark(ctx, table) for table in made}
    return {table: mark for table, mark in marks.items() if mark is not None}


def _mark(ctx: MaintenanceContext, table: TableId) -> str | None:
    """Return when the pipeline maintained a table last; None if the table is not the pipeline's."""
    try:
        loaded = ctx.lake.load(table)
    except UNREADABLE:
        return ""
    if loaded is None or loaded.properties.get(names.PROP_PIPELINE) != ctx.pipeline.name:
        return None
    return steps.last_marked(ctx, loaded)
