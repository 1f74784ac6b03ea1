"""The ledger's Iceberg tables: their names, columns, properties and partitions."""

from __future__ import annotations

from typing import Any, Final

from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC, PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    IntegerType,
    LongType,
    NestedField,
    PrimitiveType,
    StringType,
    TimestamptzType,
)

Row = dict[str, Any]

FILES: Final = "files"
BATCHES: Final = "batches"
PUBLICATIONS: Final = "publications"
QUARANTINE: Final = "quarantine"
RENAMES: Final = "renames"
COMMENTS: Final = "comments"
TRANSACTIONS: Final = "transactions"
# Written by Spark, one partition for each batch, without claims.
_BY_BATCH: Final = (QUARANTINE, TRANSACTIONS)

_STRING, _LONG, _TIME = StringType(), LongType(), TimestamptzType()
_COLUMNS: Final[dict[str, dict[str, PrimitiveType]]] = {
    FILES: {
        "pipeline": _STRING, "object_key": _STRING, "size": _LONG, "etag": _STRING,
        "version_id": _STRING, "sha256": _STRING, "modified": _TIME, "hour": _STRING,
        "batch_id": _STRING, "state": _STRING, "seq": _LONG, "at": _TIME,
    },
    BATCHES: {
        "pipeline": _STRING, "batch_id": _STRING, "attempt": _STRING, "state": _STRING,
        "holder": _STRING, "lease_until": _TIME, "seq": _LONG, "at": _TIME,
        "manifest": _STRING, "detail": _STRING,
    },
    # `base_spec` is always null; earlier releases need the column.
    PUBLICATIONS: {
        "pipeline": _STRING, "batch_id": _STRING, "attempt": _STRING, "namespace": _STRING,
        "table_name": _STRING, "base_snapshot": _LONG, "base_schema": IntegerType(),
        "base_spec": IntegerType(), "head_snapshot": _LONG, "branch": _STRING,
        "created": BooleanType(), "state": _STRING, "seq": _LONG, "at": _TIME,
    },
    QUARANTINE: {
        "pipeline": _STRING, "batch_id": _STRING, "source_table": _STRING, "reason": _STRING,
        "detail": _STRING, "raw": BinaryType(), "file": _STRING, "record": _LONG, "at": _TIME,
    },
    RENAMES: {
        "pipeline": _STRING, "batch_id": _STRING, "source_table": _STRING, "position": _STRING,
        "columns": _STRING, "problem": _STRING, "statement": _STRING, "seq": _LONG,
    },
    COMMENTS: {
        "pipeline": _STRING, "batch_id": _STRING, "namespace": _STRING, "table_name": _STRING,
        "position": _STRING, "turn": _LONG, "column_name": _STRING, "comment": _STRING,
        "seq": _LONG,
    },
    TRANSACTIONS: {"pipeline": _STRING, "batch_id": _STRING, "transaction": _STRING},
}  # fmt: skip
# Of the rows that agree in these columns, a rewrite may keep the last one alone: every renewal of a
# lease is a row.
SAME_STATE: Final = {
    FILES: ("pipeline", "object_key", "batch_id", "state"),
    BATCHES: ("pipeline", "batch_id", "attempt", "state"),
    PUBLICATIONS: ("pipeline", "batch_id", "attempt", "namespace", "table_name", "state"),
}
_TIDY: Final = {
    "format-version": "2",
    "write.metadata.delete-after-commit.enabled": "true",
    "write.metadata.previous-versions-max": "5",
}
_CLAIMED: Final = {
    **_TIDY,
    "commit.retry.num-retries": "0",
    "commit.manifest-merge.enabled": "true",
    "commit.manifest.min-count-to-merge": "16",
}


def schema_of(name: str) -> Schema:
    """Return the columns of a new table."""
    fields = (
        NestedField(number, column, kind, required=False)
        for number, (column, kind) in enumerate(_COLUMNS[name].items(), start=1)
    )
    return Schema(*fields)


def partition_spec_of(name: str) -> PartitionSpec:
    """Return the partitions of a new table."""
    if name not in _BY_BATCH:
        return UNPARTITIONED_PARTITION_SPEC
    batch = schema_of(name).find_field("batch_id").field_id
    return PartitionSpec(PartitionField(batch, 1000, IdentityTransform(), "batch_id"))


def properties_of(name: str) -> dict[str, str]:
    """Return the properties of a new table."""
    return _TIDY if name in _BY_BATCH else _CLAIMED
