"""DTS Avro's files: which containers are read, records as Avro prints them, real messages."""

from __future__ import annotations

import base64
import io
import json
from pathlib import Path
from typing import Any

import fastavro
import pytest
from pyspark.sql import Row, SparkSession

from bench.dts_records import NAMESPACE, NEW, integer, message, text, union, value
from sluice.config.format_options import DtsAvroOptions
from sluice.errors import TerminalError
from spark_jobs.formats.dts_avro.decoder import DtsAvro
from tests.spark.dts_records import NONE, NULL, ROW, bare_file, clock, container, datum
from tests.spark.envelopes import at, jsonl

DEFAULTS = DtsAvroOptions()
pytestmark = [pytest.mark.spark, pytest.mark.formats]


def test_a_container_of_the_union(spark: SparkSession, tmp_path: Path) -> None:
    """record.avsc as it is: every datum has the number of its type before it."""
    found = [(f"{NAMESPACE}.Record", message("INSERT", after=ROW))]
    file = container(tmp_path / "u.avro", union(), found)
    (row,) = DtsAvro().read(spark, (file,), DEFAULTS).collect()
    assert (row["outcome"], row["after"]) == ("event", {"id": "1", "v": "a"})


def test_containers_of_something_else_are_refused(spark: SparkSession, tmp_path: Path) -> None:
    schema = {"type": "record", "name": "x", "fields": [{"name": "a", "type": "int"}]}
    with pytest.raises(TerminalError, match=r"x\.avro is not a DTS Avro file"):
        DtsAvro().read(spark, (container(tmp_path / "x.avro", schema, []),), DEFAULTS)


def printed(**parts: Any) -> dict[str, Any]:
    """A record as Avro prints it."""
    return {
        "version": 0, "id": 5, "sourceTimestamp": 1696984408, "sourceTxid": "0",
        "source": {"sourceType": "MySQL", "version": "8"}, "operation": "INSERT",
        "objectName": "db.t", "tags": {"pk_uk_info": '{"PRIMARY":["id"]}'},
        "fields": [{"name": "id", "dataTypeNumber": 8}, {"name": "v", "dataTypeNumber": 253}],
        "beforeImages": None, "afterImages": [{"Integer": {"precision": 8, "value": "1"}},
        {"Character": {"charset": "gbk", "value": "\u00c4\u00e3"}}], **parts,
    }  # fmt: skip


def test_printed_records(spark: SparkSession, tmp_path: Path) -> None:
    lines = [
        printed(),
        printed(operation="DDL", fields=None, afterImages="drop table [x]"),
        printed(afterImages=[{"DateTime": {"year": 2024, "month": 1, "day": 2}}, None]),
        printed(afterImages=[{"Integer": {"precision": 8, "value": "1"}}, {"EmptyObject": "NONE"}]),
        printed(operation="HEARTBEAT", fields=None, afterImages=None),
        printed(afterImages=[{"Newer": {"value": "1"}}, None]),
        printed(afterImages="x"),
        printed(afterImages={"a": 1}),
        printed(fields=[{"name": None}, {"name": "v"}]),
        printed(id="1e999"),
        '{"version": 0, "id": 5,',
        '{"a": 1}',
        "[" * 2000,
    ]
    rows = DtsAvro().read(spark, (jsonl(tmp_path / "x.jsonl", lines),), DEFAULTS).collect()
    assert [(r["op"], r["after"], r["absent"]) for r in rows[:4]] == [
        ("insert", {"id": "1", "v": "你"}, None),
        ("ddl", None, None),
        ("insert", {"id": "2024-01-02", "v": None}, None),
        ("insert", {"id": "1", "v": None}, ["v"]),
    ]
    assert rows[1]["ddl"] == "drop table [x]"
    assert [(r["outcome"], r["reason"]) for r in rows[4:]] == [
        ("ignore", "HEARTBEAT"), ("reject", "unreadable_value"), ("reject", "image_missing"),
        ("reject", "image_length"), ("reject", "fields_missing"), ("reject", "bad_id"),
        ("reject", "not_json"), ("reject", "not_a_record"), ("reject", "not_json"),
    ]  # fmt: skip
    assert rows[10]["raw"] == lines[10]


FIELDS = [("id", 8), ("v", 253), ("at", 12), ("z", 0), ("b", 252), ("j", 245), ("g", 255),
          ("t", 7), ("n", 253), ("e", 253)]  # fmt: skip
CLOCK = clock(2024, 2, 29, 1, 2, 3, 7)
SENT = message("UPDATE", fields=FIELDS, before=None, after=[
    integer(1), text('{"bytes":"中"}'), (f"{NAMESPACE}.DateTime", CLOCK),
    value("TimestampWithTimeZone", CLOCK, "+08:00"), value("BinaryObject", "BLOB", b"\x00\xff"),
    value("TextObject", "JSON", '{"k":[1.10,"NONE","x"]}'), value("BinaryGeometry", "POINT", b"\1"),
    value("Timestamp", 1696984408, 5), None, NONE,
])  # fmt: skip
BARE: list[Any] = [
    {"precision": 8, "value": "1"},
    {"charset": "utf8mb4", "value": {"bytes": '{"bytes":"中"}'.encode().decode("latin1")}}, CLOCK,
    {"value": CLOCK, "timezone": "+08:00"}, {"type": "BLOB", "value": {"bytes": "\x00\xff"}},
    {"type": "JSON", "value": '{"k":[1.10,"NONE","x"]}'},
    {"type": "POINT", "value": {"bytes": "\x01"}}, {"timestamp": 1696984408, "millis": 5}, None,
    "NONE",
]  # fmt: skip


def fastjson(found: Any) -> Any:
    """The same with bytes as fastjson prints a ByteBuffer."""
    if isinstance(found, dict) and "bytes" in found:
        raw = found["bytes"].encode("latin1")
        return {"array": base64.b64encode(raw).decode(), "limit": len(raw), "position": 0}
    return {k: fastjson(v) for k, v in found.items()} if isinstance(found, dict) else found


def encoded(found: dict[str, Any]) -> str:
    """As Avro's JsonEncoder does it: every branch of a union under its full name."""
    out = io.StringIO()
    fastavro.json_writer(out, NEW, [found])
    return out.getvalue().strip()


@pytest.mark.parametrize("form", ["bare", "fastjson", "full_names", "encoder"])
def test_every_form_of_print_says_the_same(spark: SparkSession, tmp_path: Path, form: str) -> None:
    """Types without a name, with their namespace, and all unions with their branches."""
    record = {**SENT, "afterImages": BARE}
    short = json.loads(encoded(SENT))["afterImages"]["array"]
    line = {
        "bare": json.dumps(record),
        "fastjson": json.dumps({**record, "afterImages": [fastjson(v) for v in BARE]}),
        "full_names": json.dumps({**record, "afterImages": short}),
        "encoder": encoded(SENT),
    }[form]
    datums = bare_file(tmp_path / "datums", [datum(SENT)])
    lines = jsonl(tmp_path / "x.jsonl", [line])
    one, two = (
        DtsAvro().read(spark, (file,), DEFAULTS).drop("file").collect() for file in (datums, lines)
    )
    assert one == two
    assert one[0]["after"]["v"] == '{"bytes":"中"}'


POINT = bytes.fromhex("0101000000000000000000f03f0000000000000040")
UNNAMED: dict[str, tuple[tuple[str, Any], dict[str, Any]]] = {
    kind: (value("BinaryObject", kind, raw), {"type": kind, "value": raw.decode("latin1")})
    for kind, raw in {
        "BINARY": b"\x00\xff", "VARBINARY": b"ab", "BLOB": b"aGk=", "BFILE": b"x", "RAW": b"\xff",
        "LONG_RAW": b"test", "bytea": b"test",
    }.items()
}  # fmt: skip
GEOMETRIES = (
    "GEOMETRY", "POINT", "LINESTRING", "POLYGON", "MULTIPOINT", "MULTILINESTRING", "MULTIPOLYGON",
    "GEOMETRYCOLLECTION", "GEOMCOLLECTION", "WKB", "point",
)  # fmt: skip
UNNAMED |= {
    f"wkb of {kind}": (value("BinaryGeometry", kind, POINT),
                       {"type": kind, "value": POINT.decode("latin1")})
    for kind in GEOMETRIES
} | {
    "wkt": (value("TextGeometry", "POINT", "POINT(1 2)"), {"type": "POINT", "value": "POINT(1 2)"}),
    "hex": (value("TextGeometry", "GEOMETRY", POINT.hex()),
            {"type": "GEOMETRY", "value": POINT.hex()}),
}  # fmt: skip


def test_plain_bytes_without_a_types_name(spark: SparkSession, tmp_path: Path) -> None:
    """They are bytes by the object's type; a geometry is WKB by its NUL bytes."""
    fields = [(f"c{n}", 253) for n in range(len(UNNAMED))]
    sent = message("INSERT", fields=fields, after=[given for given, _ in UNNAMED.values()])
    line = {**sent, "afterImages": [bare for _, bare in UNNAMED.values()]}
    assert_alike(spark, tmp_path, sent, line)


def test_a_document_that_looks_like_wrapped_bytes(spark: SparkSession, tmp_path: Path) -> None:
    """What stands in quotes is text, under its type's name and without."""
    texts = ('{"bytes": "x"}', '{"array": "AAAA"}', '{"value": {"bytes": "x"}, "year": 1}')
    sent = message("INSERT", fields=[(f"c{n}", 245) for n in range(len(texts))],
                   after=[value("TextObject", "JSON", each) for each in texts])  # fmt: skip
    bare = {**sent, "afterImages": [{"type": "JSON", "value": each} for each in texts]}
    assert_alike(spark, tmp_path, sent, bare)
    assert_alike(spark, tmp_path, sent, encoded(sent))


def test_a_date_without_any_part(spark: SparkSession, tmp_path: Path) -> None:
    """It is MySQL's zero date under its type's name and without."""
    sent = message("INSERT", fields=[("d", 10), ("t", 12)], after=[
        (f"{NAMESPACE}.DateTime", clock()), (f"{NAMESPACE}.DateTime", clock())])  # fmt: skip
    (row,) = assert_alike(spark, tmp_path, sent, {**sent, "afterImages": [clock(), clock()]})
    assert row["after"] == {"d": "0000-00-00", "t": "0000-00-00"}


def test_a_negative_time_and_null_as_an_object(spark: SparkSession, tmp_path: Path) -> None:
    ago = clock(None, None, None, -1, -2, -3, -500000)
    sent = message("INSERT", fields=[("t", 11), ("n", 253)], after=[
        (f"{NAMESPACE}.DateTime", ago), NULL])  # fmt: skip
    assert_alike(spark, tmp_path, sent, encoded(sent))
    (row,) = assert_alike(spark, tmp_path, sent, {**sent, "afterImages": [ago, "NULL"]})
    assert row["after"] == {"t": "-01:02:03.500000", "n": None}


def assert_alike(spark: SparkSession, folder: Path, sent: dict[str, Any], line: Any) -> list[Row]:
    """The record as a datum and as this line mean the same; its events."""
    files = bare_file(folder / "datums", [datum(sent)]), jsonl(folder / "x.jsonl", [line])
    one, two = (DtsAvro().read(spark, (file,), DEFAULTS).drop("file").collect() for file in files)
    assert [row["outcome"] for row in one] == ["event"]
    assert two == one
    return two


def test_a_printed_statement_under_its_branch(spark: SparkSession, tmp_path: Path) -> None:
    line = encoded(message("DDL", after="truncate table t", object="db", tags={}))
    (row,) = DtsAvro().read(spark, (jsonl(tmp_path / "x.jsonl", [line]),), DEFAULTS).collect()
    assert (row["op"], row["database"], row["table"]) == ("truncate", "db", "t")
    assert row["ddl"] == "truncate table t"


def test_a_character_that_is_no_byte(spark: SparkSession, tmp_path: Path) -> None:
    """Whoever prints it has not printed bytes: nothing is guessed, and nothing becomes `?`."""
    lines = [
        printed(afterImages=[None, {"Character": {"charset": "utf8mb4", "value": "中"}}]),
        printed(afterImages=[None, {"BinaryObject": {"type": "BLOB", "value": "中"}}]),
    ]
    rows = DtsAvro().read(spark, (jsonl(tmp_path / "x.jsonl", lines),), DEFAULTS).collect()
    assert [r["reason"] for r in rows] == ["bad_characters", "unreadable_value"]


HELD = {
    "1.10": "1.1", "0.00": "0.0", "-0e5": "-0.0", "4.9e-324": "4.9E-324", "NaN": "NaN",
    '"NaN"': "NaN", '"Infinity"': "Infinity", '"-Infinity"': "-Infinity",
}  # fmt: skip
LOST = ("1e999", "-1e999", "1e-400", "-0.0001E-330", "9" * 400)
NO_NUMBER = '{"TextObject": {"type": "JSON", "value": "{\\"value\\": 1e999}"}}'


def test_numbers_that_no_double_holds(spark: SparkSession, tmp_path: Path) -> None:
    """They are refused under their type's name and without; words and what is in texts stay."""
    bare = '{"value": %s, "precision": 8, "scale": 2}'
    values = [f'{{"Float": {bare}}}' % number for number in (*HELD, *LOST)]
    values += [NO_NUMBER, *(bare % number for number in LOST)]
    start, end = json.dumps(printed(afterImages=[None, None])).split("[null, null]")
    lines = [f"{start}[{each}, null]{end}" for each in values]
    rows = DtsAvro().read(spark, (jsonl(tmp_path / "x.jsonl", lines),), DEFAULTS).collect()
    found = [r["reason"] or r["after"]["id"] for r in rows]
    lost = ["unreadable_value"] * len(LOST)
    assert found == [*HELD.values(), *lost, '{"value": 1e999}', *lost]


EXACT = ("1.10", "12345678901234567890.123456789", "-0.00", "7" * 30)


def test_exact_numbers_without_quotes(spark: SparkSession, tmp_path: Path) -> None:
    """The line has every digit, also where its writer left out the quotes."""
    bare = [f'{{"value": {number}, "precision": 30}}' for number in EXACT]
    scaled = [each.replace("}", ', "scale": 9}') for each in bare]
    named = [f'{{"Integer": {each}}}' for each in bare]
    named += [f'{{"{NAMESPACE}.Decimal": {each}}}' for each in scaled]
    start, end = json.dumps(printed(afterImages=[None, None])).split("[null, null]")
    lines = [f"{start}[{each}, null]{end}" for each in (*bare, *scaled, *named)]
    rows = DtsAvro().read(spark, (jsonl(tmp_path / "x.jsonl", lines),), DEFAULTS).collect()
    assert [r["reason"] or r["after"]["id"] for r in rows] == [*EXACT] * 4


def test_real_messages(spark: SparkSession, fixtures: Path, tmp_path: Path) -> None:
    """Four messages of a subscription, in both layouts and printed, mean the same."""
    demo = fixtures / "dts-avro" / "cloudkdb-demo"
    printed_ones = jsonl(tmp_path / "m.jsonl", (demo / "messages.jsonl").read_text().splitlines())
    for kind in ("born", "no-born", "printed"):
        paths = sorted(demo.glob(f"encoded/*.{kind}.bin"))
        bare = bare_file(tmp_path / kind, [p.read_bytes() for p in paths])
        file = printed_ones if kind == "printed" else bare
        rows = DtsAvro().read(spark, (file,), DEFAULTS).collect()
        assert [(r["op"], r["table"], r["position"]) for r in rows] == [
            ("ddl", None, at(1700104)),
            ("insert", "t1", at(1700382)),
            ("update", "t1", at(1700504)),
            ("delete", "t1", at(1700553)),
        ]
        assert rows[0]["ddl"] == "create table t1(a bigint primary key, b varchar(100))"
        assert rows[2]["after"] == {"a": "123456789", "b": "test update statement."}
        assert rows[3]["key"] == ["a"]
