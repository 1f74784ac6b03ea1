"""DataHub Tuple: operations by their flags, order, exact values of four containers, whole runs."""

from __future__ import annotations

import csv
import json
from collections.abc import Sequence
from datetime import UTC, date, datetime, time
from decimal import Decimal
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import Row, SparkSession

from sluice.coltypes import ColumnType, decimal
from sluice.errors import TerminalError
from sluice.manifest import SourceFile
from sluice.parquetfile import avro_schema
from spark_jobs.formats.datahub_tuple import DatahubTuple
from tests.spark.envelopes import assert_rejected, at, decode_named, fold, jsonl
from tests.spark.sandbox import Sandbox, total

pytestmark = [pytest.mark.spark, pytest.mark.formats]
TEXT = ColumnType("string")
FLAGS = {"I": "NY", "D": "YN", "old": "YN", "new": "NY"}


def record(op: str, sequence: Any = "5", /, **row: Any) -> dict[str, Any]:
    """A record on table `t`; an update is its `old` or its `new` half."""
    before, after = FLAGS.get(op, "NY")
    return {
        "_sequence_id_": sequence,
        "_operation_type_": "U" if op in ("old", "new") else op,
        "_execute_time_": 1649991726000,
        "_source_table_": "t",
        "_before_image_": before,
        "_after_image_": after,
        "id": 1,
    } | row


def without(name: str, op: str = "I") -> dict[str, Any]:
    """A record that lacks one of the columns about the change."""
    return {k: v for k, v in record(op).items() if k != name}


RECORDS: dict[str, Any] = {
    "insert": record("I", n=None),
    "old": record("old"),
    "new": record("new"),
    "delete": record("D"),
    # order
    "full_load": record("I", "-1"),
    "full_load_without_time": record("I", "-1", _execute_time_=-1),
    "as_number": record("I", 1649991610688000001),
    "zeros": record("I", "0005"),
    "long": record("I", "9" * 40),
    "no_sequence": record("I", None),
    # times and names
    "excute": without("_execute_time_") | {"_excute_time_": "1649991726001"},
    "micros": record("I", _execute_time_=1649991726000001),
    "as_text": record("I", _execute_time_="2022-04-15 03:02:06.5"),
    "no_time": record("I", _execute_time_="soon"),
    "default_table": without("_source_table_"),
    "empty_table": record("I", _source_table_=""),
    # values
    "exact": json.dumps(record("I", n=0)).replace(
        '"n": 0', '"n": 12345678901234567890.10, "e": 1e999, "o": {"k": [1.10]}, "s": ""'),
    "odd_names": record("I", **{"file": "f", "a.b`c": 1, "row": 2, "meta": 3, "key": 4,
                                "_corrupt_record": 5, "ID": 6}),
    # what is no record
    "wrong_case": record("i"),
    "unknown": record("REPLACE"),
    "no_op": without("_operation_type_"),
    "no_flags": record("U", _before_image_=None, _after_image_=None),
    "one_flag": without("_before_image_", "new"),
    "both_flags": record("U", _before_image_="Y", _after_image_="Y"),
    "inserted_before": record("I", _before_image_="Y", _after_image_="N"),
    "deleted_after": record("D", _before_image_="N", _after_image_="Y"),
    "file_and_offset": record("I", "mysql-bin.000001:4"),
    "rounded": record("I", 1.6499916106880000e18),
    "below_full_load": record("I", "-2"),
    "twice": json.dumps(record("I")).replace('"id": 1', '"id": 1, "id": 2'),
    "cut": '{"_sequence_id_": "5", "_oper',
    "array": "[1]",
    "text": '"x"',
    "empty": "{}",
    "no_flags_but_insert": record("I", _before_image_=None, _after_image_=None),
    "deep": json.dumps(record("I", x=0)).replace('"x": 0', '"x": ' + "[" * 300 + "]" * 300),
}  # fmt: skip


@pytest.fixture(scope="module")
def rows(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Row]:
    """Every record above, decoded in one read, by its name."""
    folder = tmp_path_factory.mktemp("tuple")
    return decode_named(spark, DatahubTuple(), folder, RECORDS, table="fallback")


def data(row: Row) -> dict[str, str]:
    """The values that an image has, for a row has NULL in every other column of the batch."""
    return {name: text for name, text in (row["after"] or row["before"]).items() if text}


@pytest.mark.parametrize(
    ("name", "op", "image"),
    [
        ("insert", "insert", "after"), ("old", "delete", "before"), ("new", "update", "after"),
        ("delete", "delete", "before"), ("no_flags_but_insert", "insert", "after"),
    ],
)  # fmt: skip
def test_operations(rows: dict[str, Row], name: str, op: str, image: str) -> None:
    row = rows[name]
    assert (row["outcome"], row["reason"], row["op"], row["raw"]) == ("event", None, op, None)
    assert data(row) == {"id": "1"}
    assert row["before" if image == "after" else "after"] is None


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("wrong_case", "unknown_op:i"), ("unknown", "unknown_op:REPLACE"),
        ("no_op", "not_an_envelope"), ("empty", "not_an_envelope"),
        ("no_flags", "image_flags_missing"), ("one_flag", "image_flags_missing"),
        ("both_flags", "bad_image_flags"), ("inserted_before", "bad_image_flags"),
        ("deleted_after", "bad_image_flags"), ("file_and_offset", "bad_sequence_id"),
        ("rounded", "bad_sequence_id"), ("below_full_load", "bad_sequence_id"),
        ("twice", "duplicate_column"), ("cut", "not_json"), ("array", "not_json"),
        ("text", "not_json"),
    ],
)  # fmt: skip
def test_rejects_say_why_and_keep_their_text(rows: dict[str, Row], name: str, reason: str) -> None:
    assert_rejected(rows[name], reason, RECORDS[name])


def test_a_record_of_no_table_is_rejected(spark: SparkSession, tmp_path: Path) -> None:
    file = jsonl(tmp_path / "e.jsonl", [without("_source_table_")])
    row = DatahubTuple().read(spark, (file,), {}).first()
    assert row is not None
    assert (row["outcome"], row["reason"]) == ("reject", "table_missing")
    assert json.loads(row["raw"])["row"] == {"id": "1"}


@pytest.mark.parametrize(
    ("name", "position"),
    [
        ("insert", at(5)), ("old", at(5)), ("new", at(5)), ("delete", at(5)), ("zeros", at(5)),
        ("as_number", at(1649991610688000001)), ("long", at("9" * 40)),
        ("full_load", at(1649991726000, kind=0)), ("full_load_without_time", "0.010"),
        ("no_sequence", None),
    ],
)  # fmt: skip
def test_positions_are_sequence_ids(rows: dict[str, Row], name: str, position: str) -> None:
    assert rows[name]["position"] == position
    assert rows[name]["event_id"] == (
        None if name.startswith("full") else RECORDS[name]["_sequence_id_"] and
        str(RECORDS[name]["_sequence_id_"])
    )  # fmt: skip


@pytest.mark.parametrize(
    ("name", "seconds"),
    [
        ("insert", 1649991726), ("excute", 1649991726.001), ("micros", 1649991726.000001),
        ("as_text", 1649991726.5), ("no_time", None), ("full_load_without_time", None),
    ],
)  # fmt: skip
def test_times(rows: dict[str, Row], name: str, seconds: float | None) -> None:
    found = rows[name]["source_ts"]
    assert (found and found.timestamp()) == seconds


@pytest.mark.parametrize(
    ("name", "table"),
    [("insert", "t"), ("default_table", "fallback"), ("empty_table", "fallback")],
)
def test_tables(rows: dict[str, Row], name: str, table: str) -> None:
    assert (rows[name]["database"], rows[name]["schema"]) == (None, None)
    assert (rows[name]["table"], rows[name]["key"], rows[name]["types"]) == (table, None, None)


def test_images_keep_null_and_exact_text(rows: dict[str, Row]) -> None:
    assert rows["exact"]["after"]["s"] == ""
    assert data(rows["exact"]) == {
        "id": "1", "n": "12345678901234567890.10", "e": "1e999", "o": '{"k": [1.10]}',
    }  # fmt: skip
    assert rows["insert"]["after"]["n"] is None
    assert data(rows["deep"])["x"] == "[" * 300 + "]" * 300


def test_data_columns_may_have_any_name(rows: dict[str, Row]) -> None:
    assert data(rows["odd_names"]) == {
        "id": "1", "file": "f", "a.b`c": "1", "row": "2", "meta": "3", "key": "4",
        "_corrupt_record": "5", "ID": "6",
    }  # fmt: skip


@pytest.mark.parametrize("turned", [False, True])
def test_an_update_is_two_records(spark: SparkSession, tmp_path: Path, turned: bool) -> None:
    """By the flags the old half goes first, whatever comes first in the file."""
    halves = [
        record("I", "1", id=1, v="a"), record("old", "2", id=1, v="a"),
        record("new", "2", id=1, v="b"), record("I", "9", id=2, v="c"),
        record("old", "10", id=2, v="c"), record("new", "10", id=3, v="c"),
    ]  # fmt: skip
    file = jsonl(tmp_path / "e.jsonl", reversed(halves) if turned else halves)
    decoded = DatahubTuple().read(spark, (file,), {}).collect()
    assert fold(decoded, ["id"]) == {
        ("1",): {"id": "1", "v": "b"},
        ("3",): {"id": "3", "v": "c"},
    }


def test_the_seeds_example(spark: SparkSession, fixtures: Path, tmp_path: Path) -> None:
    """The table has no `_source_table_` and no data columns."""
    text = (fixtures / "seed-examples/datahub-tuple/01-insert-update-delete-table.txt").read_text()
    cells = text.split()
    names, values = cells[:5], cells[5:]
    records = [dict(zip(names, values[i : i + 5], strict=True)) for i in range(0, len(values), 5)]
    file = jsonl(tmp_path / "seed.jsonl", records)
    decoded = DatahubTuple().read(spark, (file,), {"table": "t"}).collect()
    base = 1649991610688000000
    assert [(r["outcome"], r["op"], r["position"]) for r in decoded] == [
        ("event", "insert", at(base)), ("event", "delete", at(base + 1)),
        ("event", "update", at(base + 1)), ("event", "delete", at(base + 2)),
    ]  # fmt: skip
    assert [r["source_ts"].timestamp() for r in decoded] == [
        1649991726, 1649991756, 1649991756, 1649991774,
    ]  # fmt: skip


def test_blank_lines_do_not_move_a_mark(spark: SparkSession, tmp_path: Path) -> None:
    """Of lines that name a column twice only those are rejected, wherever they stand."""
    twice = json.dumps(record("I", "2")).replace('"id": 1', '"id": 1, "id": 2')
    file = jsonl(tmp_path / "e.jsonl", ["", record("I", "1"), " ", "", twice, record("I", "3")])
    decoded = DatahubTuple().read(spark, (file,), {}).collect()
    assert {r["position"]: r["outcome"] for r in decoded} == {
        at(1): "event", at(2): "reject", at(3): "event",
    }  # fmt: skip


def test_files_without_a_record(spark: SparkSession, tmp_path: Path) -> None:
    for lines in ([], ["{", "x"]):
        file = jsonl(tmp_path / "e.jsonl", lines)
        decoded = DatahubTuple().read(spark, (file,), {}).collect()
        assert [r["reason"] for r in decoded] == ["not_json"] * len(lines)


# Typed files

ABOUT = {"_sequence_id_": "7", "_operation_type_": "I", "_source_table_": "t",
         "_before_image_": "N", "_after_image_": "Y"}  # fmt: skip
MOMENT = datetime(2022, 4, 15, 3, 2, 6, 1)
WIDE = Decimal("-12345678901234567890123456789012345.123456789012345678901234567890")
# name: (Arrow type, value, exact text, type of the column)
VALUES: dict[str, tuple[pa.DataType, Any, str | None, ColumnType]] = {
    "int8": (pa.int8(), -128, "-128", ColumnType("int")),
    "int16": (pa.int16(), -1, "-1", ColumnType("int")),
    "int32": (pa.int32(), 2**31 - 1, "2147483647", ColumnType("int")),
    "int64": (pa.int64(), -(2**63), "-9223372036854775808", ColumnType("bigint")),
    "uint8": (pa.uint8(), 255, "255", ColumnType("int")),
    "uint32": (pa.uint32(), 2**32 - 1, "4294967295", ColumnType("bigint")),
    "uint64": (pa.uint64(), 2**64 - 1, "18446744073709551615", decimal(20, 0)),
    "float": (pa.float32(), 0.1, "0.1", ColumnType("float")),
    "double": (pa.float64(), 0.1, "0.1", ColumnType("double")),
    "boolean": (pa.bool_(), True, "true", ColumnType("boolean")),
    "empty": (pa.string(), "", "", TEXT),
    "missing": (pa.string(), None, None, TEXT),
    "nothing": (pa.null(), None, None, TEXT),
    "large": (pa.large_string(), "x", "x", TEXT),
    "days": (pa.date64(), date(1969, 12, 31), "1969-12-31", ColumnType("date")),
    "seconds": (pa.timestamp("s"), MOMENT.replace(microsecond=0), "2022-04-15T03:02:06.000000",
                ColumnType("timestamp_ntz")),
    "short_time": (pa.time32("s"), time(1, 2, 3), "01:02:03", ColumnType("time")),
    "duration": (pa.duration("us"), 7, "7", ColumnType("bigint")),
    "category": (pa.dictionary(pa.int8(), pa.string()), "é", "é", TEXT),
    "binary": (pa.binary(), b"\x00\xff", "AP8=", ColumnType("binary", "base64")),
    "fixed": (pa.binary(2), b"\x01\x02", "AQI=", ColumnType("binary", "base64")),
    "decimal": (pa.decimal128(10, 2), Decimal("-456.10"), "-456.10", decimal(10, 2)),
    "wide": (pa.decimal256(65, 30), WIDE, str(WIDE), TEXT),
    "date": (pa.date32(), date(1969, 12, 31), "1969-12-31", ColumnType("date")),
    "local": (pa.timestamp("us"), MOMENT, "2022-04-15T03:02:06.000001",
              ColumnType("timestamp_ntz")),
    "millis": (pa.timestamp("ms"), datetime(1969, 12, 31, 23, 59, 59, 999000),
               "1969-12-31T23:59:59.999000", ColumnType("timestamp_ntz")),
    "instant": (pa.timestamp("us", "Asia/Shanghai"), MOMENT.replace(tzinfo=UTC),
                "2022-04-15T03:02:06.000001Z", ColumnType("timestamp")),
    "nanos": (pa.timestamp("ns", "UTC"), 1001, "1001", ColumnType("timestamp", "ns")),
    "time": (pa.time64("us"), time(23, 59, 59, 1), "23:59:59.000001", ColumnType("time")),
    "list": (pa.list_(pa.decimal128(3, 2)), [Decimal("1.10"), None], "[1.10,null]", TEXT),
    "record": (pa.struct([("d", pa.date32()), ("b", pa.binary())]),
               {"d": date(1970, 1, 2), "b": b"x"}, '{"d":"1970-01-02","b":"eA=="}', TEXT),
    "map": (pa.map_(pa.string(), pa.int64()), [("k", 1)], '{"k":1}', TEXT),
}  # fmt: skip


def parquet(path: Path, table: pa.Table, **how: Any) -> SourceFile:
    """A Parquet file as landing describes it."""
    pq.write_table(table, path, **how)
    with path.open("rb") as stream:
        schema = avro_schema(stream)
    return SourceFile(
        path.name, path.as_uri(), path.stat().st_size, container="parquet", avro_schema=schema
    )


def table_of(values: dict[str, tuple[pa.DataType, Any]]) -> pa.Table:
    """One row, with what it says about the change."""
    about = {name: pa.array([text]) for name, text in ABOUT.items()}
    typed = {name: pa.array([value], kind) for name, (kind, value) in values.items()}
    return pa.table(about | typed)


def test_parquet_values_are_exact(spark: SparkSession, tmp_path: Path) -> None:
    values = {name: (kind, value) for name, (kind, value, _, _) in VALUES.items()}
    about = {"_execute_time_": (pa.timestamp("us", "UTC"), MOMENT.replace(tzinfo=UTC))}
    file = parquet(tmp_path / "a.parquet", table_of(values | about))
    row = DatahubTuple().read(spark, (file,), {}).first()
    assert row is not None
    assert row["after"] == {name: text for name, (_, _, text, _) in VALUES.items()}
    assert row["source_ts"].replace(tzinfo=UTC) == MOMENT.replace(tzinfo=UTC)
    columns = DatahubTuple().columns(row["types"], {})
    assert {c.name: c.type for c in columns} == {n: kind for n, (_, _, _, kind) in VALUES.items()}


def test_old_timestamps_of_parquet(spark: SparkSession, tmp_path: Path) -> None:
    values = {"at": (pa.timestamp("us"), MOMENT)}
    file = parquet(tmp_path / "a.parquet", table_of(values), use_deprecated_int96_timestamps=True)
    row = DatahubTuple().read(spark, (file,), {}).first()
    assert row is not None
    assert row["after"] == {"at": "2022-04-15T03:02:06.000001Z"}
    (column,) = DatahubTuple().columns(row["types"], {})
    assert column.type == ColumnType("timestamp")


@pytest.mark.parametrize(
    ("kind", "value"),
    [(pa.time64("ns"), 1), (pa.float16(), None), (pa.map_(pa.int8(), pa.int8()), [])],
)
def test_a_type_that_nobody_can_read_stops_the_batch(
    spark: SparkSession, tmp_path: Path, kind: pa.DataType, value: Any
) -> None:
    file = parquet(tmp_path / "odd.parquet", table_of({"x": (kind, value)}))
    with pytest.raises(TerminalError, match=r"odd\.parquet is no file of rows"):
        DatahubTuple().read(spark, (file,), {})


def avro(path: Path, records: Sequence[dict[str, Any]], fields: list[Any]) -> Path:
    schema = {"type": "record", "name": "tuple", "fields": fields}
    with path.open("wb") as sink:
        fastavro.writer(sink, fastavro.parse_schema(schema), records)
    return path


# Whole runs: files → landing → the Iceberg table

TABLE = {"key": ["id"], "columns": {"price": "decimal(20,2)", "id": "bigint"}}
PIPELINE = {"format": "datahub_tuple", "tables": {"t": TABLE}}
NAMES = ("_sequence_id_", "_operation_type_", "_execute_time_", "_source_table_",
         "_before_image_", "_after_image_", "id", "price", "note")  # fmt: skip


def change(op: str, sequence: str, *row: Any) -> dict[str, Any]:
    """A record with id, price and note."""
    return record(op, sequence, **dict(zip(NAMES[-3:], row, strict=True)))


CHANGES = [
    change("I", "-1", 1, "1.10", "old"), change("I", "8", 2, "2.20", ""),
    change("old", "9", 2, "2.20", ""), change("new", "9", 2, "2.25", None),
    change("old", "10", 1, "1.10", "old"), change("new", "10", 3, "1.10", "moved"),
    change("I", "11", 4, "4.00", "x"), change("D", "12", 4, "4.00", "x"),
    change("I", "100", 5, "98765432109876543.21", 'a,"b"\nc'),
]  # fmt: skip
EXPECTED = [
    {"id": 2, "price": Decimal("2.25"), "note": None},
    {"id": 3, "price": Decimal("1.10"), "note": "moved"},
    {"id": 5, "price": Decimal("98765432109876543.21"), "note": 'a,"b"\nc'},
]
AVRO_FIELDS = [
    *({"name": n, "type": "string"} for n in NAMES[:2]), {"name": NAMES[2], "type": "long"},
    *({"name": n, "type": "string"} for n in NAMES[3:6]), {"name": "id", "type": "long"},
    {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 20,
                               "scale": 2}},
    {"name": "note", "type": ["null", "string"]},
]  # fmt: skip


def write_jsonl(path: Path, records: Sequence[dict[str, Any]]) -> None:
    jsonl(path.with_suffix(".jsonl"), records)


def write_csv(path: Path, records: Sequence[dict[str, Any]]) -> None:
    """NULL is nothing, a text is in quotes."""
    with path.with_suffix(".csv").open("w", newline="") as sink:
        csv.writer(sink).writerow(NAMES)
        for row in records:
            values = (row[name] for name in NAMES)
            cells = ("" if v is None else '"' + str(v).replace('"', '""') + '"' for v in values)
            sink.write(",".join(cells) + "\r\n")


def typed(records: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    return [r | {"price": Decimal(r["price"])} for r in records]


def write_parquet(path: Path, records: Sequence[dict[str, Any]]) -> None:
    kinds = [pa.string(), pa.string(), pa.int64(), *[pa.string()] * 3, pa.int64(),
             pa.decimal128(20, 2), pa.string()]  # fmt: skip
    schema = pa.schema(list(zip(NAMES, kinds, strict=True)))
    table = pa.Table.from_pylist(typed(records), schema)
    pq.write_table(table, path.with_suffix(".parquet"), row_group_size=2)


def write_avro(path: Path, records: Sequence[dict[str, Any]]) -> None:
    avro(path.with_suffix(".avro"), typed(records), AVRO_FIELDS)


WRITERS = {"jsonl": write_jsonl, "csv": write_csv, "parquet": write_parquet, "avro": write_avro}


def by_id(sandbox: Sandbox) -> list[dict[str, Any]]:
    return sorted(sandbox.rows("t"), key=lambda row: row["id"])


@pytest.mark.parametrize("container", WRITERS)
def test_any_order_gives_the_same_rows(spark: SparkSession, tmp_path: Path, container: str) -> None:
    """In one batch; and backwards in two, cut between the halves of an update, one part twice."""
    write = WRITERS[container]
    once = Sandbox(spark, tmp_path / "once", PIPELINE)
    write(once.landing / "a", CHANGES)
    once.load_landed()
    assert by_id(once) == EXPECTED
    turned = Sandbox(spark, tmp_path / "turned", PIPELINE)
    write(turned.landing / "a", CHANGES[:2:-1])
    turned.load_landed()
    write(turned.landing / "b", CHANGES[4::-1])
    write(turned.landing / "c", CHANGES[2:5])
    turned.load_landed()
    assert by_id(turned) == EXPECTED


def test_the_types_of_typed_files_need_no_hint(spark: SparkSession, tmp_path: Path) -> None:
    """Parquet and Avro say them; JSON lines and CSV of the same batch are read by them."""
    sandbox = Sandbox(spark, tmp_path / "p", PIPELINE | {"tables": {"t": {"key": ["id"]}}})
    for part, (name, write) in enumerate(WRITERS.items()):
        write(sandbox.landing / name, CHANGES[part * 2 : part * 2 + 3])
    sandbox.load_landed()
    assert by_id(sandbox) == EXPECTED
    assert sandbox.types("t")["price"] == "decimal(20, 2)"
    assert sandbox.types("t")["id"] == "long"


@pytest.mark.parametrize("turned", [False, True])
def test_a_topic_without_a_key(spark: SparkSession, tmp_path: Path, turned: bool) -> None:
    """Equal rows count apart by sequence; a repetition counts once, beside new columns too."""
    sandbox = Sandbox(spark, tmp_path / "p", PIPELINE | {"tables": {"t": {"key": []}}})
    records = [
        record("I", "-1", v="x"), record("I", "-1", v="y"),
        record("I", "1", v="a"), record("I", "2", v="a"), record("I", "3", v="b"),
        record("old", "4", v="b"), record("new", "4", v="c"), record("D", "5", v="a"),
    ]  # fmt: skip
    batches = [records, [*records[2:5], record("I", "6", v="d", w="e")]]
    for number, batch in enumerate(reversed(batches) if turned else batches):
        sandbox.load_records(batch, f"{number}.jsonl")
    assert sorted((r["v"], r["w"]) for r in sandbox.rows("t")) == [
        ("a", None), ("c", None), ("d", "e"), ("x", None), ("y", None),
    ]  # fmt: skip


def test_bad_rows_of_every_container_are_quarantined(spark: SparkSession, tmp_path: Path) -> None:
    sandbox = Sandbox(spark, tmp_path / "p", PIPELINE)
    bad = change("I", "7", 9, "9.00", None) | {"_operation_type_": "X"}
    for name, write in WRITERS.items():
        write(sandbox.landing / name, [CHANGES[1], bad])
    with (sandbox.landing / "csv.csv").open("a") as sink:
        sink.write('1,2\r\n"x"y\r\n')
    (sandbox.landing / "cut.parquet").write_bytes(b"PAR1\x00")
    twice = json.dumps(record("I", price=1)).replace('"id": 1', '"id": 1, "id": 2')
    (sandbox.landing / "twice.jsonl").write_text(twice)
    result = sandbox.load_landed()
    assert total(result).quarantined == 8
    letters = {(r["file"], r["reason"]): r["raw"] for r in sandbox.quarantined()}
    assert set(letters) == {
        *((f"{name}.{name}", "unknown_op:X") for name in WRITERS),
        ("csv.csv", "wrong_field_count"), ("csv.csv", "malformed_csv"),
        ("cut.parquet", "damaged_parquet"), ("twice.jsonl", "duplicate_column"),
    }  # fmt: skip
    assert letters["csv.csv", "malformed_csv"] == b'"x"y\r\n'
    assert letters["twice.jsonl", "duplicate_column"].decode() == twice
    assert b'"price":"9.00"' in letters["parquet.parquet", "unknown_op:X"]
