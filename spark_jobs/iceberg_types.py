"""Iceberg's types as Spark's, and the other way round."""

from __future__ import annotations

from pyiceberg.types import IcebergType, NestedField, TimestampType

from sluice.types.columns import parse_type


def spark_type_of(kind: IcebergType) -> str:
    """Return Spark's name of an Iceberg type; Iceberg's `timestamp` has no zone, Spark's has."""
    name = "timestamp_ntz" if isinstance(kind, TimestampType) else str(kind)
    return parse_type(name).spark


def iceberg_type_of(kind: str) -> IcebergType:
    """Return the Iceberg type of a column with a Spark type."""
    stored = parse_type(kind).spark
    named = {"bigint": "long", "timestamp": "timestamptz", "timestamp_ntz": "timestamp"}
    return NestedField(field_id=1, name="", type=named.get(stored, stored)).field_type
