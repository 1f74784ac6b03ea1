"""Options of the tables of a plan: partitions, properties, identifier fields."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from sluice import names
from sluice.config.partitions import Partition
from spark_jobs.planning.plan import TablePlan
from spark_jobs.quoting import quoted

COPY_ON_WRITE: Final = "copy-on-write"  # Iceberg's default of MERGE_MODE
MERGE_MODE: Final = "write.merge.mode"
_COMMON: Final = {
    "format-version": "2",
    "commit.retry.num-retries": "20",
    "commit.retry.max-wait-ms": "5000",
    "write.metadata.delete-after-commit.enabled": "true",
    "write.metadata.previous-versions-max": "20",
}
# By default a file's bounds hold the first 16 characters of a string.
_BOUNDED: Final = {f"write.metadata.metrics.column.{names.POSITION}": "full"}


@dataclass(frozen=True)
class TableOptions:
    """Options of a table to create; `rewrites`: its rows may be rewritten for a wider type."""

    partition: str
    properties: dict[str, str]
    identifier: Sequence[str]
    rewrites: bool


def target_options(plan: TablePlan, pipeline: str) -> TableOptions:
    """Options of a target; Iceberg refuses floating-point identifier fields."""
    mode = plan.config.write_mode
    properties = {
        **_marks(plan, pipeline),
        "format-version": str(plan.config.format_version),
        **_write_modes(mode),
    }
    floating = any(c.stored.name in ("float", "double") for c in plan.columns if c.name in plan.key)
    identifier = () if floating else plan.key
    partition = _partitioned(plan.config.partitions)
    return TableOptions(partition, properties, identifier, plan.follows)


def history_options(plan: TablePlan, pipeline: str) -> TableOptions:
    """Options of a history."""
    return _beside_options(plan, pipeline, {names.PROP_HISTORY_OF: plan.name})


def events_options(plan: TablePlan, pipeline: str) -> TableOptions:
    """Options of a table of events."""
    return _beside_options(plan, pipeline, {names.PROP_EVENTS_OF: plan.name, **_BOUNDED})


def _beside_options(plan: TablePlan, pipeline: str, marks: Mapping[str, str]) -> TableOptions:
    properties = {**target_options(plan, pipeline).properties, **marks}
    columns = set(plan.data)
    partition = _partitioned([p for p in plan.config.partitions if p.column in columns])
    return TableOptions(partition, properties, (), plan.follows)


def changelog_options(plan: TablePlan, pipeline: str) -> TableOptions:
    """Options of a changelog, which has one partition per batch."""
    properties = {**_marks(plan, pipeline), "write.distribution-mode": "none"}
    partition = f"PARTITIONED BY ({quoted(names.BATCH_ID)})"
    return TableOptions(partition, properties, (), plan.follows)


def tombstone_options(plan: TablePlan, pipeline: str) -> TableOptions:
    """Options of a table of tombstones."""
    properties = {**_marks(plan, pipeline), **_write_modes("merge-on-read")}
    return TableOptions("", properties, (), plan.follows)


def _marks(plan: TablePlan, pipeline: str) -> dict[str, str]:
    return {
        **_COMMON,
        names.PROP_PIPELINE: pipeline,
        names.PROP_SOURCE: plan.source.name,
        names.PROP_KEY: names.encode_key(plan.key),
    }


def _write_modes(mode: str) -> dict[str, str]:
    return {f"write.{written}.mode": mode for written in ("merge", "update", "delete")}


def _partitioned(fields: Sequence[Partition]) -> str:
    return f"PARTITIONED BY ({', '.join(p.sql for p in fields)})" if fields else ""
