"""DTS Avro: every operation and value, in both layouts and in containers, and what is damaged."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest
from pyspark.sql import Row, SparkSession

from bench.dts_records import flat, integer, message, text, value
from sluice.config.format_options import DtsAvroOptions
from spark_jobs.canonical import ENVELOPE
from spark_jobs.formats.dts_avro.decoder import DtsAvro
from tests.spark.dts_records import (
    NONE,
    NULL,
    OLD,
    ROW,
    bare_file,
    characters,
    clock,
    container,
    datum,
    of_one,
    values,
    when,
)
from tests.spark.envelopes import assert_event, at, envelope_columns, in_turn

DEFAULTS = DtsAvroOptions()
pytestmark = [pytest.mark.spark, pytest.mark.formats]
NEXT = [integer(1), text("b")]
MARKERS = (
    "BEGIN", "COMMIT", "ROLLBACK", "ABORT", "HEARTBEAT", "CHECKPOINT", "COMMAND", "FILL", "FINISH",
    "CONTROL", "RDB", "NOOP",
)  # fmt: skip


def truncating(statement: str, **parts: Any) -> dict[str, Any]:
    return message("DDL", after=statement, **{"object": "db", "tags": {}, **parts})


MESSAGES: dict[str, Any] = {
    "insert": message("INSERT", after=ROW),
    "insert_with_empty_old_image": message("INSERT", before=[], after=ROW),
    "update": message("UPDATE", before=ROW, after=NEXT),
    "update_of_key": message("UPDATE", before=ROW, after=[integer(2), text("a")]),
    "update_without_old": message("UPDATE", after=NEXT),
    "delete": message("DELETE", before=ROW),
    "full_load": message("INIT", 3, after=ROW, seconds=1700000000),
    "full_load_without_id": message("INIT", -1, after=ROW, seconds=1700000000),
    "full_load_in_millis": message("INIT", 3, after=ROW, seconds=1700000001999),
    "full_load_without_time": message("INIT", 4, after=ROW, seconds=0),
    "ddl": message("DDL", after="alter table t add c int", object="db", tags={}),
    "ddl_without_object": message("DDL", after="create database x", object=None),
    "truncate": truncating("TRUNCATE TABLE t"),
    "truncate_quoted": truncating("/* x */ truncate `o-db` . `a b`; "),
    "truncate_said": truncating("TRUNCATE t /* nightly */; -- by the job\n# done"),
    "truncate_after_words": truncating("-- nightly\n# by the job\r\nTRUNCATE/**/TABLE`t`"),
    "truncate_and_more": truncating("TRUNCATE t /* x */ PARTITION p0 -- " * 40),
    "dropped": truncating("DROP TABLE IF EXISTS `t` CASCADE /* generated */"),
    "truncate_any_case": truncating("TRUNCATE TABLE T1", tags={"lowerCaseTableNames": "true"}),
    "truncate_own_case": truncating("TRUNCATE TABLE DB.T1", tags={"lowerCaseTableNames": "false"}),
    "dropped_any_case": truncating("DROP TABLE `DB`.T1", tags={"lowerCaseTableNames": "true"}),
    "truncate_elsewhere": truncating("TRUNCATE TABLE t", source="Oracle"),
    "truncate_of_shard": truncating("TRUNCATE TABLE t_3", source="DRDS", tags={"l_tb_name": "t"}),
    "truncate_partition": truncating("ALTER TABLE t TRUNCATE PARTITION p0"),
    **{op: message(op, object=None, tags={}) for op in MARKERS},
    "big_id": message("INSERT", 2**63 - 1, after=ROW),
    "null": message("INSERT", after=[integer(1), None]),
    "null_object": message("INSERT", after=[integer(1), NULL]),
    "none": message("UPDATE", after=[integer(1), NONE]),
    "none_in_both": message("UPDATE", before=[integer(1), NONE], after=[NONE, NONE]),
    "none_before": message("UPDATE", before=[integer(1), NONE], after=NEXT),
    "delete_of_none": message("DELETE", before=[integer(1), NONE]),
    "none_but_known": message("UPDATE", before=ROW, after=[integer(2), NONE]),
    "none_was_null": message("UPDATE", before=[integer(1), None], after=[integer(1), NONE]),
    "three_names": message("INSERT", after=ROW, object="db.s.t"),
    "dots": message("INSERT", after=ROW, object=r"d\u002Eb.t\u002e1"),
    "shard": message("INSERT", after=ROW, object="db_0007.t_3", tags={
        "l_db_name": "db", "l_tb_name": "t"}, source="DRDS"),
    "processed": message("INSERT", after=ROW, processed=[1, 2, 3], tx="gtid:7"),
    "no_primary_key": message("INSERT", after=ROW, tags={"pk_uk_info": '{"uk":["v"]}'}),
    "strange_key": message("INSERT", after=ROW, tags={"pk_uk_info": "{"}),
    "half_key": message("INSERT", after=ROW, tags={"pk_uk_info": '{"PRIMARY":["id","x"]}'}),
    "two_keys": message("INSERT", after=ROW, tags={"pk_uk_info": '{"PRIMARY":["v","id"]}'}),
    "numbers": of_one(
        integer("18446744073709551615"), integer("-9223372036854775808"),
        value("Decimal", "12345678901234567890.1234567890", 30, 10),
        value("Decimal", "1.10", 3, 2), value("Float", 0.1, 8, 2),
        value("Float", float("nan"), 8, 2), value("Float", -1e300, 8, 2)),
    "clocks": of_one(
        when(2024, 2, 29), when(2024, 2, 29, 23, 59, 58, 7), when(2024, 2, 29, 1, 2, 3),
        when(None, None, None, 838, 59, 59, 999999), when(None, None, None, -1, -2, -3, -500000),
        when(None, None, None, 0, 0, 0, -1), when(1999), when(0, 0, 0), when(2024, 0, None),
        when(0, 0, 0, 0, 0, 0), when(-44, 3, 15), when(10000, 1, 1)),
    "instants": of_one(
        value("Timestamp", 1696984408, 123456), value("Timestamp", -1, 500000),
        value("Timestamp", 0, 0),
        value("TimestampWithTimeZone", clock(2024, 1, 1, 8, 0, 0, 5), "+08:00"),
        value("TimestampWithTimeZone", clock(2024, 1, 1, 8, 0, 0), "Asia/Shanghai")),
    "objects": of_one(
        value("BinaryObject", "BLOB", b"\x00\xff\x10"), value("BinaryObject", "BLOB", b""),
        value("TextObject", "JSON", '{"k": 1.10}'), value("TextObject", "ENUM", "ä"),
        value("BinaryGeometry", "POINT", bytes.fromhex("0101000000")),
        value("TextGeometry", "POINT", "POINT(1 1)")),
    "charsets": characters(
        ("utf8mb4", "😀".encode()), ("utf8mb3", "é".encode()), ("UTF8", "é".encode()),
        ("", "é".encode()), ("latin1", b"\x80\xe9\x81"), ("LATIN1", b"\xe9"),
        ("gbk", b"\xc4\xe3\xba\xc3"), ("gb18030", b"\x81\x30\x89\x38"), ("big5", b"\xa7\x41"),
        ("sjis", b"\x82\xa0"), ("euckr", b"\xb0\xa1"), ("koi8r", b"\xc1"), ("utf16", b"\x00A"),
        ("utf16le", b"A\x00"), ("ucs2", b"\x4f\x60"), ("utf32", b"\x00\x00\x00A"),
        ("cp1251", b"\xe0"), ("binary", b"\x00\xff"), ("ascii", b"a"), ("latin2", b"\xb1"),
        ("utf8mb4", "a\ufffdb".encode())),
    "bad_utf8": characters(("utf8mb4", b"\xc3")),
    "bad_gbk": characters(("gbk", b"\xc4")),
    "bad_ascii": characters(("ascii", b"\xe9")),
    "unknown_charset": characters(("klingon", b"a")),
    "bad_two": of_one(integer(1), value("Character", "utf8mb4", b"\xc3"), text("a"), when()),
    "bad_old_value": message("UPDATE", before=[integer(1), value("Character", "utf8mb4", b"\xff")],
                             after=NEXT),
    "bad_timestamp": of_one(value("Timestamp", 2**62, 0)),
    "bad_clock": of_one(when(None, None, None, 1, 2, 3, 1000000000)),
    "lowest_clock": of_one(when(None, None, None, -(2**31), 0, 0)),
    "no_clock": of_one(when()), "no_image": message("INSERT", before=ROW),
    "no_old_image": message("DELETE", fields=[("id", 8)], after=[integer(1)]),
    "text_image": message("INSERT", fields=[("id", 8)], after="x"),
    "short_image": message("INSERT", after=[integer(1)]),
    "short_old_image": message("UPDATE", before=[integer(1)], after=NEXT),
    "no_fields": message("INSERT", after=ROW, fields=None),
    "text_fields": message("INSERT", after=ROW, fields="id,v"),
    "twice": message("INSERT", after=ROW, fields=[("id", 8), ("id", 8)]),
    "no_object": message("INSERT", after=ROW, object=None),
    "only_database": message("INSERT", after=ROW, object="db"),
    "four_names": message("INSERT", after=ROW, object="a.b.c.d"),
    "negative_id": message("INSERT", -1, after=ROW),
    "no_statement": message("DDL", object="db"),
    "row_in_marker": message("FILL", after=ROW),
    "far_future": message("INSERT", after=ROW, seconds=2**60),
}  # fmt: skip
GOOD = datum(MESSAGES["insert"])
HOSTILE = {
    "empty": b"",
    "cut": GOOD[:-9],
    "cut_in_born": GOOD[:-1],
    "longer": GOOD + b"x",
    "longer_by_much": GOOD + b"\xff" * 20,
    "old_and_longer": datum(MESSAGES["insert"], OLD) + b"\x90\x91",
    "two_in_one": GOOD + GOOD,
    "text": b'{"version": 0}\0',
    "long_string": b"\x00\x02\x02" + b"\xfe\xff\xff\xff\x0f" + b"a" * 9,
    "many_tags": GOOD[: GOOD.index(b"\x00\x02\x14pk_uk_info") + 1] + b"\xfe\xff\xff\xff\x0f",
}
Rows = dict[str, Row]
MORE = ("absent", "old_absent", "transaction", "ends", "detail")


@pytest.fixture(scope="module")
def kinds(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Rows]:
    """Every message above in each layout and container, decoded in one read."""
    folder = tmp_path_factory.mktemp("dts")
    messages = list(MESSAGES.values())
    new_operation = message("MERGE", after=ROW)
    bare = [datum(m) for m in messages] + list(HOSTILE.values())
    extended = flat(new_operations=("MERGE",))
    bare.append(datum(new_operation, extended))
    files = {
        "new": bare_file(folder / "new", bare),
        "old": bare_file(folder / "old", [datum(m, OLD) for m in messages]),
        "container": container(folder / "c.avro", extended, [*messages, new_operation]),
    }
    names = {
        "new": [*MESSAGES, *HOSTILE, "new_operation"],
        "old": list(MESSAGES),
        "container": [*MESSAGES, "new_operation"],
    }
    found: dict[str, Rows] = {}
    for kind, file in files.items():
        decoded = DtsAvro().read(spark, (file,), DEFAULTS)
        assert set(decoded.columns) == {*ENVELOPE, *MORE}
        assert envelope_columns(decoded) == list(ENVELOPE)
        found[kind] = in_turn(decoded.collect(), names[kind])
        assert list(found[kind]) == names[kind]
    return found


@pytest.fixture(scope="module")
def rows(kinds: dict[str, Rows]) -> Rows:
    return kinds["new"]


@pytest.mark.parametrize("other", ["old", "container"])
@pytest.mark.parametrize("name", MESSAGES)
def test_layouts_and_containers_say_the_same(kinds: dict[str, Rows], other: str, name: str) -> None:
    elsewhere = ("file", "raw")
    one, two = (
        {k: v for k, v in kinds[kind][name].asDict().items() if k not in elsewhere}
        for kind in ("new", other)
    )
    assert one == two


@pytest.mark.parametrize(
    ("name", "op"),
    [
        ("insert", "insert"), ("update", "update"), ("update_of_key", "update"),
        ("insert_with_empty_old_image", "insert"),
        ("update_without_old", "update"), ("delete", "delete"), ("full_load", "insert"),
        ("ddl", "ddl"), ("ddl_without_object", "ddl"), ("truncate", "truncate"),
        ("truncate_quoted", "truncate"), ("truncate_elsewhere", "ddl"),
        ("truncate_said", "truncate"),
        ("truncate_any_case", "truncate"), ("truncate_own_case", "truncate"),
        ("truncate_after_words", "truncate"), ("truncate_and_more", "ddl"), ("dropped", "ddl"),
        ("truncate_partition", "ddl"), ("truncate_of_shard", "ddl"), ("far_future", "insert"),
        ("full_load_without_id", "insert"),
    ],
)  # fmt: skip
def test_operations(rows: Rows, name: str, op: str) -> None:
    row = rows[name]
    assert_event(row, op)


@pytest.mark.parametrize("op", MARKERS)
def test_markers_and_heartbeats_are_ignored(rows: Rows, op: str) -> None:
    assert (rows[op]["outcome"], rows[op]["reason"]) == ("ignore", op)


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("bad_utf8", "bad_characters"), ("bad_gbk", "bad_characters"),
        ("bad_ascii", "bad_characters"), ("unknown_charset", "unknown_charset:klingon"),
        ("bad_old_value", "bad_characters"), ("bad_timestamp", "unreadable_value"),
        ("bad_clock", "unreadable_value"), ("no_clock", "unreadable_value"),
        ("no_image", "image_missing"), ("no_old_image", "image_missing"),
        ("text_image", "image_missing"), ("short_image", "image_length"),
        ("short_old_image", "image_length"), ("no_fields", "fields_missing"),
        ("text_fields", "fields_missing"), ("twice", "duplicate_column"),
        ("no_object", "table_missing"), ("only_database", "table_missing"),
        ("four_names", "bad_object_name"), ("negative_id", "bad_id"),
        ("no_statement", "statement_missing"), ("row_in_marker", "marker_with_row"),
        *((name, "not_a_record") for name in HOSTILE), ("new_operation", "unknown_op:17"),
    ],
)  # fmt: skip
def test_rejects_say_why_and_keep_their_bytes(rows: Rows, name: str, reason: str) -> None:
    assert (rows[name]["outcome"], rows[name]["reason"]) == ("reject", reason)
    if name in HOSTILE:
        assert base64.b64decode(rows[name]["raw"]) == HOSTILE[name]


def test_rejected_values_are_told_with_their_columns(rows: Rows) -> None:
    columns = {"bad_utf8": "c0", "unknown_charset": "c0", "bad_timestamp": "c0", "insert": "",
               "bad_old_value": "v", "bad_two": "c1, c3", "twice": ""}  # fmt: skip
    assert {name: rows[name]["detail"] for name in columns} == columns


def test_a_containers_unknown_operation(kinds: dict[str, Rows]) -> None:
    row = kinds["container"]["new_operation"]
    assert (row["outcome"], row["reason"]) == ("reject", "unknown_op:UNKNOWN")
    assert json.loads(row["raw"])["id"] == 5


def test_images(rows: Rows) -> None:
    assert (rows["insert"]["before"], rows["insert"]["after"]) == (None, {"id": "1", "v": "a"})
    assert rows["update"]["before"] == {"id": "1", "v": "a"}
    assert rows["update"]["after"] == {"id": "1", "v": "b"}
    assert (rows["delete"]["before"], rows["delete"]["after"]) == ({"id": "1", "v": "a"}, None)
    assert rows["full_load"]["after"] == {"id": "1", "v": "a"}
    assert (rows["ddl"]["before"], rows["ddl"]["after"]) == (None, None)


@pytest.mark.parametrize(
    ("name", "after", "absent"),
    [
        ("null", {"id": "1", "v": None}, None),
        ("null_object", {"id": "1", "v": None}, None),
        ("none", {"id": "1", "v": None}, ["v"]),
        ("none_in_both", {"id": "1", "v": None}, ["v"]),
        ("none_before", {"id": "1", "v": "b"}, None),
        ("none_but_known", {"id": "2", "v": "a"}, None),
        ("none_was_null", {"id": "1", "v": None}, None),
    ],
)
def test_not_sent_is_not_null(
    rows: Rows, name: str, after: dict[str, Any], absent: list[str]
) -> None:
    assert (rows[name]["after"], rows[name]["absent"]) == (after, absent)


@pytest.mark.parametrize(
    ("name", "old_absent"),
    [
        ("none_in_both", ["v"]), ("none_before", ["v"]), ("delete_of_none", ["v"]),
        ("none_was_null", None), ("none", None), ("update", None), ("delete", None),
    ],
)  # fmt: skip
def test_not_sent_of_the_old_row(rows: Rows, name: str, old_absent: list[str] | None) -> None:
    assert rows[name]["old_absent"] == old_absent


def test_numbers_keep_every_digit(rows: Rows) -> None:
    assert values(rows["numbers"]) == [
        "18446744073709551615", "-9223372036854775808", "12345678901234567890.1234567890",
        "1.10", "0.1", "NaN", "-1.0E300",
    ]  # fmt: skip


def test_dates_and_times_by_the_parts_that_are_there(rows: Rows) -> None:
    assert values(rows["clocks"]) == [
        "2024-02-29", "2024-02-29T23:59:58.000007", "2024-02-29T01:02:03", "838:59:59.999999",
        "-01:02:03.500000", "-00:00:00.000001", "1999", "0000-00-00", "2024-00-00",
        "0000-00-00T00:00:00", "-0044-03-15", "10000-01-01",
    ]  # fmt: skip
    assert values(rows["lowest_clock"]) == ["-2147483648:00:00"]


def test_instants_are_in_microseconds(rows: Rows) -> None:
    assert values(rows["instants"]) == [
        "2023-10-11T00:33:28.123456Z", "1969-12-31T23:59:59.500000Z",
        "1970-01-01T00:00:00.000000Z", "2024-01-01T08:00:00.000005+08:00",
        "2024-01-01T08:00:00 Asia/Shanghai",
    ]  # fmt: skip


def test_objects_and_geometries(rows: Rows) -> None:
    assert values(rows["objects"]) == [
        "AP8Q", "", '{"k": 1.10}', "ä", "0101000000", "POINT(1 1)",
    ]  # fmt: skip


def test_characters_by_their_charset(rows: Rows) -> None:
    assert values(rows["charsets"]) == [
        "😀", "é", "é", "é", "€é\x81", "é", "你好", "ß",
        "你", "あ", "가", "\u0430", "A", "A", "你", "A", "\u0430", "AP8=", "a", "ą", "a\ufffdb",
    ]  # fmt: skip


def test_positions_by_id_and_the_full_load_below(rows: Rows) -> None:
    assert rows["insert"]["position"] == at(5)
    assert rows["big_id"]["position"] == at(2**63 - 1)
    first, second = rows["full_load_without_time"]["position"], rows["full_load"]["position"]
    assert second == at(1700000000, 3, kind=0)
    assert rows["full_load_without_id"]["position"] == at(1700000000, 0, kind=0)
    assert first < second < rows["insert"]["position"] < rows["big_id"]["position"]
    assert rows["full_load_in_millis"]["position"] == at(1700000001, 3, kind=0)


@pytest.mark.parametrize(
    ("name", "key"),
    [
        ("insert", ["id"]), ("delete", ["id"]), ("two_keys", ["v", "id"]),
        ("no_primary_key", None), ("strange_key", None), ("half_key", None), ("shard", None),
        ("ddl", None),
    ],
)  # fmt: skip
def test_keys_by_the_tag(rows: Rows, name: str, key: list[str] | None) -> None:
    assert rows[name]["key"] == key


@pytest.mark.parametrize(
    ("name", "source"),
    [
        ("insert", ("db", None, "t")), ("three_names", ("db", "s", "t")),
        ("dots", ("d.b", None, "t.1")), ("shard", ("db", None, "t")), ("ddl", ("db", None, None)),
        ("ddl_without_object", (None, None, None)), ("truncate", ("db", None, "t")),
        ("truncate_quoted", ("o-db", None, "a b")), ("truncate_said", ("db", None, "t")),
        ("truncate_after_words", ("db", None, "t")),
        ("truncate_any_case", ("db", None, "t1")), ("truncate_own_case", ("DB", None, "T1")),
        ("dropped", ("db", None, "t")), ("dropped_any_case", ("db", None, "t1")),
    ],
)  # fmt: skip
def test_names(rows: Rows, name: str, source: tuple[str | None, ...]) -> None:
    assert tuple(rows[name][part] for part in ("database", "schema", "table")) == source


def test_statements_times_and_ids(rows: Rows) -> None:
    assert rows["ddl"]["ddl"] == "alter table t add c int"
    assert rows["truncate"]["ddl"] == "TRUNCATE TABLE t"
    assert rows["insert"]["ddl"] is None
    assert rows["insert"]["source_ts"].timestamp() == 1696984408
    assert rows["full_load_without_time"]["source_ts"] is None
    assert rows["full_load_in_millis"]["source_ts"].timestamp() == 1700000001
    assert rows["far_future"]["source_ts"] is None
    assert (rows["processed"]["tx_id"], rows["processed"]["event_id"]) == ("gtid:7", "5")
    assert rows["full_load"]["event_id"] is None
    assert rows["processed"]["transaction"] == "gtid:7"
    assert {rows[name]["transaction"] for name in ("insert", "full_load", "ddl")} == {None}


def test_types_are_what_the_record_says(rows: Rows) -> None:
    fields = [{"name": "id", "dataTypeNumber": 8}, {"name": "v", "dataTypeNumber": 253}]
    assert json.loads(rows["insert"]["types"]) == {"source": "MySQL", "fields": fields}
    assert rows["insert"]["types"] == rows["null"]["types"] == rows["delete"]["types"]
    assert rows["ddl"]["types"] is None
