"""The columns of a target and of its other tables."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from sluice import names
from spark_jobs.planning.plan import TablePlan

_CHANGELOG_TYPES: Final = {
    names.OP: "string", names.POSITION: "string", names.SOURCE_TS: "timestamp",
    names.BATCH_ID: "string", names.TX_ID: "string", names.EVENT_ID: "string",
    names.ABSENT: "array<string>", names.COUNTED: "boolean", names.ORIGIN_FILE: "string",
    names.ORIGIN_RECORD: "bigint",
}  # fmt: skip
_HISTORY_TYPES: Final = {
    names.VALID_FROM: "timestamp", names.VALID_TO: "timestamp", names.IS_CURRENT: "boolean",
    names.POSITION: "string", names.POSITION_TO: "string", names.BATCH_ID: "string",
}  # fmt: skip
_SOFT_DELETE_TYPES: Final = {
    names.DELETED_AT: "timestamp", names.IS_DELETED: "boolean", names.DELETED_POSITION: "string",
}  # fmt: skip


@dataclass(frozen=True)
class NewColumn:
    """A column to create: name, Spark type, and whether it is NOT NULL."""

    name: str
    type: str
    required: bool = False


def target_columns(plan: TablePlan) -> list[NewColumn]:
    """Return a target's columns: the source's, the audit columns, the marks of deleted rows; keys
    are NOT NULL."""
    data = [NewColumn(c.name, c.stored.spark, c.name in plan.key) for c in plan.columns]
    data += [NewColumn(n, _CHANGELOG_TYPES[n]) for n in names.TARGET_METADATA]
    return data + [NewColumn(n, t) for n, t in _SOFT_DELETE_TYPES.items() if plan.soft_delete]


def history_columns(plan: TablePlan) -> list[NewColumn]:
    """Return a history's columns: the source's and those of a version; keys are NOT NULL."""
    data = [NewColumn(c.name, c.stored.spark, c.name in plan.key) for c in plan.columns]
    return data + [NewColumn(n, t) for n, t in _HISTORY_TYPES.items()]


def events_columns(plan: TablePlan) -> list[NewColumn]:
    """Return the columns of a table of events: the source's, NULL in a TRUNCATE, and an event's."""
    data = [NewColumn(c.name, c.stored.spark) for c in plan.columns]
    return data + [NewColumn(n, _CHANGELOG_TYPES[n]) for n in names.EVENTS_METADATA]


def changelog_columns(plan: TablePlan) -> list[NewColumn]:
    """Return a changelog's columns: the source's, all nullable, and the metadata of an event."""
    data = [NewColumn(c.name, c.stored.spark) for c in plan.columns]
    return data + [NewColumn(n, _CHANGELOG_TYPES[n]) for n in names.CHANGELOG_METADATA]


def tombstone_columns(plan: TablePlan) -> list[NewColumn]:
    """Return a tombstone's columns: key and audit; the tombstone of a whole table has NULL keys."""
    keys = [NewColumn(c.name, c.stored.spark) for c in plan.columns if c.name in plan.key]
    return keys + [NewColumn(n, _CHANGELOG_TYPES[n]) for n in names.TARGET_METADATA]
