"""Debezium JSON from landed files to tables: keys that are no objects, ties, what is no event."""

from __future__ import annotations

import json
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from sluice.config.format_options import DebeziumOptions
from sluice.errors import TerminalError
from spark_jobs.formats.debezium.decoder import Debezium
from tests.spark.debezium_events import event, source
from tests.spark.envelopes import jsonl
from tests.spark.sandbox import Sandbox, total

DEFAULTS = DebeziumOptions()
NUMERIC = DebeziumOptions(decimal_format="numeric")
pytestmark = pytest.mark.spark


def test_broken_lines_are_known_as_such_whatever_the_session_calls_them(
    spark: SparkSession, tmp_path: Path
) -> None:
    lake = Sandbox(spark, tmp_path, {"format": "debezium", "tables": {"t": {"key": ["id"]}}})
    lake.spark.conf.set("spark.sql.columnNameOfCorruptRecord", "broken")
    whole = event("c", src=source(pos=1), after={"id": 1, "name": "a"})
    cut = json.dumps(event("c", src=source(pos=2), after={"id": 2, "name": "b"}))[:-1]
    assert total(lake.load_records([whole, cut, "wrong"])).quarantined == 2
    assert sorted((row["reason"], row["raw"]) for row in lake.quarantined()) == [
        ("not_json", b"wrong"), ("not_json", cut.encode()),
    ]  # fmt: skip


def test_rows_behind_a_scalar_key_have_the_key_of_the_pipeline(
    spark: SparkSession, tmp_path: Path
) -> None:
    """`KEY^VALUE` as it lands, with tombstones, and the same as records."""
    sandbox = Sandbox(spark, tmp_path, {"format": "debezium", "tables": {"t": {"key": ["id"]}}})
    made, changed, gone = (
        event("c", src=source(pos=1)),
        event("u", src=source(pos=2), after={"id": 1, "name": "b"}),
        event("d", src=source(pos=3), before={"id": 2, "name": "x"}),
    )
    sandbox.write("1.txt", [f"1001^{json.dumps(made)}", f"1001^{json.dumps(changed)}"])
    sandbox.write("2.jsonl", [
        {"key": "a", "value": event("c", src=source(pos=2), after={"id": 2, "name": "x"})},
        {"key": "a", "value": gone}, {"key": "a", "value": None}, {"key": 7, "value": None},
    ])  # fmt: skip
    counts = total(sandbox.load_landed())
    assert sandbox.rows("t") == [{"id": "1", "name": "b"}]
    assert (counts.read, counts.ignored, counts.quarantined) == (6, 2, 0)


def test_tombstones_beside_what_a_sink_adds_are_ignored(
    spark: SparkSession, tmp_path: Path
) -> None:
    """In any order, and without a key; beside other fields a null value is no tombstone."""
    sandbox = Sandbox(spark, tmp_path, {"format": "debezium", "tables": {"t": {"key": ["id"]}}})
    about = {"offset": 6, "timestamp": "2024-01-02T03:04:05Z", "partition": 0, "topic": 'a"b'}
    headers: list[Any] = [{"key": "a]", "value": 'x"'}, {"key": "b", "value": None}]
    tombstones = [
        {"value": None, "offset": 6}, {"offset": 6, "value": None, "timestamp": None},
        {"key": "eyJpZCI6MX0=", "value": None, "offset": 3}, {"key": 5, "value": None, **about},
        {**about, "value": {"schema": None, "payload": None}, "headers": headers},
        {"headers": [], "key": [1], "value": None, "offset": 1}, {"value": None, "headers": {}},
    ]  # fmt: skip
    others = [{"value": None, "note": "a"}, {"value": None, "headers": headers, "id": 1}]
    sandbox.load_records([{"value": event("c"), **about}])
    counts = total(sandbox.load_records([*tombstones, *others]))
    assert (counts.ignored, counts.quarantined) == (len(tombstones), len(others))


@pytest.mark.parametrize("schema", [True, False], ids=["schema", "bare"])
def test_tombstones_of_a_compacted_topic_delete_their_rows(
    spark: SparkSession, tmp_path: Path, schema: bool
) -> None:
    sandbox = Sandbox(spark, tmp_path, {
        "format": "debezium", "tables": {"t": {"key": ["id"]}},
        "format_options": {"tombstones": "delete"},
    })  # fmt: skip
    made = [event("c", src=source(pos=n), after={"id": n, "name": "x"}) for n in (1, 2, 3)]
    keys: list[Any] = [{"id": n} for n in (1, 2, 3, 4)]
    if schema:
        keys = [{"schema": {"type": "struct"}, "payload": key} for key in keys]
    again = event("u", src=source(pos=9), after={"id": 3, "name": "again"})
    _, two, three, unknown = keys
    lines = [*zip(keys[:3], made, strict=True), (two, None), (three, None), (three, again),
             (unknown, None)]  # fmt: skip
    sandbox.write("1.jsonl", [{"key": key, "value": value} for key, value in lines])
    counts = total(sandbox.load_landed())
    assert sandbox.rows("t") == [{"id": "1", "name": "x"}, {"id": "3", "name": "again"}]
    assert (counts.read, counts.ignored, counts.quarantined) == (7, 1, 0)


def test_a_tombstone_takes_no_row_whose_key_was_spelled_anew(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Debezium tells a change of key as a delete, its tombstone and a create, at one place."""
    sandbox = Sandbox(spark, tmp_path, {
        "format": "debezium",
        "tables": {"t": {"key": ["code"], "collations": {"code": "nocase"}}},
        "format_options": {"tombstones": "delete"},
    })  # fmt: skip
    made = event("c", src=source(pos=1), after={"code": "abc"})
    gone = event("d", src=source(pos=7), before={"code": "abc"})
    again = event("c", src=source(pos=7), after={"code": "ABC"})
    records = [("abc", made), ("abc", gone), ("abc", None), ("ABC", again)]
    sandbox.write("1.jsonl", [{"key": {"code": key}, "value": value} for key, value in records])
    sandbox.load_landed()
    assert [row["code"] for row in sandbox.rows("t")] == ["ABC"]


def test_a_tombstone_takes_no_row_of_another_file(spark: SparkSession, tmp_path: Path) -> None:
    """The order of two files says nothing of it: only inside a partition keys are in order."""
    options = {"format_options": {"tombstones": "delete"}, "tables": {"t": {"key": ["id"]}}}
    sandbox = Sandbox(spark, tmp_path, {"format": "debezium", **options})
    made = [event("c", src=source(pos=n), after={"id": n}) for n in (1, 2, 3)]
    keyed = [{"key": {"id": n}, "value": value} for n, value in enumerate(made, 1)]
    sandbox.write("a.jsonl", keyed[:1])
    sandbox.write("b.jsonl", [*keyed[1:], {"key": {"id": 1}, "value": None}])
    counts = total(sandbox.load_landed())
    assert sorted(row["id"] for row in sandbox.rows("t")) == ["1", "2", "3"]
    assert (counts.applied, counts.ignored) == (3, 1)


NUMBERS = range(1, 9)


def ties(connector: str, **place: Any) -> list[dict[str, Any]]:
    """Two changes of each of some rows, all at one place but for what `place` gives of their order.

    By a hash of what they hold, some of the first would win.
    """
    made = []
    for at, (ident, name) in enumerate((i, n) for i in NUMBERS for n in ("first", "second")):
        told = {k: v(at) if callable(v) else v for k, v in place.items()}
        row = {"id": ident, "name": name}
        made.append(event("u", src=source(connector, **told), after=row))
    return made


def names(sandbox: Sandbox) -> dict[str, str]:
    return {row["id"]: row["name"] for row in sandbox.rows("t")}


def test_changes_of_one_transaction_by_an_old_connector(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Debezium 1.5 and 1.6 repeat the last commit in `sequence`; a start has no commit to tell."""
    sandbox = Sandbox(spark, tmp_path, {"format": "debezium", "tables": {"t": {"key": ["id"]}}})
    empty = {"schema": None, "payload": None}
    keyed = {"schema": {"type": "struct"}, "payload": {"id": 1}}
    unnamed = event("c", src={"connector": "postgresql", "lsn": 1})
    nothing = [empty, {"key": keyed, "value": empty}, {"key": empty, "value": empty}]
    tied = ties("postgresql", lsn=lambda at: 150 + at, sequence='["100","100"]')
    sandbox.write("1.jsonl", [*tied, *nothing, unnamed])
    counts = total(sandbox.load_landed())
    assert (counts.read, counts.ignored, counts.quarantined) == (20, 3, 1)
    assert [row["reason"] for row in sandbox.quarantined()] == ["table_missing"]
    assert names(sandbox) == {str(i): "second" for i in NUMBERS}
    started = source("postgresql", lsn=500, sequence='[null,"500"]')
    sandbox.write("2.jsonl", [event("u", src=started, after={"id": 1, "name": "third"})])
    sandbox.load_landed()
    assert names(sandbox)["1"] == "third"


def test_changes_of_one_scn_without_further_order_go_by_arrival(
    spark: SparkSession, tmp_path: Path
) -> None:
    sandbox = Sandbox(spark, tmp_path, {"format": "debezium", "tables": {"t": {"key": ["id"]}}})
    sandbox.load_halves(ties("oracle", scn="100", ssn=0), cut=15, again=1)
    assert names(sandbox) == {str(i): "second" for i in NUMBERS}


@pytest.mark.parametrize(
    ("options", "left"), [({}, []), ({"sqlserver_order": "arrival"}, ["after"])]
)
def test_a_deferred_update_of_sql_server_by_arrival(
    spark: SparkSession, tmp_path: Path, options: dict[str, str], left: list[str]
) -> None:
    """The DELETE of each row arrives before its INSERT, which has the lower `change_lsn`."""
    sandbox = Sandbox(spark, tmp_path, {
        "format": "debezium", "format_options": options, "tables": {"t": {"key": ["id"]}},
    })  # fmt: skip
    commit = {"commit_lsn": "00000027:00000758:0009", "event_serial_no": 1}
    sent = []
    for ident in NUMBERS:
        rows = [{"id": ident, "name": name} for name in ("before", "after")]
        places = [
            source("sqlserver", change_lsn=f"00000027:00000758:{change}", **commit)
            for change in ("0005", "0003")
        ]
        sent += [
            event("d", src=places[0], before=rows[0]),
            event("c", src=places[1], after=rows[1]),
        ]
    sandbox.load_halves(sent, cut=9, again=0)
    assert list(names(sandbox).values()) == left * len(NUMBERS)


def test_equal_rows_at_one_redo_position_are_distinguished_by_their_address(
    spark: SparkSession, tmp_path: Path
) -> None:
    """In a table without a key; one that comes again counts once. `ssn` is 0 in all of them."""
    place = {"scn": "100", "commit_scn": "101", "rs_id": "0x1.2.3", "ssn": 0}
    rows = [
        event("c", src=source("oracle", row_id=f"AAATGpAAIAAItcIAA{last}", **place))
        for last in "ABCA"
    ]
    sandbox = Sandbox(spark, tmp_path, {"format": "debezium", "tables": {"t": {"key": []}}})
    sandbox.load_records(rows)
    assert len(sandbox.rows("t")) == 3


@pytest.mark.parametrize("form", ["{}", '{{"key":{{"id":1}},"value":{}}}'])
@pytest.mark.parametrize(
    ("options", "value"), [(DEFAULTS, 1234), (DEFAULTS, 19.5), (NUMERIC, "B8Y=")]
)
def test_decimals_in_the_other_form_are_refused(
    spark: SparkSession, tmp_path: Path, options: DebeziumOptions, value: Any, form: str
) -> None:
    """Of the base64 1234 a decimal would be -26588.24, without a word."""
    name = "org.apache.kafka.connect.data.Decimal"
    field = {"field": "d", "type": "bytes", "name": name, "parameters": {"scale": "2"}}
    row = {"field": "after", "type": "struct", "fields": [field]}
    change = {"schema": {"type": "struct", "fields": [row]}, "payload": event(after={"d": value})}
    file = jsonl(tmp_path / "a.jsonl", [form.format(json.dumps(change))])
    with pytest.raises(TerminalError, match="column 'd'"):
        Debezium().read(spark, (file,), options)


def test_decimals_as_numbers() -> None:
    """`decimal.format=NUMERIC`: an option says so, for a whole number may be base64 as well."""
    name = "org.apache.kafka.connect.data.Decimal"
    fields = [
        {"field": "id", "type": "int32"},
        {"field": "d", "type": "bytes", "name": name, "default": 12345678901234567890.5,
         "parameters": {"scale": "2", "connect.decimal.precision": "30"}},
        {"field": "wide", "type": "bytes", "name": name, "parameters": {"scale": "40"}},
    ]  # fmt: skip
    row = {"type": "struct", "fields": [{"field": "after", "type": "struct", "fields": fields}]}
    types = json.dumps(row).replace("1.2345678901234567e+19", "12345678901234567890.50")
    described = Debezium().columns(types, NUMERIC)
    kinds = {c.name: (c.type.spark, c.type.encoding, c.default) for c in described}
    assert kinds == {"id": ("int", "", None), "wide": ("string", "", None),
                     "d": ("decimal(30,2)", "", "12345678901234567890.50")}  # fmt: skip
    assert {c.type.encoding for c in Debezium().columns(types, DEFAULTS)} == {
        "",
        "base64",
        "base64:40",
    }


def semantic(field: str, kind: str, name: str, **parameters: str) -> dict[str, Any]:
    return {"field": field, "type": kind, "name": name, "parameters": parameters}


DESCRIBED = [
    {"field": "id", "type": "int32"},
    semantic("d", "bytes", "org.apache.kafka.connect.data.Decimal", scale="2"),
    semantic("at", "int64", "io.debezium.time.MicroTimestamp"),
    semantic("v", "struct", "io.debezium.data.VariableScaleDecimal"),
    semantic("n", "struct", "io.debezium.data.VariableScaleDecimal"),
    {"field": "b", "type": "bytes"},
]
SCHEMA = {"type": "struct", "fields": [{"field": "after", "type": "struct", "fields": DESCRIBED}]}


@pytest.mark.long
def test_description_of_one_event_does_not_apply_to_events_without_one(
    spark: SparkSession, tmp_path: Path
) -> None:
    """`1234` is a decimal in base64 and a plain number; a key of whole numbers is one."""
    hints = {"v": "decimal(20,2)", "n": "bigint"}
    pipeline = {"format": "debezium", "tables": {"t": {"key": ["id"], "columns": hints}}}
    sandbox = Sandbox(spark, tmp_path, pipeline)

    def made(ident: int, schema: Any, **row: Any) -> dict[str, Any]:
        after = {"id": ident, "d": None, "at": None, "v": None, "n": None, "b": None} | row
        return {"schema": schema, "payload": event(src=source(pos=ident), after=after)}

    number = {"scale": 1, "value": "BOI="}
    gone = event("d", src=source(pos=9), before={"id": 2, "d": "AA=="})
    sandbox.write("1.jsonl", [
        made(1, SCHEMA, d="BOI=", at=1, v=number, n={"scale": 0, "value": "BQ=="}, b="AA=="),
        made(2, SCHEMA), {"schema": None, "payload": gone},
        made(3, None, d="1234"), made(4, None, at=1704164645678),
        made(5, None, v="12.5", n=7, b="AA=="),
    ])  # fmt: skip
    sandbox.load_landed()
    rows = sorted(sandbox.rows("t"), key=lambda row: row["id"])
    loaded = [(r["id"], r["d"], r["v"], r["n"], r["b"]) for r in rows]
    assert loaded == [
        (1, Decimal("12.50"), Decimal("125.00"), 5, b"\0"), (5, None, Decimal("12.50"), 7, b"\0"),
    ]  # fmt: skip
    bad = sorted((row["reason"], row["detail"]) for row in sandbox.quarantined())
    assert bad == [("does_not_fit", "at: '1704164645678' does not fit timestamp_ntz[us]"),
                   ("does_not_fit", "d: '1234' does not fit decimal(38,2)[base64]")]  # fmt: skip


def test_a_hint_without_an_encoding_leaves_it_to_the_description(
    spark: SparkSession, tmp_path: Path
) -> None:
    """`1234` of a described decimal is base64, whatever it looks like; elsewhere it is a number."""
    hints = {"d": "decimal(18,4)", "at": "timestamp", "day": "date", "n": "bigint", "t": "string"}
    sandbox = Sandbox(
        spark, tmp_path, {"format": "debezium", "tables": {"t": {"key": ["id"], "columns": hints}}}
    )
    number = "org.apache.kafka.connect.data.Decimal"
    fields = [
        {"field": "id", "type": "int32"},
        semantic("d", "bytes", number, scale="2"),
        semantic("at", "int64", "io.debezium.time.MicroTimestamp"),
        semantic("day", "int32", "io.debezium.time.Date"),
        semantic("n", "bytes", number, scale="0"),
        semantic("t", "bytes", number, scale="2"),
    ]
    schema = {"type": "struct", "fields": [{"field": "after", "type": "struct", "fields": fields}]}

    def made(ident: int, **row: Any) -> dict[str, Any]:
        after = {"id": ident, "d": None, "at": None, "day": None, "n": None, "t": None} | row
        return {"schema": schema, "payload": event(src=source(pos=ident), after=after)}

    plain = {"id": 3, "d": "12.5", "at": None, "day": "2024-01-02", "n": "7", "t": "x"}
    counts = total(sandbox.load_records([
        made(1, d="1234", at=1704164645678901, day=19724, n="BQ==", t="BOI="),
        made(2, n="1234"),
        {"schema": None, "payload": event(src=source(pos=3), after=plain)},
    ]))  # fmt: skip
    rows = sorted(sandbox.rows("t"), key=lambda row: row["id"])
    assert counts.quarantined == 0
    loaded = [(r["d"], r["day"], r["n"], r["t"]) for r in rows]
    day, micros = date(2024, 1, 2), 1704164645678901
    assert loaded == [
        (Decimal(0xD76DF8) / 100 - Decimal(1 << 24) / 100, day, 5, "12.50"),
        (None, None, 0xD76DF8 - (1 << 24), None),
        (Decimal("12.5"), day, 7, "x"),
    ]
    assert rows[0]["at"].timestamp() == micros / 1_000_000


def test_a_delete_without_a_schema_finds_a_row_of_either_width(
    spark: SparkSession, tmp_path: Path
) -> None:
    """The key was widened; the connector wrote this one without its schema."""
    sandbox = Sandbox(spark, tmp_path, {"format": "debezium", "tables": {"t": {"key": ["id"]}}})
    records = [described("int32", 1), described("int64", 2**40), gone(1, 3), gone(2**40, 4)]
    counts = total(sandbox.load_records(records))
    assert (sandbox.rows("t"), counts.applied, counts.quarantined) == ([], 2, 0)


def described(kind: str, ident: int) -> dict[str, Any]:
    """An insert whose schema tells the type of its key."""
    fields = [{"field": "id", "type": kind, "optional": False}]
    images = [{"field": i, "type": "struct", "fields": fields} for i in ("before", "after")]
    row = event("c", src=source(pos=1 + (ident > 1)), after={"id": ident})
    return {"schema": {"type": "struct", "fields": images}, "payload": row}


def gone(ident: int, pos: int) -> dict[str, Any]:
    row = event("d", src=source(pos=pos), before={"id": ident}, after=None)
    return {"schema": None, "payload": row}
