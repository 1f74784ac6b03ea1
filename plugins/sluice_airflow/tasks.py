"""The functions of the tasks: each calls a stage of Sluice and says what to do if it fails."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

from airflow.sdk import AssetAlias

from sluice.escaping import shown
from sluice.ledger.states import CLOSED, FINISHED, LOADED, PUBLISHING
from sluice.manifest import Manifest
from sluice.objects.batch_files import batch_of, pipeline_of
from sluice.operations import reprocess, rollback, stages
from sluice.operations.context import Context
from sluice.operations.load import SAME_AGAIN
from sluice.operations.quarantined import require_published
from sluice.output.report import remarks
from sluice.result import BatchResult
from sluice_airflow.advice import Advice, about_form, advised, skip
from sluice_airflow.assets import alias_name, emit_assets
from sluice_airflow.connection import use_connections_master
from sluice_airflow.mapping import mappable
from sluice_airflow.requests import (
    pipeline_of_form,
    refuse_late,
    reprocess_of_form,
    rollback_request,
    user_of_run,
)

log = logging.getLogger(__name__)
# It has a line for each table that is opened, under which a task's own lines are lost.
logging.getLogger("pyiceberg.io").setLevel(logging.WARNING)


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
    return stages.open_context(Path(project_dir), pipeline, log.info, log.warning)


def publish(project_dir: str, manifest: str, context: dict[str, Any]) -> dict[str, Any]:
    """Publish the batch; the stage merges it again if `main` moved meanwhile."""
    pipeline = pipeline_of(manifest)
    with advised("publish", pipeline) as advice:
        use_connections_master()
        ctx = open_context(project_dir, pipeline)
        advice.choose_for(ctx.ledger.batches.get(batch_of(manifest)))
        result = stages.publish(ctx, manifest)
        emit_assets(result, context["outlet_events"][AssetAlias(alias_name(pipeline))])
        return summary(result)


def refuse_left_out(project_dir: str, manifest: str) -> None:
    """Raise TablesLeftOutError if the batch was published without some of its tables."""
    pipeline = pipeline_of(manifest)
    ctx = open_context(project_dir, pipeline)
    result = stages.current_result(ctx, batch_of(manifest))
    with advised("left_out", pipeline):
        if error := stages.error_for_left_out(ctx, ctx.files.read_manifest(manifest), result):
            raise error


def summary(result: BatchResult) -> dict[str, Any]:
    """Return counts for the task's return value, and log what needs attention."""
    tables = {table.target: vars(table.counts) for table in result.tables}
    log.info("published batch %s: %s", result.batch_id, json.dumps(tables, sort_keys=True))
    for table in result.tables:
        for line in remarks(table):
            log.warning("%s", shown(line))
    return {"batch_id": result.batch_id, "attempt": result.attempt, "tables": tables}


def loaded_as(ctx: Context, manifest: str, advice: Advice) -> str:
    """Return the batch's state if there is nothing to load: it is finished, or another run loaded
    it and is about to publish it. Otherwise "".

    `advice` is chosen by that state.
    """
    row = ctx.ledger.batches.get(batch_of(manifest))
    advice.choose_for(row)
    if row is None:
        return ""
    handed_on = row.state in (LOADED, PUBLISHING) and not ctx.ledger.lease.has_lapsed(row)
    return row.state if handed_on or row.state in FINISHED else ""


def clean_up(project_dir: str, manifest: str) -> list[str]:
    """Drop what a failed batch staged; a published one is left alone."""
    pipeline, batch_id = pipeline_of(manifest), batch_of(manifest)
    with advised("batch.rollback", pipeline) as advice:
        # Where publishing was cut short, what completes it may merge again.
        use_connections_master()
        ctx = open_context(project_dir, pipeline)
        row = ctx.ledger.batches.get(batch_id)
        advice.choose_for(row)
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
