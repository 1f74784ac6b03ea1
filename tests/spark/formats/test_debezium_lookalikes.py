"""Records that look like nothing but are something: none of them passes without a word."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from sluice.config.format_options import DebeziumOptions
from spark_jobs.formats.debezium.decoder import Debezium
from tests.spark.debezium_events import DEFAULT_PLACEHOLDER, ROW, event, source
from tests.spark.envelopes import jsonl
from tests.spark.sandbox import Sandbox, total

DEFAULTS = DebeziumOptions()
pytestmark = pytest.mark.spark

HEARTBEAT = {"ts_ms": 1700000000000}
MARKER = {"status": "END", "id": "5:1", "event_count": 1, "data_collections": None, "ts_ms": 1}
NEWER_MARKER = MARKER | {"commit_lsn": 53195829}
NOTHING = {"key": {"id": 1}, "value": None}


def outcomes(spark: SparkSession, folder: Path, *records: Any) -> list[tuple[str, str]]:
    decoded = Debezium().read(spark, (jsonl(folder / "a.jsonl", records),), DEFAULTS)
    rows = decoded.orderBy("block", "ordinal").collect()
    return [(row["outcome"], row["reason"]) for row in rows]


def test_heartbeats_markers_and_tombstones_are_ignored(spark: SparkSession, tmp_path: Path) -> None:
    found = outcomes(spark, tmp_path, HEARTBEAT, MARKER, NOTHING, {"payload": HEARTBEAT})
    assert found == [
        ("ignore", "heartbeat"), ("ignore", "transaction_marker"), ("ignore", "tombstone"),
        ("ignore", "heartbeat"),
    ]  # fmt: skip


@pytest.mark.parametrize("placed", [NEWER_MARKER, {"schema": {}, "payload": NEWER_MARKER}])
def test_marker_with_a_field_of_a_newer_version_is_ignored(
    spark: SparkSession, tmp_path: Path, placed: Any
) -> None:
    """PostgreSQL's has `commit_lsn` since debezium/debezium#7764; without events beside it too."""
    lake = Sandbox(spark, tmp_path / "lake", {"format": "debezium"})
    made = {"key": {"id": 1}, "value": event()}
    counts = total(lake.load_records([made, placed]))
    assert (counts.applied, counts.ignored, counts.quarantined) == (1, 1, 0)
    assert outcomes(spark, tmp_path, placed) == [("ignore", "transaction_marker")]


@pytest.mark.parametrize(
    "record",
    [
        {"id": 1, "ts_ms": 5, "note": "a row with a column ts_ms"},
        {"id": 1, "status": "END", "note": "a row with a column status"},
        {"id": 1, "status": "BEGIN", "event_count": 1, "note": "and one with a count"},
        {"id": 1, "status": "ACTIVE", "ts_ms": 5},
        {"id": 1, "status": "ACTIVE", "event_count": 2, "data_collections": None, "ts_ms": 5},
        {"id": 1, "isHeartbeat": True},
        {"key": {"id": 1}, "content": event()},
        {"key": "5", "message": json.dumps(event())},
    ],
)
def test_lookalikes_of_heartbeats_and_markers_are_rejected(
    spark: SparkSession, tmp_path: Path, record: Any
) -> None:
    assert outcomes(spark, tmp_path, record) == [("reject", "not_an_envelope")]


@pytest.mark.parametrize("beside", [{"ts_ms": 5}, {"status": "END"}])
def test_a_row_beside_events_is_not_passed_over(
    spark: SparkSession, tmp_path: Path, beside: dict[str, Any]
) -> None:
    row = {"before": None, "after": {"id": 1}, **beside}
    found = outcomes(spark, tmp_path, event(), row, HEARTBEAT, MARKER)
    assert found == [
        ("event", None), ("reject", "not_an_envelope"), ("ignore", "heartbeat"),
        ("ignore", "transaction_marker"),
    ]  # fmt: skip


def test_row_without_its_envelope_is_distinguished_from_a_heartbeat_by_its_columns(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Beside events, wherever it stands; in a batch that is read as the one before told too."""
    lake = Sandbox(spark, tmp_path, {"format": "debezium"})
    rows = [
        {"id": 7, "ts_ms": 5}, {"ts_ms": 5, "note": "a"}, {"payload": {"ts_ms": 5, "note": "b"}},
        {"id": 8, "status": "END", "note": "c"}, {"id": 9, "ts_ms": 5, "ratio": float("nan")},
        {"key": None, "value": {"ts_ms": 5, "op": None, "source": None}},
    ]  # fmt: skip
    for n, more in enumerate([[], rows, []]):
        made = {"key": {"id": n}, "value": event("c", source(pos=n), after={"id": n})}
        counts = total(lake.load_records([made, HEARTBEAT, MARKER, {"payload": HEARTBEAT}, *more]))
        assert (counts.ignored, counts.quarantined) == (3, len(more))
    assert {row["reason"] for row in lake.quarantined()} == {"not_an_envelope"}
    assert sorted(row["id"] for row in lake.rows("t")) == ["0", "1", "2"]


def test_a_row_with_a_key_and_a_value_is_no_tombstone(spark: SparkSession, tmp_path: Path) -> None:
    lake = Sandbox(spark, tmp_path, {"format": "debezium"})
    keys = [
        'a", "b',
        "",
        1.5,
        True,
        None,
        [1],
        {"id": 1},
        {"schema": {"a": []}, "payload": {"a": 1}},
    ]
    nothing = [{"key": key, "value": None} for key in keys]
    rows = [{"key": key, "name": "x", "value": None} for key in ("a", 1, None)]
    made = {"key": {"id": 1}, "value": event("c", source(), after={"id": 1})}
    counts = total(lake.load_records([made, *nothing, *rows]))
    assert (counts.applied, counts.ignored, counts.quarantined) == (1, len(nothing), len(rows))


def test_quotes_that_json_has_not_are_refused(spark: SparkSession, tmp_path: Path) -> None:
    """Where Spark read them, a second document on the line would be lost."""
    line = json.dumps(event())
    single = line.replace('"', "'")
    found = outcomes(spark, tmp_path, line, single + single)
    assert found == [("event", None), ("reject", "not_json")]


@pytest.mark.parametrize("value", [{DEFAULT_PLACEHOLDER: DEFAULT_PLACEHOLDER}, [1, 2]])
def test_blanks_that_python_writes_change_no_value(
    spark: SparkSession, tmp_path: Path, value: Any
) -> None:
    """`jsonl` writes as Python's json does; a map of placeholders says that nothing was sent."""
    update = event("u", after={"id": 1, "tags": value})
    file = jsonl(tmp_path / "a.jsonl", [update])
    (row,) = Debezium().read(spark, (file,), DEFAULTS).collect()
    assert (row["absent"] is not None) == isinstance(value, dict)


@pytest.mark.parametrize("key", ['{"id": 10.50}', '{"schema":{},"payload":{"id":10.50}}'])
def test_a_key_has_the_digits_that_it_came_with(
    spark: SparkSession, tmp_path: Path, key: str
) -> None:
    """A delete without its row is of the row that its key names."""
    record = f'{{"key":{key},"value":{json.dumps(event("d", before=None))}}}'
    file = jsonl(tmp_path / "a.jsonl", [record])
    (row,) = Debezium().read(spark, (file,), DebeziumOptions(decimal_format="numeric")).collect()
    assert row["before"] == {"id": "10.50"}


def strange(connector: str, op: str, row: dict[str, Any], **about: Any) -> dict[str, Any]:
    """An event of a connector whose images may not be the row."""
    return event(op, source(connector, **about), after=row)


SET = {"value": 1, "set": True}
OF_YUGABYTE = "dz.2.5.2.yb.2024.1"  # its logical connector calls itself PostgreSQL's
SPANNER = ("spanner", "u", {"id": 1, "name": "b", "doc": None})


@pytest.mark.parametrize(
    ("record", "outcome"),
    [
        (strange("yugabytedb", "u", {"id": SET, "doc": None}), ("reject", "cell_envelope")),
        (strange("yugabytedb", "u", {"id": 1, "doc": None}), ("event", None)),
        (strange("yugabytedb", "u", {"id": {"value": 1}, "doc": None}),
         ("reject", "cell_envelope")),
        (strange("yugabytedb", "u", {"id": 1, "doc": {"value": 1}}), ("event", None)),
        (strange("postgresql", "u", {"id": SET, "doc": None}, version=OF_YUGABYTE),
         ("reject", "cell_envelope")),
        (strange("postgresql", "c", {"id": 1, "doc": SET}, version=OF_YUGABYTE), ("event", None)),
        (strange("postgresql", "c", {"doc": SET}, version="2.5.2.Final"), ("event", None)),
        (strange("cassandra", "r", {"id": {"deletion_ts": None, **SET}}),
         ("reject", "cell_envelope")),
        (strange("scylla", "u", {"id": 1, "v": {"value": "b"}, "w": None}, table="tab"),
         ("reject", "cell_envelope")),
        (strange(*SPANNER, value_capture_type="OLD_AND_NEW_VALUES"), ("reject", "row_not_sent")),
        (strange(*SPANNER, value_capture_type="NEW_ROW"), ("event", None)),
        (strange("spanner", "c", ROW, value_capture_type="NEW_VALUES"), ("event", None)),
    ],
)  # fmt: skip
def test_images_that_are_not_the_row_are_refused(
    spark: SparkSession, tmp_path: Path, record: Any, outcome: tuple[str, str | None]
) -> None:
    """Their NULL may be a value that stayed, or their values hold more than the column's."""
    assert outcomes(spark, tmp_path, record) == [outcome]


@pytest.mark.parametrize("op", ["u", "d"])
def test_field_that_topic_routing_adds_to_the_key_is_left_out(
    spark: SparkSession, tmp_path: Path, op: str
) -> None:
    key = {"__dbz__physicalTableIdentifier": "s.shop.t_1", "id": 1}
    record = {"key": key, "value": event(op, before=None)}
    (row,) = Debezium().read(spark, (jsonl(tmp_path / "a.jsonl", [record]),), DEFAULTS).collect()
    assert row["key"] == ["id"]
    assert row["before"] == ({"id": "1"} if op == "d" else None)


def test_a_routed_table_is_known_by_its_own_key(spark: SparkSession, tmp_path: Path) -> None:
    """In a second batch too, which is read as the first one told."""
    lake = Sandbox(spark, tmp_path, {"format": "debezium"})
    for n in (1, 2):
        key = {"__dbz__physicalTableIdentifier": "s.shop.t_1", "id": n}
        lake.load_records([{"key": key, "value": event("c", source(pos=n), after={"id": n})}])
    assert sorted(row["id"] for row in lake.rows("t")) == ["1", "2"]


@pytest.mark.parametrize(
    "name", [":1", ' ":1', "{ ", ",", '\\":1', "\\\\", '"'], ids=lambda name: f"name {name}"
)
def test_texts_of_a_key_are_no_members(spark: SparkSession, tmp_path: Path, name: str) -> None:
    """Fractions are quoted as they are written; what is within a text stays."""
    key = {name: ":1", "b": 1.5, "c": [{"d": ": 2.5"}], "e": -2e3, f"f{name}": name}
    delete = event("d", before=None, after=None)
    file = jsonl(tmp_path / "a.jsonl", [{"key": key, "value": delete}])
    (row,) = Debezium().read(spark, (file,), DEFAULTS).collect()
    assert row["before"] == {
        name: ":1", "b": "1.5", "c": '[{"d":": 2.5"}]', "e": "-2000.0", f"f{name}": name,
    }  # fmt: skip
