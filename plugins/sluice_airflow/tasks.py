"""The functions of the tasks: each calls a stage of Sluice and says what to do if it fails."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final, NoReturn
from urllib.parse import quote

from airflow.sdk import Asset, AssetAlias, get_current_context
from airflow.sdk.exceptions import AirflowSkipException, AirflowTaskTimeout

from sluice.config.project import PROJECT_FILE
from sluice.config.table_choice import only
from sluice.errors import FilesLeftOutError, FilesUnreadError
from sluice.escaping import LINES, shown
from sluice.ledger.rows import BatchRow
from sluice.ledger.states import CLOSED, FAILED, FINISHED, HALFWAY, LOADED, PUBLISHING
from sluice.manifest import Manifest
from sluice.names import is_changelog_namespace
from sluice.objects.batch_files import batch_of
from sluice.operations import reprocess, rollback, stages
from sluice.operations.context import Context
from sluice.operations.land import candidates, why_nothing
from sluice.operations.load import SAME_AGAIN
from sluice.operations.loading_order import shares_to_try
from sluice.operations.quarantined import require_published
from sluice.operations.selection import landed
from sluice.operations.shares import waiting_files
from sluice.operations.unreadable_files import UnreadableFiles, files_left_out
from sluice.output.report import conflicting, id_text, losing, misfitting
from sluice.result import BatchResult, StagedTable
from sluice_airflow.connection import use_connections_master
from sluice_airflow.mapping import mappable
from sluice_airflow.requests import (
    RIGHT_FORM,
    pipeline_of_form,
    refuse_late,
    reprocess_of_form,
    rollback_request,
    user_of_run,
)
from sluice_airflow.selection import Run, RunSelection, select

log = logging.getLogger(__name__)
# It has a line for each table that is opened, under which a task's own lines are lost.
logging.getLogger("pyiceberg.io").setLevel(logging.WARNING)

# The error that the task `denied` raises, by the XCom key under which `land` leaves its message. A
# run may be cleared after an upgrade, so the keys stay, whatever the classes are called.
DENIED: Final = {"FilesLeftOut": FilesLeftOutError, "FilesUnread": FilesUnreadError}
# How long a landed batch of another run may wait for its load, or a sign of that before it.
STALE: Final = timedelta(minutes=30)
ADVICE: Final = {
    "form": RIGHT_FORM,
    "reconcile": "it is safe to clear this task: reconcile only completes what was recorded",
    "land": "clear this task when the cause is gone; what was claimed keeps its manifest",
    "load": "nothing was published. Clear this task to load the same manifest again",
    "publish": "clear this task (a table published already stays so), or run the DAG"
    " sluice_rollback for this batch",
    "denied": "the other files are taken, and their batches go on. Give Sluice the right to read"
    " what it may not: the next run loads what is named",
    "unread": "the other files are taken. Make room, if that is it; the next run tries these again",
    "left_out": "the other tables are published. A later run loads what was left out again",
    "maintain": "no row was changed. Clear this task: it goes on where it stopped",
    "batch.rollback": "main was not moved. Run the DAG sluice_reconcile, it drops what was left",
    "halfway": "some tables may have the batch. The DAG sluice_reconcile, or the pipeline's next"
    " run, completes it; the DAG sluice_rollback undoes it",
    "rollback": "if it was refused, nothing moved, and the message says why; else the DAG"
    " sluice_reconcile completes it as it was asked for. Look at sluice status before you fill in"
    " To again: it undoes what was published since",
}


@dataclass
class Advice:
    """Which advice is logged beside an error of a task: the name in ADVICE."""

    about: str

    def heed(self, row: BatchRow | None) -> None:
        """Choose the advice about a batch of which some tables may be published, if this is one."""
        if row is not None and row.halfway:
            self.about = "halfway"


def _log_advice(stage: str, pipeline: str, error: BaseException, advice: Advice) -> None:
    log.error("%s of pipeline %s failed: %s", stage, pipeline, shown(str(error), LINES))
    if isinstance(error, AirflowTaskTimeout):
        limit = get_current_context()["task"].execution_timeout
        setting = f"spark.max_load_seconds in {PROJECT_FILE}"
        log.error("Stopped after %s: see %s (at least 6 hours for stages)", limit, setting)
    log.error("What to do: %s. To look: sluice status %s", ADVICE[advice.about], pipeline)


@contextmanager
def advised(stage: str, pipeline: str) -> Iterator[Advice]:
    """Log advice beside an error."""
    advice = Advice(stage)
    try:
        yield advice
    except AirflowSkipException:
        raise
    except (Exception, AirflowTaskTimeout) as error:  # a timeout is no Exception
        _log_advice(stage, pipeline, error, advice)
        raise


@contextmanager
def about_form(advice: Advice) -> Iterator[None]:
    """Advise about the form while it is read, and about the stage after that."""
    stage, advice.about = advice.about, "form"
    yield
    advice.about = stage


def skip(reason: str) -> NoReturn:
    """Skip the task; Airflow's own line about it does not show the reason at once."""
    log.info("%s", reason)
    raise AirflowSkipException(reason)


def reconcile(project_dir: str, pipeline: str) -> list[str]:
    """Check the Spark connection, then complete or undo what earlier attempts left."""
    with advised("reconcile", pipeline):
        use_connections_master()
        ctx = open_context(project_dir, pipeline)
        left = list(stages.reconcile(ctx))
        for key in left:
            manifest = ctx.files.read_manifest(key)
            log.info("batch %s is not published; %s", manifest.batch_id, goes_on(manifest))
        return left


def goes_on(manifest: Manifest) -> str:
    """Return what loads an abandoned batch; no run of the DAG selects one that claims no files."""
    command = f"sluice run {manifest.pipeline} loads it"
    if manifest.rebuild is not None:
        return f"{command}, or the rollback or rebuild that made it, when it is run again"
    if manifest.repeats:
        return f"{command}; or clear its task load, or {SAME_AGAIN}"
    return "a later run loads it again"


def open_context(project_dir: str, pipeline: str) -> Context:
    """Open the pipeline; messages of the stages go to the task's log."""
    return stages.open_context(Path(project_dir), pipeline, log.info)


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
            skip(f"{pipeline}: nothing to load ({describe(chosen)}); {why_nothing(ctx, chosen)}")
        return mappable(ctx, manifests)


def refuse_denied(pipeline: str, context: dict[str, Any]) -> None:
    """Raise FilesLeftOutError or FilesUnreadError if the run's `land` could not read some files."""
    with advised("denied", pipeline) as advice:
        for name, kind in DENIED.items():
            if message := context["ti"].xcom_pull(task_ids="land", key=name):
                advice.about = "unread" if kind is FilesUnreadError else "denied"
                raise kind(message)


def selection_of(context: dict[str, Any], schedule: str | None) -> RunSelection:
    """Read the selection from the run's parameters, type and interval."""
    run = context["dag_run"]
    start, end = run.data_interval_start, run.data_interval_end
    dag_run_facts = Run(
        str(getattr(run.run_type, "value", run.run_type)),
        (start, end) if start and end else None,
        run.logical_date,
        run.run_after,
        schedule,
    )
    return select(dict(context["params"]), dag_run_facts)


def land_selection(
    ctx: Context, chosen: RunSelection, again: bool, unreadable: UnreadableFiles
) -> list[str]:
    """Land the selection; `again` if this task ran before. `unreadable` collects files that
    cannot be read."""
    if chosen.tables:
        return list(stages.land_tables(ctx, chosen.tables, chosen, unreadable=unreadable))
    if again:  # it may have died between the claim of files and the record of their batch
        stages.reconcile(ctx)
    new = stages.land(ctx, chosen, unreadable=unreadable, changed=chosen.changed)
    return list(
        dict.fromkeys([*abandoned_batches(ctx, chosen, again), *(str(path) for path in new)])
    )


def abandoned_batches(ctx: Context, chosen: RunSelection, again: bool) -> list[str]:
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


def _abandoned(ctx: Context, chosen: RunSelection, again: bool) -> Iterator[BatchRow]:
    for row in ctx.ledger.unfinished():
        if row.state in HALFWAY or not ctx.ledger.lease.has_lapsed(row):
            continue
        certain = again or (chosen.explicit and row.state == FAILED)
        old = row.at is not None and datetime.now(UTC) - row.at >= STALE
        # While a batch is half published no other can be loaded, so any run completes it, whatever
        # it selects.
        selected = row.halfway or chosen.covers(ctx, waiting_files(ctx, row))
        if (certain or old) and selected:
            yield row


def dry_run(ctx: Context, chosen: RunSelection) -> str:
    """Log what the run would take, without taking it."""
    files = landed(ctx, chosen) if chosen.tables else candidates(ctx, chosen, chosen.changed)
    for item in files:
        log.info("would take %s (%s bytes, hour %s)", shown(item.key), item.size, item.hour or "-")
    return f"dry run: {len(files)} files, {sum(item.size for item in files)} bytes"


def describe(chosen: RunSelection) -> str:
    """Return the selection in words."""
    tables = f", for {shown(', '.join(chosen.tables))} alone" if chosen.tables else ""
    changed = ", changed ones too" if chosen.changed else ""
    return files_in_words(chosen) + tables + changed


def files_in_words(chosen: RunSelection) -> str:
    """Return which files a run takes; times are in UTC, whatever zone they were given in."""
    if chosen.files:
        return f"{len(chosen.files)} named files"
    if chosen.window:
        start, end = (time.astimezone(UTC) for time in (chosen.window.start, chosen.window.end))
        return f"exactly {start:%Y-%m-%dT%H:%MZ} to {end:%Y-%m-%dT%H:%MZ}"
    return f"everything before {chosen.until:%Y-%m-%dT%H:%MZ}" if chosen.until else "everything"


def publish(
    project_dir: str, pipeline: str, manifest: str, context: dict[str, Any]
) -> dict[str, Any]:
    """Publish the batch; the stage merges it again if `main` moved meanwhile."""
    with advised("publish", pipeline):
        use_connections_master()
        result = stages.publish(open_context(project_dir, pipeline), manifest)
        emit_assets(result, context["outlet_events"][AssetAlias(alias_name(pipeline))])
        return summary(result)


def refuse_left_out(project_dir: str, pipeline: str, manifest: str) -> None:
    """Raise TablesLeftOutError if the batch was published without some of its tables."""
    ctx = open_context(project_dir, pipeline)
    result = stages.current_result(ctx, batch_of(manifest))
    with advised("left_out", pipeline):
        if error := stages.error_for_left_out(ctx, ctx.files.read_manifest(manifest), result):
            raise error


def alias_name(pipeline: str) -> str:
    """Return the alias under which a pipeline's published tables become assets."""
    return f"sluice/{pipeline}"


def emit_assets(result: BatchResult, events: Any) -> None:
    """Emit one asset event for each target with a new snapshot."""
    for staged in result.staged:
        if is_changelog_namespace(staged.namespace):
            continue
        events.add(
            Asset(name=staged.full_name, uri=asset_uri(staged)),
            extra={
                "batch_id": result.batch_id,
                "snapshot_id": id_text(staged.head_snapshot),
                "previous_snapshot_id": id_text(staged.base_snapshot),
                "pipeline": result.pipeline,
            },
        )


def asset_uri(staged: StagedTable) -> str:
    """Return the address of a table as an asset."""
    return f"iceberg://lake/{quote(staged.namespace, safe='')}/{quote(staged.name, safe='')}"


def summary(result: BatchResult) -> dict[str, Any]:
    """Return counts for the task's return value, and log what needs attention."""
    tables = {table.target: vars(table.counts) for table in result.tables}
    log.info("published batch %s: %s", result.batch_id, json.dumps(tables, sort_keys=True))
    for table in result.tables:
        if table.conflicts.records:
            log.warning("%s", shown(conflicting(table)))
        if table.nulled:
            log.warning("%s", shown(misfitting(table)))
        if table.dropped:
            log.warning("%s", shown(losing(table)))
    return {"batch_id": result.batch_id, "attempt": result.attempt, "tables": tables}


def loaded_as(ctx: Context, manifest: str, advice: Advice) -> str:
    """Return the batch's state if there is nothing to load: it is finished, or another run loaded
    it and is about to publish it. Otherwise "".

    `advice` is chosen by that state.
    """
    row = ctx.ledger.batches.get(batch_of(manifest))
    advice.heed(row)
    if row is None:
        return ""
    handed_on = row.state in (LOADED, PUBLISHING) and not ctx.ledger.lease.has_lapsed(row)
    return row.state if handed_on or row.state in FINISHED else ""


def clean_up(project_dir: str, pipeline: str, manifest: str) -> list[str]:
    """Drop what a failed batch staged; a published one is left alone."""
    batch_id = batch_of(manifest)
    with advised("batch.rollback", pipeline) as advice:
        # Where publishing was cut short, what completes it may merge again.
        use_connections_master()
        ctx = open_context(project_dir, pipeline)
        row = ctx.ledger.batches.get(batch_id)
        advice.heed(row)
        if row is None or row.state in CLOSED:
            return []
        if row.state == PUBLISHING:
            return list(stages.reconcile(ctx))
        log.warning("batch %s is not published: dropping what it staged", batch_id)
        return list(stages.give_up(ctx, batch_id))


def land_quarantined(project_dir: str, context: dict[str, Any]) -> list[str]:
    """Make batches of the files with quarantined records; skips if there are none.

    The ledger keeps the reason and the user who asked.
    """
    pipeline = pipeline_of_form(context)
    with advised("land", pipeline) as advice:
        batch, how = context["params"]["batch"] or "", reprocess_of_form(context)
        use_connections_master()
        user = user_of_run(context)
        signature = f"(asked for by {user})" if user else ""
        ctx = open_context(project_dir, pipeline)
        if batch:
            with about_form(advice):
                require_published(ctx, batch)
        manifests = reprocess.land_quarantined(ctx, batch, how, signature=signature)
        if not manifests:
            skip(f"{pipeline}: nothing in quarantine is unresolved")
        return mappable(ctx, manifests)


def roll_back(project_dir: str, context: dict[str, Any]) -> list[str]:
    """Do what the form of `sluice_rollback` requests; return what was done."""
    pipeline = pipeline_of_form(context)
    with advised("rollback", pipeline) as advice:
        with about_form(advice):
            request = rollback_request(context)
            refuse_late(context, request)
        # Where later batches are built on what is undone, a driver folds keys again.
        use_connections_master()
        lines = rollback.roll_back(open_context(project_dir, pipeline), request)
        for line in lines:
            log.info("%s", shown(line))
        return lines
