"""The type of a column by the name that Kafka Connect or Debezium gives its values."""

from __future__ import annotations

import pytest

from sluice.types.columns import parse_type
from spark_jobs.formats.common.connect import connect_type


@pytest.mark.parametrize(
    ("name", "physical", "kind"),
    [
        ("org.apache.kafka.connect.data.Date", "int32", "date[days]"),
        ("org.apache.kafka.connect.data.Time", "int32", "time[ms]"),
        ("org.apache.kafka.connect.data.Timestamp", "int64", "timestamp_ntz[ms]"),
        ("io.debezium.time.Date", "int32", "date[days]"),
        ("io.debezium.time.Time", "int32", "time[ms]"),
        ("io.debezium.time.MicroTime", "int64", "time[us]"),
        ("io.debezium.time.NanoTime", "int64", "time[ns]"),
        ("io.debezium.time.Timestamp", "int64", "timestamp_ntz[ms]"),
        ("io.debezium.time.MicroTimestamp", "int64", "timestamp_ntz[us]"),
        ("io.debezium.time.NanoTimestamp", "int64", "timestamp_ntz[ns]"),
        ("io.debezium.time.ZonedTimestamp", "string", "timestamp"),
        ("io.debezium.time.ZonedTime", "string", "string"),
        ("io.debezium.time.Year", "int32", "int"),
        ("io.debezium.time.MicroDuration", "int64", "bigint"),
        ("io.debezium.data.Bits", "bytes", "binary[base64]"),
        ("io.debezium.data.Enum", "string", "string"),
    ],
)
def test_the_semantic_types(name: str, physical: str, kind: str) -> None:
    """By Debezium's documents: days and parts of a second are counted as each name says."""
    assert connect_type({"type": physical, "name": name}) == parse_type(kind)
