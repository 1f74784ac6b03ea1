"""Datastream: operations, the order of four databases, keys, and the files of other projects."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import Row, SparkSession

from sluice.config.format_options import DatastreamOptions
from spark_jobs.formats.datastream import Datastream
from tests.spark.datastream_events import described, event
from tests.spark.envelopes import (
    assert_rejected,
    assert_tables,
    at,
    decode_named,
    expected_tables,
    fold,
    jsonl,
)

DEFAULTS = DatastreamOptions()
pytestmark = pytest.mark.spark


def mysql(file: str = "mysql-bin.000009", position: Any = 5, **meta: Any) -> dict[str, Any]:
    """A MySQL event at a place of the binary log."""
    return event(log_file=file, log_position=position, **meta)


def spanner(commit: str = "2024-01-02T03:04:05.678901Z", **meta: Any) -> dict[str, Any]:
    """An event of Spanner, which has its database and its kind of change in fields of its own."""
    place = {"commit_timestamp": commit, "record_sequence": "00000000", "mod_index": 0}
    named = {"database": None, "database_id": "db", "change_type": None, "mod_type": "INSERT"}
    return event(**(place | named | {"snapshot": False, "primary_keys": ["id"]} | meta))


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
    "no_table": mysql(table=None), "empty_table": mysql(table=""),
    "mongodb": event(table=None, collection="c", top={"read_method": "mongodb-cdc"}),
    "salesforce": event(table=None, database=None, object="Account",
                        top={"read_method": "salesforce-cdc"}),
    "no_metadata": {"payload": {"id": 1}},
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
    "mysql_empty_sorted": event(binlog_file="", binlog_position="", top={
        "sort_keys": [1, "mysql-bin.000009", 6]}),
    "oracle_empty_sorted": event(scn="", ssn="", top={
        "sort_keys": [1, 99, "0x000001.00000002.0003", 4]}),
    "oracle": event(scn=15869116216871, rs_id=" 0x0073c9.000a4e4c.01d0 ", ssn=67, log_file=""),
    "oracle_sorted": event(top={"sort_keys": [1, 99, "0x000001.00000002.0003", 4]}),
    "oracle_blank_sorted": event(scn=99, rs_id="", top={
        "sort_keys": [1, 99, "0x000001.00000002.0003", 4]}),
    "lsn_empty_sorted": event(lsn="", top={"sort_keys": [1, "A/FF"]}),
    "oracle_bare": event(scn=100),
    "oracle_without_0x": event(scn=100, rs_id="00A1.0b.0c", ssn=1),
    "oracle_unreadable": event(scn=100, rs_id="first", ssn=1),
    "oracle_binary": event(scn=100, rs_id="000123:0000456:0010", ssn=0),
    "oracle_blank": event(scn=100, rs_id=" ", lsn=""),
    "postgresql": event(lsn="A/FF", tx_id=751, schema="public"),
    "postgresql_later": event(lsn="10/1"),
    "postgresql_young": event(lsn="0/16B3748"),
    "sqlserver": event(lsn="00000025:00000728:0003"),
    "sqlserver_as_printed": event(lsn="0x00000025000007280003"),
    "lsn_unreadable": event(lsn="23876504"),
    "lsn_of_a_backfill": event(lsn="23876504", top={"read_method": "postgresql-backfill"}),
    "sqlserver_by_the_page": event(lsn="1:2:3", schema=["dbo"], database=5),
    "spanner": spanner(),
    "spanner_update": spanner(mod_type="UPDATE", record_sequence="00000001"),
    "spanner_delete": spanner(mod_type="DELETE", is_deleted=True, record_sequence="00000010"),
    "spanner_next_mod": spanner(mod_index=1),
    "spanner_later": spanner("2024-01-02T03:04:05.678902Z"),
    "spanner_sorted": spanner(top={"sort_keys": [1704164645678901, "00000000", 0]}),
    "spanner_snapshot": spanner(snapshot=True, mod_type=None),
    "spanner_unreadable": spanner(record_sequence="first"),
    "time_only": event(top={"sort_keys": [1640410924408]}),
    "time_counted": event(top={"source_timestamp": 1640410924408}),
    "backfill_counted": event(top={"read_method": "mysql-backfill-fulldump",
                                   "source_timestamp": 1640410924408}),
    "neither": event(top={"source_timestamp": None}),
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
        ("insert", "insert"), ("update", "update"), ("update_insert", "update_after"),
        ("delete", "delete"), ("update_delete", "delete"), ("update_delete_unmarked", "delete"),
        ("marked_deleted", "delete"), ("no_type", "insert"), ("no_type_backfill", "insert"),
        ("spanner", "insert"), ("spanner_update", "update"), ("spanner_delete", "delete"),
        ("spanner_snapshot", "insert"),
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
        ("no_table", "table_missing"), ("empty_table", "table_missing"),
        ("mongodb", "table_missing"), ("salesforce", "table_missing"),
        ("no_payload", "not_an_envelope"), ("no_metadata", "not_an_envelope"),
        ("oracle_binary", "bad_position"),
        ("other", "not_an_envelope"), ("cut", "not_json"), ("twice", "duplicate_column"),
        ("oracle_unreadable", "bad_position"), ("lsn_unreadable", "bad_position"),
        ("spanner_unreadable", "bad_position"),
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


def test_change_with_only_a_time_ranks_below_every_position(rows: dict[str, Row]) -> None:
    assert rows["time_only"]["position"] < rows["postgresql_young"]["position"]


@pytest.mark.parametrize(
    ("name", "position"),
    [
        ("insert", at(9, 5)), ("mysql_10", at(1000000, 4)), ("mysql_sorted", at(9, 6)),
        ("mysql_gtid", at(9, 7)), ("binlog_named_backfill", at(9, 5)),
        ("oracle", at(15869116216871, 0x73C9, 0xA4E4C, 0x1D0, 67)),
        ("oracle_sorted", at(99, 1, 2, 3, 4)), ("oracle_blank_sorted", at(99, 1, 2, 3, 4)),
        ("lsn_empty_sorted", at(0xA, 0xFF)), ("oracle_bare", at(100, 0, 0, 0, 0)),
        ("oracle_without_0x", at(100, 0xA1, 0xB, 0xC, 1)),
        ("oracle_blank", at(100, 0, 0, 0, 0)), ("sqlserver_as_printed", at(0x25, 0x728, 3)),
        ("lsn_of_a_backfill", at(1704164645678, kind=0)),
        ("postgresql", at(0xA, 0xFF)), ("postgresql_later", at(0x10, 1)),
        ("postgresql_young", at(0, 0x16B3748)),
        ("sqlserver", at(0x25, 0x728, 3)), ("time_only", at(0, 0, 1704164645678)),
        ("mysql_empty_sorted", at(9, 6)), ("oracle_empty_sorted", at(99, 1, 2, 3, 4)),
        ("spanner", at(1704164645678901, 0, 0)), ("spanner_sorted", at(1704164645678901, 0, 0)),
        ("spanner_update", at(1704164645678901, 1, 0)),
        ("spanner_next_mod", at(1704164645678901, 0, 1)),
        ("spanner_snapshot", at(1704164645678, kind=0)),
        ("time_counted", at(0, 0, 1640410924408)),
        ("backfill_counted", at(1640410924408, kind=0)),
        ("neither", None),
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
        ("spanner_snapshot", "spanner"),
        ("spanner", "spanner_next_mod"),
        ("spanner_next_mod", "spanner_update"),
        ("spanner_update", "spanner_delete"),
        ("spanner_delete", "spanner_later"),
    ):
        assert rows[lower]["position"] < rows[higher]["position"]


@pytest.mark.parametrize(
    ("name", "key"),
    [
        ("key", ["id"]), ("key_index", ["id"]), ("key_empty_index", ["id"]), ("key_empty", None),
        ("key_unknown", None), ("key_half", None), ("insert", None),
    ],
)  # fmt: skip
def test_keys_are_given_or_left_open(rows: dict[str, Row], name: str, key: list[str]) -> None:
    assert rows[name]["key"] == key


@pytest.mark.parametrize(
    ("name", "names"),
    [
        ("insert", ("db", None, "t")), ("postgresql", ("db", "public", "t")),
        ("sqlserver_by_the_page", ("5", "dbo", "t")), ("spanner", ("db", None, "t")),
    ],
)  # fmt: skip
def test_names(rows: dict[str, Row], name: str, names: tuple[str | None, ...]) -> None:
    """The page lists SQL Server's `schema` as an array and its `database` as a number."""
    row = rows[name]
    assert (row["database"], row["schema"], row["table"]) == names


def test_ids_and_times(rows: dict[str, Row]) -> None:
    row = rows["postgresql"]
    assert (row["event_id"], row["tx_id"], row["types"]) == ("u", "751", None)
    assert row["source_ts"].timestamp() == 1704164645.678


@pytest.mark.parametrize(
    "text", ["2024-01-02T03:04:05.678", "2024-01-02 03:04:05.678", "2024-01-02T03:04:05.678Z"]
)
def test_a_time_without_a_zone_is_utc(spark: SparkSession, tmp_path: Path, text: str) -> None:
    file = jsonl(tmp_path / "e.jsonl", [mysql(top={"source_timestamp": text})])
    row = Datastream().read(spark, (file,), DEFAULTS).first()
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
    rows = Datastream().read(spark, (file,), DEFAULTS).collect()
    assert fold(rows, ["id"]) == {("10",): {"id": "10"}}


def mended(text: str) -> dict[str, Any]:
    """An example of the vendor, which lacks values and commas, and has commas before a brace."""
    text = re.sub(r":[ ]*$", ": null", text, flags=re.M)
    text = re.sub(r"(null|\"|\d)[ ]*\n([ ]*\")", r"\1,\n\2", text)
    return json.loads(re.sub(r",\s*}", "}", text))


def test_the_vendors_examples(spark: SparkSession, fixtures: Path, tmp_path: Path) -> None:
    """Mended, and as they stand. The three examples are of one row, as the page's table shows."""
    paths = sorted((fixtures / "seed-examples" / "datastream-json").glob("0[1-3]*.txt"))
    texts = [path.read_text() for path in paths]
    plain = [" ".join(text.split()) for text in texts]
    file = jsonl(tmp_path / "examples.jsonl", [*map(mended, texts), *plain])
    rows = sorted(Datastream().read(spark, (file,), DEFAULTS).collect(), key=lambda r: r["ordinal"])
    assert [row["op"] for row in rows[:3]] == ["insert", "update", "delete"]
    assert [row["reason"] for row in rows] == [None] * 3 + ["not_json"] * 3
    assert {(row["schema"], row["table"]) for row in rows[:3]} == {("ROOT", "SAMPLE")}
    row = {"THIS_IS_MY_PK": "1231535353", "FIELD1": "foo", "FIELD2": "TLV"}
    assert rows[0]["after"] == row
    assert rows[1]["after"] == rows[2]["before"] == row | {"FIELD1": None}
    assert rows[0]["position"] < rows[1]["position"] < rows[2]["position"]
    assert rows[0]["source_ts"].isoformat() == "2019-11-07T02:15:39"


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
    for row in Datastream().read(spark, tuple(described(f) for f in files), DEFAULTS).collect():
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
    (row,) = Datastream().read(spark, (file,), DEFAULTS).collect()
    assert row["outcome"] == "event"
    assert row["key"] in (["JOB_ID"], ["EMPLOYEE_ID"])
    assert row["position"] in (at(1640410924408, kind=0), at(0x25, 0x728, 3))
