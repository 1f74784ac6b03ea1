"""Which steps of maintenance each table of a pipeline gets, and in which order.

Tables that were not maintained for the longest come first: a run that stops is resumed by the next
one.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from typing import Final

from pyiceberg.exceptions import NoSuchNamespaceError
from pyiceberg.table import Table

from sluice import names
from sluice.faults import Point, reach
from sluice.ledger import tables as ledger_tables
from sluice.operations.maintenance import MaintenanceResult, Step
from spark_jobs.decoding import quarantine, transactions
from spark_jobs.lake.tables import Lake, TableId
from spark_jobs.maintaining import steps
from spark_jobs.maintaining.retention import forget, forget_ends
from spark_jobs.maintaining.upkeep import Upkeep
from spark_jobs.telling import tell

StepOf = Callable[[Upkeep, TableId], str]

_LEDGER: Final = (ledger_tables.FILES, ledger_tables.BATCHES, ledger_tables.PUBLICATIONS)
_NEVER: Final = ""
# Branches and tags first, for they hold snapshots; what is rewritten can expire only later.
_TABLE: Final[dict[str, StepOf]] = {
    "branches": steps.drop_dead_branches,
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
_BESIDE: Final[dict[str, StepOf]] = {"leftovers": steps.remove_leftovers}


def maintain(upkeep: Upkeep, proceed: Callable[[], bool]) -> MaintenanceResult:
    """Maintain every table of the pipeline, then the ledger.

    `proceed` is asked before each step: False leaves the rest to the next run. Raises LeaseHeld
    through it.
    """
    started = time.monotonic()
    done: list[Step] = []
    left: list[str] = []
    for table, work in _agenda(upkeep):
        name = table.full_name
        for kind, step in work.items():
            if left or not proceed():
                left.append(name)
                break
            if told := step(upkeep, table):
                reach(Point.MAINTAIN_STEP)
                done.append(Step(name, kind, told))
                tell(f"maintain: {name}: {kind}: {told}")
    seconds = round(time.monotonic() - started, 2)
    return MaintenanceResult(
        upkeep.pipeline.name, upkeep.dry_run, tuple(done), tuple(left), seconds
    )


def _agenda(upkeep: Upkeep) -> Iterator[tuple[TableId, dict[str, StepOf]]]:
    for table in own_tables(upkeep):
        yield table, {"retention": forget, **_TABLE, "mark": steps.mark}
    for name in _LEDGER:
        work = _LEDGER_TABLE if name != ledger_tables.FILES else {**_LEDGER_TABLE, **_BESIDE}
        yield TableId(names.LEDGER_NAMESPACE, name), work
    yield quarantine.TABLE, _TABLE
    yield transactions.TABLE, {"retention": forget_ends, **_TABLE}


def own_tables(upkeep: Upkeep) -> list[TableId]:
    """The pipeline's targets, histories, tables of events, changelogs and tombstones, the longest
    neglected first."""
    namespace = upkeep.pipeline.namespace
    found = [
        table
        for name in (namespace, names.changelog_namespace(namespace))
        for table in _tables(upkeep.lake, name)
        if table.properties.get(names.PROP_PIPELINE) == upkeep.pipeline.name
    ]
    found.sort(key=_maintained)
    return [TableId(*table.name()[-2:]) for table in found]


def _maintained(table: Table) -> tuple[str, tuple[str, ...]]:
    return table.properties.get(names.PROP_MAINTAINED, _NEVER), table.name()


def _tables(lake: Lake, namespace: str) -> Iterable[Table]:
    try:
        return [lake.catalog.load_table(name) for name in lake.catalog.list_tables(namespace)]
    except NoSuchNamespaceError:
        return []
