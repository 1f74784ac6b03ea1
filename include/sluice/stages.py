"""The stages of a batch outside Spark: what the command line and the DAG's tasks both call."""

from __future__ import annotations

from collections.abc import Iterable

from sluice import ledger as states
from sluice.context import Context, open_context
from sluice.deadletters import trace
from sluice.errors import PublishRefused, SluiceError, TerminalError
from sluice.land import Window, land
from sluice.leases import this_holder
from sluice.ledger import Publication
from sluice.manifest import Manifest
from sluice.result import BatchResult, StagedTable
from sluice.snapshots import head, is_published, publish_table
from sluice.submit import LOAD_BATCH, spark_conf, submit
from sluice.undo import drop_all_branches, published_after, release, rollback, rollback_to

__all__ = [
    "BatchResult",
    "Context",
    "Window",
    "current_result",
    "land",
    "load",
    "load_and_publish",
    "open_context",
    "publish",
    "published_after",
    "reconcile",
    "release",
    "rollback",
    "rollback_to",
    "run",
    "spark_conf",
]  # fmt: skip

MERGE_AGAIN_AT_MOST = 3


def load(ctx: Context, manifest_key: str) -> BatchResult:
    """Run the Spark driver for a landed batch and wait for it.

    Raises TransientError or TerminalError with the driver's own message.
    """
    manifest = ctx.files.read_manifest(manifest_key)
    ctx.say(f"load: batch {manifest.batch_id}, {len(manifest.files)} files")
    submit(ctx.project, LOAD_BATCH, "--manifest", manifest_key)
    return current_result(ctx, manifest.batch_id)


def current_result(ctx: Context, batch_id: str) -> BatchResult:
    """What the batch's current attempt staged; raises TerminalError where nothing is loaded."""
    row = ctx.ledger.batch(ctx.pipeline.name, batch_id)
    if row is None or not row.attempt:
        raise TerminalError(f"batch {batch_id} of {ctx.pipeline.name} is not loaded yet")
    return ctx.files.read_result(ctx.pipeline.name, batch_id, row.attempt)


def publish(ctx: Context, manifest_key: str) -> BatchResult:
    """Point `main` of every table at the batch's branch; merge again where `main` has moved.

    Raises PublishRefused after a bounded number of tries, LeaseHeld when a later attempt has
    taken the batch over.
    """
    manifest = ctx.files.read_manifest(manifest_key)
    batch_id = manifest.batch_id
    for attempt in range(MERGE_AGAIN_AT_MOST):
        result = current_result(ctx, batch_id)
        try:
            _publish(ctx, manifest, result)
            return result
        except PublishRefused as refused:
            if attempt + 1 == MERGE_AGAIN_AT_MOST:
                raise
            ctx.say(f"publish: {refused}; merging the batch again on the new head")
            load(ctx, manifest_key)
    raise TerminalError(f"batch {batch_id}: not published")


def _publish(ctx: Context, manifest: Manifest, result: BatchResult) -> None:
    row = ctx.ledger.batch(ctx.pipeline.name, result.batch_id)
    if row is not None and row.state in (states.PUBLISHED, states.ROLLED_BACK):
        ctx.say(f"publish: batch {result.batch_id} is {row.state}; nothing to do")
        return
    _hold(ctx, result)
    staged = [s for table in result.tables for s in table.staged]
    ctx.ledger.record_publications(_intents(ctx, result, staged))
    ctx.ledger.record_batch(
        ctx.pipeline.name, result.batch_id, states.PUBLISHING, attempt=result.attempt
    )
    refuse_moved(ctx, staged)
    for table in staged:
        publish_table(ctx.catalog, table, result.batch_id)
        ctx.say(f"publish: {table.namespace}.{table.name} is at snapshot {table.head_snapshot}")
    ctx.ledger.record_publications(_intents(ctx, result, staged, states.PUBLISHED))
    ctx.ledger.mark_files(ctx.pipeline.name, result.batch_id, states.FILE_LOADED)
    ctx.ledger.record_batch(
        ctx.pipeline.name, result.batch_id, states.PUBLISHED,
        detail=_detail(result) | trace(manifest.reprocess),
    )  # fmt: skip
    ctx.files.forget_staged(manifest)
    ctx.files.forget_scratch(ctx.pipeline.name, result.batch_id)


def _hold(ctx: Context, result: BatchResult) -> None:
    ctx.ledger.renew_lease(
        ctx.pipeline.name,
        result.batch_id,
        result.attempt,
        this_holder(),
        ctx.pipeline.lease_seconds,
    )


def refuse_moved(ctx: Context, staged: Iterable[StagedTable]) -> None:
    """Look at every table before the first commit: most races end here, with nothing published."""
    for table in staged:
        now = ctx.catalog.load_table((table.namespace, table.name))
        if not is_published(now, table) and head(now) != table.base_snapshot:
            raise PublishRefused(
                f"{table.namespace}.{table.name}: main is at {head(now)}, "
                f"the batch was staged on {table.base_snapshot}"
            )


def _intents(
    ctx: Context, result: BatchResult, staged: list[StagedTable], state: str = states.INTENT
) -> list[Publication]:
    return [
        Publication(
            ctx.pipeline.name, result.batch_id, result.attempt, s.namespace, s.name,
            s.base_snapshot, s.base_schema, None, s.head_snapshot, s.branch, s.created, state,
        )
        for s in staged
    ]  # fmt: skip


def _detail(result: BatchResult) -> dict[str, object]:
    newest = [t.newest_source_ts for t in result.tables if t.newest_source_ts]
    total = sum((t.counts for t in result.tables), result.unassigned)
    return {
        "read": total.read,
        "applied": total.applied,
        "quarantined": total.quarantined,
        "newest_source_ts": max(newest, default=""),
        "seconds": result.seconds,
    }


def reconcile(ctx: Context) -> list[str]:
    """Finish or undo what dead attempts left; returns the manifests of batches to load again.

    A publication that was under way is completed; branches of failed attempts are dropped; a
    batch whose lease somebody still holds is left alone.
    """
    again: list[str] = []
    for row in ctx.ledger.unfinished(ctx.pipeline.name):
        if not ctx.ledger.has_lapsed(row):
            ctx.say(f"reconcile: batch {row.batch_id} is {row.state}, held by {row.holder}")
            continue
        key = row.manifest or ctx.files.manifest_key(ctx.pipeline.name, row.batch_id)
        if row.state == states.PUBLISHING:
            ctx.say(f"reconcile: completing the publication of batch {row.batch_id}")
            publish(ctx, key)
            continue
        drop_all_branches(ctx, row.batch_id)
        again.append(key)
    return again


def run(
    ctx: Context, window: Window | None = None, files: list[str] | None = None
) -> tuple[list[BatchResult], SluiceError | None]:
    """All stages: what earlier attempts left first, then what has landed.

    A batch that fails does not keep the next ones waiting; the first failure is handed back.
    """
    return load_and_publish(ctx, [*reconcile(ctx), *land(ctx, window=window, files=files)])


def load_and_publish(
    ctx: Context, manifests: list[str]
) -> tuple[list[BatchResult], SluiceError | None]:
    """The stages of landed batches, one after the other; see `run`."""
    results: list[BatchResult] = []
    failure: SluiceError | None = None
    for key in manifests:
        try:
            load(ctx, key)
            results.append(publish(ctx, key))
        except SluiceError as error:
            failure = failure or error
            ctx.say(f"{type(error).__name__}: {error}")
            for line in rollback(ctx, ctx.files.read_manifest(key).batch_id):
                ctx.say(f"rollback: {line}")
    return results, failure
