"""Entry point of the driver that maintains a pipeline's tables.

Exit codes: 0 done (or time is up), 1 stop, 2 configuration, 75 try again. What it did is its last
line. Each step asks the table itself whether there is anything to do, and tables that were not
maintained for the longest come first: a run that stops is resumed by the next one.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

from pyiceberg.exceptions import NoSuchNamespaceError
from pyiceberg.table import Table

from sluice import names
from sluice.catalog.client import open_catalog
from sluice.catalog.gaps import gap_followed
from sluice.catalog.snapshots import drop_branches, drop_tags
from sluice.config.project import load_sound
from sluice.faults import Point, reach
from sluice.ledger import tables as ledger_tables
from sluice.ledger.compaction import compact_ledger
from sluice.ledger.ledger import Ledger
from sluice.ledger.rows import FINISHED
from sluice.ledger.turns import Turns
from sluice.objects.batchfiles import BatchFiles
from sluice.operations.expiry import Promise, expirable, promise, stale_tags
from sluice.operations.maintenance import MaintenanceResult, Step
from sluice.operations.sweep import sweep
from spark_jobs.decoding import quarantine, transactions
from spark_jobs.failures import exit_code
from spark_jobs.lake.tables import Lake, TableId
from spark_jobs.maintaining import procedures
from spark_jobs.maintaining.retention import forget, forget_ends
from spark_jobs.maintaining.upkeep import Upkeep
from spark_jobs.session import open_session
from spark_jobs.telling import tell

_LEDGER: Final = (ledger_tables.FILES, ledger_tables.BATCHES, ledger_tables.PUBLICATIONS)
_NEVER: Final = ""
_POSITION_DELETES: Final = 2  # the format version that has them as files


StepOf = Callable[[Upkeep, TableId], str]


def maintain(upkeep: Upkeep, proceed: Callable[[], bool]) -> MaintenanceResult:
    """Maintain every table of the pipeline, then the ledger.

    `proceed` is asked before each step: False leaves the rest to the next run. Raises LeaseHeld
    through it.
    """
    started = time.monotonic()
    steps: list[Step] = []
    left: list[str] = []
    for table, work in _agenda(upkeep):
        name = table.full_name
        for kind, step in work.items():
            if left or not proceed():
                left.append(name)
                break
            if told := step(upkeep, table):
                reach(Point.MAINTAIN_STEP)
                steps.append(Step(name, kind, told))
                tell(f"maintain: {name}: {kind}: {told}")
    seconds = round(time.monotonic() - started, 2)
    return MaintenanceResult(
        upkeep.pipeline.name, upkeep.dry_run, tuple(steps), tuple(left), seconds
    )


def _agenda(upkeep: Upkeep) -> Iterator[tuple[TableId, dict[str, StepOf]]]:
    for table in own_tables(upkeep):
        yield table, {"retention": forget, **_TABLE, "mark": _mark}
    for name in _LEDGER:
        steps = _LEDGER_TABLE if name != ledger_tables.FILES else {**_LEDGER_TABLE, **_BESIDE}
        yield TableId(names.LEDGER_NAMESPACE, name), steps
    yield quarantine.TABLE, _TABLE
    yield transactions.TABLE, {"retention": forget_ends, **_TABLE}


def own_tables(upkeep: Upkeep) -> list[TableId]:
    """The pipeline's targets, changelogs and tombstones, the longest neglected first."""
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


def _loaded(upkeep: Upkeep, table: TableId) -> Table | None:
    """The table where it has rows; one whose first batch was rolled back has no `main`."""
    loaded = upkeep.lake.load(table)
    return loaded if loaded is not None and loaded.current_snapshot() is not None else None


def drop_stale_tags(upkeep: Upkeep, table: TableId) -> str:
    """Drop the tags of batches beyond `keep_tags`: they hold snapshots."""
    loaded = upkeep.lake.load(table)
    tags = stale_tags(loaded, _promised(upkeep)) if loaded is not None else []
    if tags and loaded is not None and not upkeep.dry_run:
        drop_tags(upkeep.lake.catalog, loaded, tags)
    return f"{len(tags)} tags" if tags else ""


def _promised(upkeep: Upkeep) -> Promise:
    return promise(upkeep.ledger, upkeep.pipeline)


def drop_dead_branches(upkeep: Upkeep, table: TableId) -> str:
    """Drop what was staged of batches that are finished: who was suspended when others looked may
    have written since, and a branch holds its snapshots for good."""
    loaded = upkeep.lake.load(table)
    refs = (
        [] if loaded is None else [r for r in loaded.metadata.refs if r.startswith(names.BRANCHES)]
    )
    batches = upkeep.ledger.batches(upkeep.pipeline.name) if refs else []
    ended = tuple(names.branch_name(b.batch_id, "") for b in batches if b.state in FINISHED)
    dead = [ref for ref in refs if ref.startswith(ended)]
    for ref in () if upkeep.dry_run else dead:
        drop_branches(upkeep.lake.catalog, table.namespace, table.name, ref)
    return f"{len(dead)} branches" if dead else ""


def rewrite_data(upkeep: Upkeep, table: TableId) -> str:
    """Rewrite data files where many are small or deletes hide many rows."""
    if _loaded(upkeep, table) is None:
        return ""
    due = procedures.debt(upkeep.spark, table, upkeep.pipeline.maintenance)
    if not due.crowded and not due.hidden:
        return ""
    if upkeep.dry_run:
        return f"{due.crowded} partitions of small files, {due.hidden} with many deletes"
    return procedures.rewrite_data(upkeep.spark, table, upkeep.pipeline.maintenance)


def rewrite_deletes(upkeep: Upkeep, table: TableId) -> str:
    """Rewrite position-delete files where fewer would do; version 3 has none of them."""
    loaded = _loaded(upkeep, table)
    if loaded is None or loaded.metadata.format_version > _POSITION_DELETES:
        return ""
    spare = procedures.spare_deletes(upkeep.spark, table)
    if spare < upkeep.pipeline.maintenance.small_files:
        return ""
    if upkeep.dry_run:
        return f"{spare} delete files more than needed"
    return procedures.rewrite_deletes(upkeep.spark, table, upkeep.pipeline.maintenance)


def rewrite_manifests(upkeep: Upkeep, table: TableId) -> str:
    """Rewrite manifests where many are small."""
    if _loaded(upkeep, table) is None:
        return ""
    small = procedures.small_manifests(upkeep.spark, table)
    if small < procedures.MANIFESTS:
        return ""
    if upkeep.dry_run:
        return f"{small} small manifests"
    return procedures.rewrite_manifests(upkeep.spark, table)


def expire_snapshots(upkeep: Upkeep, table: TableId) -> str:
    """Expire old snapshots, but none that a branch, a tag or a rollback needs."""
    loaded = upkeep.lake.load(table)
    if loaded is None:
        return ""
    promised = _promised(upkeep)
    before = upkeep.days_ago(upkeep.pipeline.maintenance.snapshot_days)
    stale = stale_tags(loaded, promised) if upkeep.dry_run else []
    snapshots = expirable(loaded, promised.snapshots, before, dropped=stale)
    if not snapshots:
        return ""
    if upkeep.dry_run:
        return f"{len(snapshots)} snapshots"
    if followed := gap_followed(loaded):
        upkeep.lake.set_property(table, names.PROP_GAP, followed)
    return procedures.expire_snapshots(upkeep.spark, table, snapshots)


def remove_orphans(upkeep: Upkeep, table: TableId) -> str:
    """Delete files that no snapshot has, of an age at which nobody writes them any more.

    The age is by the clock on the wall, whatever `now` is: a file's time is too.
    """
    if upkeep.lake.load(table) is None:
        return ""
    before = datetime.now(UTC) - timedelta(days=upkeep.pipeline.maintenance.orphan_days)
    found = procedures.remove_orphans(upkeep.spark, table, before, upkeep.dry_run)
    return f"{found} files" if found else ""


def remove_leftovers(upkeep: Upkeep, table: TableId) -> str:
    """Remove what dead attempts left beside the tables, as the ledger's files tell."""
    before = upkeep.days_ago(upkeep.pipeline.maintenance.orphan_days)
    name = upkeep.pipeline.name
    found = sweep(upkeep.files, upkeep.ledger, name, before, upkeep.dry_run)
    return f"{found} files" if found else ""


def compact(upkeep: Upkeep, table: TableId) -> str:
    """Compact one table of the ledger, which all pipelines share."""
    done = compact_ledger(upkeep.lake.catalog, table.name, upkeep.dry_run)
    return f"{done.before} → {done.after} rows" if done.after < done.before else ""


def _mark(upkeep: Upkeep, table: TableId) -> str:
    """Let the tables that time ran out for come first in the next run."""
    if not upkeep.dry_run:
        moment = datetime.now(UTC).isoformat(timespec="seconds")
        upkeep.lake.set_property(table, names.PROP_MAINTAINED, moment)
    return ""


# Branches and tags first, for they hold snapshots; what is rewritten can expire only later.
_TABLE: Final[dict[str, StepOf]] = {
    "branches": drop_dead_branches,
    "tags": drop_stale_tags,
    "data files": rewrite_data,
    "delete files": rewrite_deletes,
    "manifests": rewrite_manifests,
    "snapshots": expire_snapshots,
    "orphans": remove_orphans,
}
_LEDGER_TABLE: Final[dict[str, StepOf]] = {"compaction": compact, "orphans": remove_orphans}
_BESIDE: Final[dict[str, StepOf]] = {"leftovers": remove_leftovers}


@contextmanager
def _turns(upkeep: Upkeep, minutes: float) -> Iterator[Callable[[], bool]]:
    """The pipeline's lease and the time; a dry run needs neither."""
    if upkeep.dry_run:
        yield lambda: True
        return
    seconds = upkeep.pipeline.lease_seconds
    with Turns(upkeep.ledger, upkeep.pipeline.name, seconds, minutes * 60) as turns:
        yield turns.next


def run(folder: Path, pipeline: str, minutes: float, dry_run: bool) -> MaintenanceResult:
    """Open the project and maintain one pipeline."""
    project = load_sound(folder)
    chosen, catalog = project.pipeline(pipeline), open_catalog(project)
    ledger = Ledger(catalog)
    ledger.ensure()
    spark = open_session(project, f"sluice maintain {pipeline}")
    lake = Lake(spark, catalog, pipeline)
    upkeep = Upkeep(spark, lake, ledger, BatchFiles(project), chosen, datetime.now(UTC), dry_run)
    with _turns(upkeep, minutes) as proceed:
        return maintain(upkeep, proceed)


def main(arguments: list[str] | None = None) -> int:
    """Maintain one pipeline; see the module for exit codes."""
    parser = argparse.ArgumentParser(description="Maintain a pipeline's tables")
    parser.add_argument("--project", required=True, type=Path)
    parser.add_argument("--pipeline", required=True)
    parser.add_argument("--budget", required=True, type=float, help="minutes")
    parser.add_argument("--dry-run", action="store_true")
    given = parser.parse_args(arguments)
    return exit_code(lambda: run(given.project, given.pipeline, given.budget, given.dry_run))


if __name__ == "__main__":
    sys.exit(main())
