"""The task `land`: which files and abandoned batches a run takes, and what it says about them."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from sluice.config.table_choice import only
from sluice.counting import counted
from sluice.errors import FilesLeftOutError, FilesUnreadError
from sluice.escaping import shown
from sluice.ledger.rows import BatchRow
from sluice.ledger.states import FAILED, HALFWAY
from sluice.operations import stages
from sluice.operations.context import Context
from sluice.operations.land import candidates
from sluice.operations.loading_order import shares_to_try
from sluice.operations.selection import Selection, covers
from sluice.operations.shares import waiting_files
from sluice.operations.single_tables import table_candidates
from sluice.operations.unreadable_files import UnreadableFiles, files_left_out
from sluice.operations.why_nothing import why_nothing
from sluice_airflow.advice import about_form, advised, skip
from sluice_airflow.connection import use_connections_master
from sluice_airflow.mapping import mappable
from sluice_airflow.selection import DagRunFacts, select
from sluice_airflow.tasks import open_context

log = logging.getLogger(__name__)

# The error that the task `denied` raises, by the XCom key under which `land` leaves its message. A
# run may be cleared after an upgrade, so the keys stay, whatever the classes are called.
DENIED: Final = {"FilesLeftOut": FilesLeftOutError, "FilesUnread": FilesUnreadError}
# How long a landed batch of another run may wait for its load, or a sign of that before it.
STALE: Final = timedelta(minutes=30)


def land(project_dir: str, pipeline: str, context: dict[str, Any]) -> list[str]:
    """Claim the run's files; returns one manifest per batch, as many as Airflow maps over.

    Skips if there are none. Files that cannot be read are left to the task `denied`; if there are
    no others, raises FilesLeftOutError or FilesUnreadError.
    """
    with advised("land", pipeline) as advice:
        # Before the project is opened: the retry of one that died may start a driver.
        use_connections_master()
        ctx = open_context(project_dir, pipeline)
        with about_form(advice):
            chosen = selection_of(context, ctx.pipeline.schedule)
            only(ctx.pipeline, chosen.tables)
        log.info("land takes: %s", describe(chosen))
        if context["params"].get("dry_run"):
            skip(dry_run(ctx, chosen))
        unreadable = UnreadableFiles()
        again = context["ti"].try_number > 1
        manifests = land_selection(ctx, chosen, again, unreadable)
        if error := files_left_out(pipeline, unreadable):
            if not manifests:
                raise error
            key = next(name for name, kind in DENIED.items() if isinstance(error, kind))
            context["ti"].xcom_push(key=key, value=str(error))
        if not manifests:
            skip(nothing_to_load(ctx, chosen))
        return mappable(ctx, manifests)


def refuse_denied(pipeline: str, context: dict[str, Any]) -> None:
    """Raise FilesLeftOutError or FilesUnreadError if the run's `land` could not read some files."""
    with advised("denied", pipeline) as advice:
        for name, kind in DENIED.items():
            if message := context["ti"].xcom_pull(task_ids="land", key=name):
                advice.about = "unread" if kind is FilesUnreadError else "denied"
                raise kind(message)


def selection_of(context: dict[str, Any], schedule: str | None) -> Selection:
    """Read the selection from the run's parameters, type and interval."""
    run = context["dag_run"]
    start, end = run.data_interval_start, run.data_interval_end
    facts = DagRunFacts(
        type=str(getattr(run.run_type, "value", run.run_type)),
        interval=(start, end) if start and end else None,
        logical_date=run.logical_date,
        triggered=run.run_after,
        schedule=schedule,
    )
    return select(dict(context["params"]), facts)


def land_selection(
    ctx: Context, chosen: Selection, again: bool, unreadable: UnreadableFiles
) -> list[str]:
    """Land the selection; `again` if this task ran before. `unreadable` collects files that
    cannot be read."""
    if chosen.tables:
        return list(stages.land_tables(ctx, chosen, unreadable))
    if again:  # it may have died between the claim of files and the record of their batch
        stages.reconcile(ctx)
    new = stages.land(ctx, chosen, unreadable)
    return list(
        dict.fromkeys([*abandoned_batches(ctx, chosen, again), *(str(path) for path in new)])
    )


def abandoned_batches(ctx: Context, chosen: Selection, again: bool) -> list[str]:
    """Return batches of the selection, or half-published ones, that an earlier run abandoned; of
    the shares of a table those that `shares_to_try` returns, unless a person names their files.

    A batch that changed recently may belong to a run that waits for a slot. It only counts if this
    task itself ran before, or if a person names the files of a failed batch.
    """
    abandoned = list(_abandoned(ctx, chosen, again))
    to_try = abandoned if chosen.explicit else list(shares_to_try(ctx, abandoned))
    for row in to_try:
        log.info("batch %s is %s: this run takes it over", row.batch_id, row.state)
    if left := len(abandoned) - len(to_try):
        log.info("%s batches of tables that were left out wait for another of their table", left)
    return [row.manifest or ctx.files.manifest_key(row.pipeline, row.batch_id) for row in to_try]


def _abandoned(ctx: Context, chosen: Selection, again: bool) -> Iterator[BatchRow]:
    for row in ctx.ledger.unfinished():
        if row.state in HALFWAY or not ctx.ledger.lease.has_lapsed(row):
            continue
        certain = again or (chosen.explicit and row.state == FAILED)
        old = row.at is not None and datetime.now(UTC) - row.at >= STALE
        # While a batch is half published no other can be loaded, so any run completes it, whatever
        # it selects.
        if (certain or old) and (row.halfway or _is_selected(ctx, row, chosen)):
            yield row


def _is_selected(ctx: Context, row: BatchRow, chosen: Selection) -> bool:
    files = waiting_files(ctx, row)
    return bool(files) and covers(ctx, files, chosen)


def nothing_to_load(ctx: Context, chosen: Selection) -> str:
    """Return why the run takes nothing, and how batches of its files that failed are loaded."""
    name = ctx.pipeline.name
    why = f"{name}: nothing to load ({describe(chosen)}); {why_nothing(ctx, chosen)}"
    failed = (row for row in ctx.ledger.unfinished() if row.state == FAILED)
    taken = [row.at + STALE for row in failed if row.at and _is_selected(ctx, row, chosen)]
    if not taken:
        return why
    return (
        f"{why}; to load what failed: clear its task load, or sluice run {name}; "
        f"a run from {max(taken):%Y-%m-%dT%H:%MZ} on takes it over"
    )


def dry_run(ctx: Context, chosen: Selection) -> str:
    """Log what the run would take, without taking it."""
    files = table_candidates(ctx, chosen) if chosen.tables else candidates(ctx, chosen)
    for item in files:
        log.info("would take %s (%s bytes, hour %s)", shown(item.key), item.size, item.hour or "-")
    return f"dry run: {counted(len(files), 'file')}, {sum(item.size for item in files)} bytes"


def describe(chosen: Selection) -> str:
    """Return the selection in words."""
    tables = f", for {shown(', '.join(chosen.tables))} alone" if chosen.tables else ""
    changed = ", changed ones too" if chosen.changed else ""
    return files_in_words(chosen) + tables + changed


def files_in_words(chosen: Selection) -> str:
    """Return which files a run takes; times are in UTC, whatever zone they were given in."""
    if chosen.files:
        return counted(len(chosen.files), "named file")
    if chosen.window:
        start, end = (time.astimezone(UTC) for time in (chosen.window.start, chosen.window.end))
        return f"exactly {start:%Y-%m-%dT%H:%MZ} to {end:%Y-%m-%dT%H:%MZ}"
    return f"everything before {chosen.until:%Y-%m-%dT%H:%MZ}" if chosen.until else "everything"
