"""Datastream JSON and Avro: operations, the order of four databases, keys, exact Avro values."""

from __future__ import annotations

import json
from decimal import Decimal, localcontext
from pathlib import Path
from typing import Any

import fastavro
import pytest
from pyspark.sql import Row, SparkSession

from sluice.coltypes import ColumnType, decimal
from sluice.errors import TerminalError
from sluice.manifest import SourceFile
from spark_jobs.canonical import ENVELOPE
from spark_jobs.formats.datastream import Datastream
from tests.spark.envelopes import (
    assert_rejected,
    assert_tables,
    at,
    by_name,
    decode_named,
    envelope_columns,
    expected_tables,
    fold,
    jsonl,
)

pytestmark = pytest.mark.spark


def event(payload: Any = None, **meta: Any) -> dict[str, Any]:
    """An event on table `t`; `top` replaces top-level fields, everything else is metadata."""
    top = meta.pop("top", {})
    metadata = {"database": "db", "table": "t", "change_type": "INSERT", "is_deleted": False}
    return {
        "uuid": "u",
        "source_timestamp": "2024-01-02T03:04:05.678Z",
        "read_method": "x-cdc",
        "source_metadata": metadata | meta,
        "payload": {"id": 1} if payload is None else payload,
    } | top


def mysql(file: str = "mysql-bin.000009", position: Any = 5, **meta: Any) -> dict[str, Any]:
    """A MySQL event at a place of the binary log."""
    return event(log_file=file, log_position=position, **meta)


EVENTS: dict[str, Any] = {
    "insert": mysql(),
    "update": mysql(change_type="UPDATE"),
    "update_insert": mysql(change_type="UPDATE-INSERT"),
    "delete": mysql(change_type="DELETE", is_deleted=True),
    "update_delete": mysql(change_type="UPDATE-DELETE", is_deleted=True),
    "update_delete_unmarked": event(change_type="UPDATE-DELETE", scn=7),
    "marked_deleted": mysql(change_type="UPDATE", is_deleted=True),
    "no_type": mysql(change_type=None),
    "no_type_backfill": event(change_type=None, is_deleted=None,
                              top={"read_method": "oracle-backfill"}),
    "untold": mysql(change_type=None, is_deleted=None),
    "unknown": mysql(change_type="MERGE"),
    "no_table": mysql(table=None),
    "no_payload": mysql(top={"payload": None}),
    "other": {"a": 1},
    "cut": '{"uuid": "',
    "twice": json.dumps(mysql()).replace('{"id": 1}', '{"id": 1, "id": 2}'),
    "exact": json.dumps(mysql()).replace(
        '{"id": 1}', '{"id": 12345678901234567890.123456789, "n": null, "x": 1.10}'),
    # order
    "mysql_10": mysql("mysql-bin.1000000", 4),
    "mysql_sorted": event(top={"sort_keys": [1, "mysql-bin.000009", 6]}),
    "mysql_gtid": event(binlog_file="mysql-bin.000009", binlog_position=7),
    "oracle": event(scn=15869116216871, rs_id=" 0x0073c9.000a4e4c.01d0 ", ssn=67, log_file=""),
    "oracle_sorted": event(top={"sort_keys": [1, 99, "0x000001.00000002.0003", 4]}),
    "oracle_bare": event(scn=100),
    "postgresql": event(lsn="A/FF", tx_id=751),
    "postgresql_later": event(lsn="10/1"),
    "sqlserver": event(lsn="00000025:00000728:0003"),
    "time_only": event(top={"sort_keys": [1640410924408]}),
    "backfill": mysql("", 0, top={"read_method": "mysql-backfill-fulldump"}),
    "backfill_newer": event(top={"read_method": "mysql-backfill-fulldump",
                                 "source_timestamp": "2024-01-02 03:04:06"}),
    "oracle_dump": event(scn=1706664, top={"read_method": "oracle_dump"}),
    "scn_minus_one": event(scn=-1),
    "empty_log": mysql("", 0),
    "binlog_named_backfill": mysql(top={"read_method": "mysql-cdc-binlog"}),
    # keys
    "key": mysql(primary_keys=["id"]),
    "key_index": event(replication_index=["id"], lsn="1:2:3"),
    "key_empty": mysql(primary_keys=[]),
    "key_unknown": mysql(primary_keys=["ID2"]),
    "key_half": mysql(primary_keys=["id", "other"]),
    "key_empty_index": event(primary_keys=[], replication_index=["id"], lsn="1:2:3"),
}  # fmt: skip


@pytest.fixture(scope="module")
def rows(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Row]:
    """Every event above, decoded in one read, by its name."""
    folder = tmp_path_factory.mktemp("datastream")
    return decode_named(spark, Datastream(), folder, EVENTS)


@pytest.mark.parametrize(
    ("name", "op"),
    [
        ("insert", "insert"), ("update", "update"), ("update_insert", "update"),
        ("delete", "delete"), ("update_delete", "delete"), ("update_delete_unmarked", "delete"),
        ("marked_deleted", "delete"), ("no_type", "insert"), ("no_type_backfill", "insert"),
    ],
)  # fmt: skip
def test_operations(rows: dict[str, Row], name: str, op: str) -> None:
    row = rows[name]
    assert (row["outcome"], row["op"], row["raw"]) == ("event", op, None)
    image, other = ("before", "after") if op == "delete" else ("after", "before")
    assert (row[image], row[other]) == ({"id": "1"}, None)


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("untold", "change_type_missing"), ("unknown", "unknown_op:MERGE"),
        ("no_table", "not_an_envelope"), ("no_payload", "not_an_envelope"),
        ("other", "not_an_envelope"), ("cut", "not_json"), ("twice", "duplicate_column"),
    ],
)  # fmt: skip
def test_rejects_say_why_and_keep_their_text(rows: dict[str, Row], name: str, reason: str) -> None:
    assert_rejected(rows[name], reason, EVENTS[name])


def test_images_keep_null_and_exact_text(rows: dict[str, Row]) -> None:
    assert rows["exact"]["after"] == {
        "id": "12345678901234567890.123456789",
        "n": None,
        "x": "1.10",
    }


@pytest.mark.parametrize(
    ("name", "position"),
    [
        ("insert", at(9, 5)), ("mysql_10", at(1000000, 4)), ("mysql_sorted", at(9, 6)),
        ("mysql_gtid", at(9, 7)), ("binlog_named_backfill", at(9, 5)),
        ("oracle", at(15869116216871, 0x73C9, 0xA4E4C, 0x1D0, 67)),
        ("oracle_sorted", at(99, 1, 2, 3, 4)), ("oracle_bare", at(100, 0, 0, 0, 0)),
        ("postgresql", at(0xA, 0xFF)), ("postgresql_later", at(0x10, 1)),
        ("sqlserver", at(0x25, 0x728, 3)), ("time_only", None),
        ("backfill", at(1704164645678, kind=0)), ("backfill_newer", at(1704164646000, kind=0)),
        ("oracle_dump", at(1704164645678, kind=0)), ("scn_minus_one", at(1704164645678, kind=0)),
        ("empty_log", at(1704164645678, kind=0)),
    ],
)  # fmt: skip
def test_positions(rows: dict[str, Row], name: str, position: str | None) -> None:
    assert rows[name]["position"] == position


def test_positions_sort_as_numbers(rows: dict[str, Row]) -> None:
    for lower, higher in (
        ("insert", "mysql_10"),
        ("postgresql", "postgresql_later"),
        ("backfill", "backfill_newer"),
        ("backfill_newer", "insert"),
    ):
        assert rows[lower]["position"] < rows[higher]["position"]


@pytest.mark.parametrize(
    ("name", "key"),
    [
        ("key", ["id"]), ("key_index", ["id"]), ("key_empty_index", ["id"]), ("key_empty", None),
        ("key_unknown", None), ("key_half", None), ("insert", None),
    ],
)  # fmt: skip
def test_keys_are_told_or_left_open(rows: dict[str, Row], name: str, key: list[str]) -> None:
    assert rows[name]["key"] == key


def test_ids_and_times(rows: dict[str, Row]) -> None:
    row = rows["postgresql"]
    assert (row["event_id"], row["tx_id"], row["types"]) == ("u", "751", None)
    assert row["source_ts"].timestamp() == 1704164645.678


@pytest.mark.parametrize(
    "text", ["2024-01-02T03:04:05.678", "2024-01-02 03:04:05.678", "2024-01-02T03:04:05.678Z"]
)
def test_a_time_without_a_zone_is_utc(spark: SparkSession, tmp_path: Path, text: str) -> None:
    file = jsonl(tmp_path / "e.jsonl", [mysql(top={"source_timestamp": text})])
    row = Datastream().read(spark, (file,), {}).first()
    assert row is not None
    assert row["source_ts"].timestamp() == 1704164645.678


def test_a_key_change_in_any_order(spark: SparkSession, tmp_path: Path) -> None:
    """Both halves stand at one position; the old one goes first."""
    halves = [
        mysql(position=1, primary_keys=["id"]),
        mysql(position=2, change_type="UPDATE-DELETE", primary_keys=["id"]),
        mysql(position=2, change_type="UPDATE-INSERT", top={"payload": {"id": 10}}),
    ]
    file = jsonl(tmp_path / "e.jsonl", reversed(halves))
    rows = Datastream().read(spark, (file,), {}).collect()
    assert fold(rows, ["id"]) == {("10",): {"id": "10"}}


# Avro


def avro_file(path: Path, fields: list[Any], rows: list[dict[str, Any]]) -> SourceFile:
    """A Datastream file with a payload of `fields`, one event a row."""
    meta = {"type": "record", "name": "source_metadata", "fields": [
        {"name": "database", "type": "string"}, {"name": "table", "type": "string"},
        {"name": "primary_keys", "type": {"type": "array", "items": "string"}},
        {"name": "log_file", "type": ["null", "string"]},
        {"name": "log_position", "type": ["null", "long"]},
        {"name": "change_type", "type": ["null", "string"]},
        {"name": "is_deleted", "type": ["null", "boolean"]}]}  # fmt: skip
    millis = {"type": "long", "logicalType": "timestamp-millis"}
    payload = {"type": "record", "name": "payload", "fields": fields}
    schema = {"type": "record", "name": "event", "fields": [
        {"name": "uuid", "type": "string"}, {"name": "source_timestamp", "type": millis},
        {"name": "read_method", "type": "string"},
        {"name": "sort_keys", "type": {"type": "array", "items": ["string", "long"]}},
        {"name": "source_metadata", "type": meta},
        {"name": "payload", "type": payload}]}  # fmt: skip
    records = [
        {
            "uuid": "u",
            "source_timestamp": 1704164645678,
            "read_method": "mysql-cdc-binlog",
            "sort_keys": [1704164645678, "mysql-bin.000009", n],
            "source_metadata": {"database": "db", "table": path.stem, "primary_keys": ["id"],
                                "change_type": "INSERT", "is_deleted": False},
            "payload": row,
        }
        for n, row in enumerate(rows)
    ]  # fmt: skip
    with path.open("wb") as sink, localcontext(prec=100):
        fastavro.writer(sink, fastavro.parse_schema(schema), records)
    return described(path)


def described(path: Path) -> SourceFile:
    """A file as landing describes it."""
    if path.suffix != ".avro":
        return jsonl_documents(path)
    with path.open("rb") as source:
        schema = fastavro.reader(source).metadata["avro.schema"]
    size = path.stat().st_size
    return SourceFile(path.name, path.as_uri(), size, container="avro", avro_schema=schema)


def jsonl_documents(path: Path) -> SourceFile:
    return SourceFile(key=path.name, url=path.as_uri(), size=path.stat().st_size)


def logical(kind: str, name: str, **more: Any) -> dict[str, Any]:
    return {"type": kind, "logicalType": name} | more


TZ = {"type": "record", "name": "timestampTz", "fields": [
    {"name": "timestamp", "type": logical("long", "timestamp-micros")},
    {"name": "offset", "type": logical("int", "time-millis")}]}  # fmt: skip
VARCHAR = {"type": "record", "name": "varchar", "fields": [
    {"name": "value", "type": "string"}, {"name": "length", "type": "int"}]}  # fmt: skip
WIDE = Decimal("-12345678901234567890123456789012345.123456789012345678901234567890")
# name: (type, value as written, exact text, type of the column)
VALUES: dict[str, tuple[Any, Any, str, ColumnType]] = {
    "id": ("int", 1, "1", ColumnType("int")),
    "long": ("long", -(2**63), "-9223372036854775808", ColumnType("bigint")),
    "float": ("float", 45.67, "45.67", ColumnType("float")),
    "double": ("double", 0.1, "0.1", ColumnType("double")),
    "boolean": ("boolean", True, "true", ColumnType("boolean")),
    "text": (logical("string", "varchar", length=9), "é\n", "é\n", ColumnType("string")),
    "number": (logical("string", "number"), "1" * 50 + ".10", "1" * 50 + ".10",
               ColumnType("string")),
    "json": (logical("string", "Json"), '{"a": 1.10}', '{"a": 1.10}', ColumnType("string")),
    "enum": ({"type": "enum", "name": "e", "symbols": ["A", "B"]}, "B", "B", ColumnType("string")),
    "bytes": ("bytes", b"\x00\xff", "AP8=", ColumnType("binary", "base64")),
    "fixed": ({"type": "fixed", "name": "f", "size": 2}, b"\x01\x02", "AQI=",
              ColumnType("binary", "base64")),
    "decimal": (logical("bytes", "decimal", precision=10, scale=2), Decimal("-456.10"), "-456.10",
                decimal(10, 2)),
    "wide": (logical("bytes", "decimal", precision=65, scale=30), WIDE, str(WIDE),
             ColumnType("string")),
    "wide_zero": (logical("bytes", "decimal", precision=65, scale=3), Decimal("0.000"), "0.000",
                  ColumnType("string")),
    "wide_minus_one": (logical("bytes", "decimal", precision=40), Decimal(-1), "-1",
                       ColumnType("string")),
    "wide_step": (logical("bytes", "decimal", precision=40), Decimal(-(2**64)),
                  str(-(2**64)), ColumnType("string")),
    "date": (logical("int", "date"), -1, "1969-12-31", ColumnType("date")),
    "micros": (logical("long", "timestamp-micros"), 1704164645678901,
               "2024-01-02T03:04:05.678901Z", ColumnType("timestamp")),
    "before_1970": (logical("long", "timestamp-micros"), -1,
                    "1969-12-31T23:59:59.999999Z", ColumnType("timestamp")),
    "infinity": (logical("long", "timestamp-micros"), 9223372036825200000,
                 "+294247-01-10T04:00:25.200000Z", ColumnType("timestamp")),
    "millis": (logical("long", "timestamp-millis"), 1704164645678,
               "2024-01-02T03:04:05.678000Z", ColumnType("timestamp")),
    "local": (logical("long", "local-timestamp-micros"), 1704164645678901,
              "2024-01-02T03:04:05.678901", ColumnType("timestamp_ntz")),
    "time": (logical("long", "time-micros"), 86400000000, "24:00:00", ColumnType("time")),
    "interval": (logical("long", "time-interval-micros"), -1, "-1", ColumnType("bigint")),
    "tz": (TZ, {"timestamp": 1665671400000056, "offset": -18000000},
           '{"timestamp":"2022-10-13T14:30:00.000056Z","offset":"-05:00:00"}',
           ColumnType("string")),
    "varchar": (VARCHAR, {"value": "v", "length": 3}, '{"value":"v","length":3}',
                ColumnType("string")),
    "again": ("varchar", {"value": "w", "length": 3}, '{"value":"w","length":3}',
              ColumnType("string")),
    "list": ({"type": "array", "items": ["null", "long"]}, [1, None], "[1,null]",
             ColumnType("string")),
    "either": (["null", "string", "long"], 7, "7", ColumnType("string")),
    "dotted": ("string", "x", "x", ColumnType("string")),
}  # fmt: skip


def raw_values() -> dict[str, Any]:
    """The values as fastavro has to get them: numbers for what has a logical type."""
    return {name: value for name, (_, value, _, _) in VALUES.items()}


def optional(kind: Any) -> Any:
    return kind if isinstance(kind, list) else ["null", kind]


@pytest.fixture(scope="module")
def avro_rows(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Row]:
    """A row with every type and one with nothing but its key; a second schema beside it."""
    folder = tmp_path_factory.mktemp("avro")
    fields = [{"name": n, "type": optional(kind)} for n, (kind, *_) in VALUES.items()]
    full = avro_file(folder / "full.avro", fields, [raw_values(), {"id": 2}])
    other = avro_file(folder / "other.avro", [{"name": "id", "type": "long"}], [{"id": 3}])
    lines = jsonl(folder / "lines.jsonl", [event({"id": 4})])
    decoded = Datastream().read(spark, (full, lines, other), {})
    assert envelope_columns(decoded) == list(ENVELOPE)
    return by_name(decoded.collect(), lambda row: row["after"]["id"])


def test_one_batch_holds_files_of_many_schemas(avro_rows: dict[str, Row]) -> None:
    assert {r["table"] for r in avro_rows.values()} == {"full", "other", "t"}
    assert avro_rows["2"]["position"] == at(9, 1)
    assert avro_rows["1"]["key"] == ["id"]
    assert avro_rows["1"]["source_ts"].timestamp() == 1704164645.678
    assert avro_rows["4"]["types"] is None


@pytest.mark.parametrize("name", VALUES)
def test_avro_values(avro_rows: dict[str, Row], name: str) -> None:
    _, _, text, kind = VALUES[name]
    assert avro_rows["1"]["after"][name] == text
    types = {c.name: c for c in Datastream().columns(avro_rows["1"]["types"], {})}
    assert (types[name].type, types[name].nullable) == (kind, True)
    if name != "id":
        assert avro_rows["2"]["after"][name] is None


def test_a_required_column_is_not_nullable(avro_rows: dict[str, Row]) -> None:
    columns = Datastream().columns(avro_rows["3"]["types"], {})
    assert [(c.name, c.type.name, c.nullable) for c in columns] == [("id", "bigint", False)]


def test_records_as_values(spark: SparkSession, tmp_path: Path) -> None:
    fields = [{"name": "id", "type": VARCHAR}, {"name": "at", "type": optional(TZ)}]
    rows = [{"id": {"value": "a", "length": 1}, "at": VALUES["tz"][1]}]
    file = avro_file(tmp_path / "e.avro", fields, rows)
    options = {"records": "value"}
    row = Datastream().read(spark, (file,), options).first()
    assert row is not None
    assert row["after"] == {"id": "a", "at": "2022-10-13T14:30:00.000056Z"}
    kinds = [c.type.name for c in Datastream().columns(row["types"], options)]
    assert kinds == ["string", "timestamp"]


def test_another_avro_file_is_refused_by_name(spark: SparkSession) -> None:
    schema = '{"type": "record", "name": "x", "fields": [{"name": "a", "type": "int"}]}'
    file = SourceFile("in/x.avro", "file:///x.avro", 1, container="avro", avro_schema=schema)
    with pytest.raises(TerminalError, match=r"in/x\.avro is not a Datastream Avro file"):
        Datastream().read(spark, (file,), {})


# Real data

CASES = (
    "datastream-avro/cdap-datastream-delta-plugins/hr-employees-insert-update/final",
    *(f"datastream-avro/dataflowtemplates/{case}/final" for case in (
        "ddl-alldatatypecolumns", "ddl-alldatatypetransformation", "ddl-sizes",
        "ddl-users-singers", "events-articles-authors-books", "events-movie",
        "mixed-authors-books-genre", "overrides-person1", "pk-update-my-table",
        "session-category", "sharded-customers", "sharded-users-1-2")),
    "datastream-avro/dataflowtemplates/common/avro_file_ut",
    "datastream-avro/dataflowtemplates/common/mysql_people_test",
    "datastream-json/badal-datastream-deltalake/accounts/final",
    "datastream-json/badal-datastream-deltalake/customers/final",
    *(f"datastream-json/dataflowtemplates/{case}/final" for case in (
        "datatype-alldatatypecolumns", "events-articles-authors-books", "events-movie",
        "sharded-users")),
)  # fmt: skip


@pytest.fixture(scope="module")
def real_rows(spark: SparkSession, fixtures: Path) -> dict[str, list[Row]]:
    """All the cases' files decoded in one read, by file."""
    files = [path for case in CASES for path in case_inputs(fixtures, case)]
    found: dict[str, list[Row]] = {}
    for row in Datastream().read(spark, tuple(described(f) for f in files), {}).collect():
        found.setdefault(row["file"].removeprefix("file://"), []).append(row)
    return found


def case_inputs(fixtures: Path, case: str) -> list[Path]:
    expected = fixtures / f"{case}.expected.json"
    return [expected.parent / name for name in json.loads(expected.read_text())["inputs"]]


@pytest.mark.parametrize("case", CASES)
def test_real_data(fixtures: Path, real_rows: dict[str, list[Row]], case: str) -> None:
    rows = [row for path in case_inputs(fixtures, case) for row in real_rows[str(path)]]
    assert_tables(rows, expected_tables(fixtures / f"{case}.expected.json"), Datastream())


@pytest.mark.parametrize("name", ["oracle-backfill-jobs", "sqlserver-employees"])
def test_real_events_of_other_databases(spark: SparkSession, fixtures: Path, name: str) -> None:
    file = described(fixtures / "datastream-json/dataflowtemplates/common" / f"{name}.json")
    (row,) = Datastream().read(spark, (file,), {}).collect()
    assert row["outcome"] == "event"
    assert row["key"] in (["JOB_ID"], ["EMPLOYEE_ID"])
    assert row["position"] in (at(1640410924408, kind=0), at(0x25, 0x728, 3))
