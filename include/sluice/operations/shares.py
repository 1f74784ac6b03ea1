"""Shares: with `consistency: table`, the tables without which a batch was published.

Each becomes a batch of its own, with the same files, for that table alone. It is recorded as
failed, so that the next run loads it, and is done when it is published.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from sluice.config.pipeline import Pipeline
from sluice.config.source_tables import listed_name
from sluice.counting import counted
from sluice.errors import TablesLeftOutError
from sluice.faults import Point, reach
from sluice.ledger import details, states
from sluice.ledger.rows import BatchRow, may_land
from sluice.manifest import Manifest, name_by_content
from sluice.operations.context import Context
from sluice.operations.selection import FileHour
from sluice.result import BatchResult


def split_off(ctx: Context, manifest: Manifest, result: BatchResult) -> None:
    """Make a batch for each table without which a batch is published.

    Does nothing for one that exists already, or that was given up after this very attempt made it.
    """
    made_by = details.left_out_by(result.attempt)
    for left in result.left_out:
        share = share_of(ctx.pipeline, manifest, left.source, result.epoch)
        key = ctx.files.write_manifest(share)
        reach(Point.PUBLISH_SHARE)
        ctx.ledger.batches.record(
            share.batch_id, states.FAILED, manifest=key,
            replace_details=details.failed(left.error) | details.of_tables(share)
            | details.of_share(share) | made_by,
            expected=lambda row: may_land(row) and not _has_details(row, made_by),
        )  # fmt: skip
        reach(Point.PUBLISH_SHARE)


def _has_details(row: BatchRow | None, wanted: Mapping[str, str]) -> bool:
    return row is not None and wanted.items() <= row.details.items()


def share_of(pipeline: Pipeline, manifest: Manifest, source: str, epoch: int) -> Manifest:
    """Return the manifest of a batch for one source table alone, without the rejects of landing.

    Its events keep the epoch at which the batch was loaded, whenever they are loaded.
    """
    listed = listed_name(pipeline.tables, source) if pipeline.tables else None
    share = replace(
        manifest, batch_id="", tables=(listed or source,), rejects=(), share_of=manifest.batch_id,
        epoch=epoch,
    )  # fmt: skip
    return replace(share, batch_id=name_by_content(share))


def waiting_files(ctx: Context, row: BatchRow) -> list[FileHour]:
    """Return the files that an unfinished batch claimed or, if it is a share, reads."""
    if details.SHARE_OF not in row.details:
        claimed = ctx.ledger.files.of_batch(row.batch_id)
        return [FileHour(file.object_key, file.hour) for file in claimed]
    return [FileHour(file.key, file.hour) for file in ctx.files.read_manifest(row.manifest).files]


def error_for_left_out(
    ctx: Context, manifest: Manifest, result: BatchResult
) -> TablesLeftOutError | None:
    """Return the error of a published batch with unfinished shares; None if it has none."""
    wrong = []
    for left in result.left_out:
        share = share_of(ctx.pipeline, manifest, left.source, result.epoch).batch_id
        row = ctx.ledger.batches.get(share)
        if row is None or row.state not in states.FINISHED:
            wrong.append(
                f"{left.source} ({counted(left.records, 'record')}) is left to batch {share}: "
                f"{left.error}"
            )
    if not wrong:
        return None
    return TablesLeftOutError(
        f"batch {result.batch_id} of {ctx.pipeline.name} is published without:\n"
        + "\n".join(wrong)
        + "\nA later run loads what was left out again. To go on without it: sluice rollback "
        f"{ctx.pipeline.name} --batch ID, with the batch that it is left to"
    )
