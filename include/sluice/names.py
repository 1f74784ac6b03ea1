"""Shared names: metadata columns, namespaces, tables, properties, branches, tags."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Final

CATALOG: Final = "lake"
LEDGER_NAMESPACE: Final = "sluice"
# Folder of the batches' files in the warehouse, beside the tables.
BATCH_FILES: Final = "_sluice"
# Schemas that DuckDB and PostgreSQL have in every database.
NAMESPACES_OF_SQL: Final = ("information_schema", "pg_catalog")

# Metadata columns of a target.
POSITION: Final = "_position"
SOURCE_TS: Final = "_source_ts"
BATCH_ID: Final = "_batch_id"
TARGET_METADATA: Final = (POSITION, SOURCE_TS, BATCH_ID)

# More metadata columns of a changelog.
OP: Final = "_op"
TX_ID: Final = "_tx_id"
EVENT_ID: Final = "_event_id"
ABSENT: Final = "_absent"
COUNTED: Final = "_counted"
ORIGIN_FILE: Final = "_origin_file"
ORIGIN_RECORD: Final = "_origin_record"
CHANGELOG_METADATA: Final = (
    OP, *TARGET_METADATA, TX_ID, EVENT_ID, ABSENT, COUNTED, ORIGIN_FILE, ORIGIN_RECORD,
)  # fmt: skip

# Metadata columns of a history, and more of a target with soft deletes.
VALID_FROM: Final = "_valid_from"
VALID_TO: Final = "_valid_to"
IS_CURRENT: Final = "_is_current"
POSITION_TO: Final = "_position_to"
HISTORY_METADATA: Final = (VALID_FROM, VALID_TO, IS_CURRENT, POSITION, POSITION_TO, BATCH_ID)
DELETED_AT: Final = "_deleted_at"
IS_DELETED: Final = "_is_deleted"
DELETED_POSITION: Final = "_deleted_position"
SOFT_DELETE_METADATA: Final = (DELETED_AT, IS_DELETED, DELETED_POSITION)
EVENTS_METADATA: Final = (OP, *TARGET_METADATA, TX_ID, EVENT_ID, ABSENT)

RESERVED_COLUMNS: Final = frozenset(
    (*TARGET_METADATA, *CHANGELOG_METADATA, *HISTORY_METADATA, *SOFT_DELETE_METADATA)
)

# Prefix of columns that Sluice adds to those of a source.
OWN_COLUMNS: Final = "_sluice_"

BRANCHES: Final = "batch_"
"""Prefix of the branches of batches."""

# Table properties.
PROP_KEY: Final = "sluice.key"
PROP_PIPELINE: Final = "sluice.pipeline"
PROP_SOURCE: Final = "sluice.source"
PROP_PARTIALS: Final = "sluice.partials"
PROP_SHAPES: Final = "sluice.shapes"
PROP_DEFAULTS: Final = "sluice.defaults"
# The key of the renames in the JSON of PROP_DEFAULTS: no column has an empty name.
RENAMES_IN_DEFAULTS: Final = ""
PROP_HINTS: Final = "sluice.hints"
PROP_HIGHEST: Final = "sluice.highest-position"
PROP_HISTORY_OF: Final = "sluice.history-of"
PROP_EVENTS_OF: Final = "sluice.events-of"
PROP_GAP: Final = "sluice.history-gap-after"
PROP_GAP_COLUMNS: Final = "sluice.gap-told"
PROP_FLOOR: Final = "sluice.floor"
PROP_MAINTAINED: Final = "sluice.maintained-at"

_BESIDE: Final = "__cdc"
_CHANGES: Final = "__changes"
_TOMBSTONES: Final = "__tombstones"
_HISTORY: Final = "__history"
_DROPPED: Final = "__dropped"
_EVENTS: Final = "__events"

# Snapshot summary properties.
SUMMARY_PIPELINE: Final = "sluice.pipeline"
SUMMARY_BATCH: Final = "sluice.batch"
SUMMARY_ATTEMPT: Final = "sluice.attempt"
SUMMARY_VERSION: Final = "sluice.version"
SUMMARY_MAINTENANCE: Final = "sluice.maintenance"


def changelog_namespace(namespace: str) -> str:
    """Return the namespace of changelogs and tombstones for a namespace of targets."""
    return f"{namespace}{_BESIDE}"


def is_changelog_namespace(namespace: str) -> bool:
    """Whether a namespace is for changelogs and tombstones."""
    return namespace.endswith(_BESIDE)


def target_namespace(namespace: str) -> str:
    """Return a pipeline's namespace, given it or its changelog namespace."""
    return namespace.removesuffix(_BESIDE)


def changelog_table(target: str) -> str:
    """Return the name of a target's changelog."""
    return f"{target}{_CHANGES}"


def target_of_changelog(name: str) -> str:
    """Return the target's name, given its changelog's."""
    return name.removesuffix(_CHANGES)


def is_changelog(namespace: str, name: str) -> bool:
    """Whether a name is a changelog's."""
    return is_changelog_namespace(namespace) and name.endswith(_CHANGES)


def tombstone_table(target: str) -> str:
    """Return the name of a target's tombstone table."""
    return f"{target}{_TOMBSTONES}"


def dropped_column(name: str) -> str:
    """Return the name of the column that keeps the values of a dropped column whose name is
    in use again."""
    return name + _DROPPED


def history_table(target: str) -> str:
    """Return the name of a target's history, in the same namespace."""
    return f"{target}{_HISTORY}"


def events_table(target: str) -> str:
    """Return the name of a target's table of events, in the same namespace."""
    return f"{target}{_EVENTS}"


def mode_tables(target: str) -> tuple[str, ...]:
    """Return the tables that a target's modes may add in the target's namespace."""
    return history_table(target), events_table(target)


def published_tables(target: str) -> frozenset[str]:
    """Return all tables that a batch publishes for a target."""
    return frozenset((target, tombstone_table(target), *mode_tables(target)))


def tables_of_target(namespace: str, target: str) -> list[tuple[str, str]]:
    """Return all tables that a pipeline may create for a target, the changelog last."""
    beside = changelog_namespace(namespace)
    return [
        (namespace, target),
        *((namespace, name) for name in mode_tables(target)),
        (beside, tombstone_table(target)),
        (beside, changelog_table(target)),
    ]


def owner_target(properties: Mapping[str, str]) -> str | None:
    """Return the target that a table with these properties belongs to; None for a target."""
    return properties.get(PROP_HISTORY_OF) or properties.get(PROP_EVENTS_OF)


def full_name(namespace: str, name: str) -> str:
    """Return a table as people write it."""
    return f"{namespace}.{name}"


def branch_name(batch_id: str, attempt: str) -> str:
    """Return the branch of one attempt of a batch; attempts never share one."""
    return f"{BRANCHES}{batch_id}_{attempt}".replace("-", "_")


def tag_name(batch_id: str) -> str:
    """Return the tag that a published batch leaves on each of its tables."""
    return f"batch-{batch_id}"


def encode_key(key: tuple[str, ...]) -> str:
    """Return key columns as a table property."""
    return json.dumps(list(key), ensure_ascii=False)


def key_of(properties: Mapping[str, str]) -> tuple[str, ...]:
    """Return the key columns of a table with these properties, as `encode_key` wrote them; ()
    without a key."""
    return tuple(json.loads(properties.get(PROP_KEY, "[]")))
