"""Notes on hints that may be wrong: no record of a table fits them, or stored rows were read by
others.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from sluice import names
from sluice.catalog.snapshots import head
from sluice.counting import counted
from sluice.types.columns import parse_type
from spark_jobs.decoding.changelog_rows import typed_changes
from spark_jobs.decoding.decode import BAD, UNFIT
from spark_jobs.decoding.misfit_counts import Misfits
from spark_jobs.evaluated_once import optimizer_barrier
from spark_jobs.job import Job
from spark_jobs.lake.table_id import target_id
from spark_jobs.lake.tables import Lake
from spark_jobs.planning.plan import TablePlan
from spark_jobs.planning.stored_hints import read_hints


def notes_on_hints(
    job: Job, envelope: DataFrame, plan: TablePlan, misfits: Misfits
) -> Iterator[str]:
    """Yield the notes on a table."""
    if misfits.unread:
        yield _none_read(job, envelope, plan, misfits.unread)
    yield from misfits.odd_times
    yield from _changed_hints(job.lake, plan)


def _none_read(job: Job, envelope: DataFrame, plan: TablePlan, records: int) -> str:
    """Return a note on a table none of whose records fits, with what one of them has."""
    typed = optimizer_barrier(typed_changes(job, envelope, plan, with_values=True))
    misfits = typed.where(names.COUNTED).where(F.col(BAD) != "").select(BAD, UNFIT)
    why, unfit = misfits.first() or ("", ())
    return unread(job.pipeline.name, plan, records, why, unfit)


def unread(pipeline: str, plan: TablePlan, records: int, why: str, unfit: Iterable[str]) -> str:
    """Return the note on a table none of whose records could be read.

    `why`: the misfits of one record, as the quarantine has them; `unfit`: the columns in them.
    """
    hinted, columns = {name.lower() for name in plan.config.columns}, frozenset(unfit)
    called = [(c.name, *c.spellings) for c in plan.columns if c.name in columns]
    other = hinted.isdisjoint(name.lower() for names in called for name in names)
    asks = "after" if other else "is its hint right? After"
    return (
        f"of {counted(records, 'record')} of {plan.source.name} none was read: {why}; {asks} a "
        f"change: sluice reprocess {pipeline}"
    )


def _changed_hints(lake: Lake, plan: TablePlan) -> Iterator[str]:
    """Yield a note on each column whose stored rows a hint of another encoding or zone read."""
    target = target_id(plan)
    loaded = lake.load(target)
    if loaded is not None and head(loaded) is not None:
        yield from otherwise_read(lake.pipeline, plan, loaded.properties.get(names.PROP_HINTS))


def otherwise_read(pipeline: str, plan: TablePlan, stored: str | None) -> Iterator[str]:
    """Yield a note on each column whose hint now reads values otherwise than when its stored rows
    were read.

    `stored`: the property, None for a table that has none yet.
    """
    before = {name.lower(): hint for name, hint in read_hints(stored).items()}
    for name, hint in plan.config.columns.items():
        then = before.get(name.lower(), hint)
        if parse_type(then).how != parse_type(hint).how:
            yield (
                f"{plan.source.name}: {name} is read by {hint}, but its stored rows were read by "
                f"{then} and stay as they are; to read those again by {hint}: sluice rollback "
                f"{pipeline} --batch BATCH for their batches, the newest first, sluice release "
                f"{pipeline} --batch BATCH, then sluice run {pipeline}"
            )
