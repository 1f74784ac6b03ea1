"""The published tables of a batch as Airflow's assets."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

from airflow.sdk import Asset

from sluice.names import is_changelog_namespace
from sluice.output.report import id_text
from sluice.result import BatchResult, StagedTable


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
