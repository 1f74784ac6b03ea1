"""DataHub Tuple from files of four containers to rows of a table."""

from __future__ import annotations

import csv
import json
from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from tests.spark.envelopes import jsonl
from tests.spark.sandbox import Sandbox, total
from tests.spark.tuple_records import record

pytestmark = [pytest.mark.spark, pytest.mark.formats]


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
    schema = {"type": "record", "name": "tuple", "fields": AVRO_FIELDS}
    with path.with_suffix(".avro").open("wb") as sink:
        fastavro.writer(sink, fastavro.parse_schema(schema), typed(records))


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


def test_columns_about_the_change_in_another_case(spark: SparkSession, tmp_path: Path) -> None:
    """In a file of its own, beside one that has them as the vendor does; and in JSON lines."""
    tables = {"t": TABLE, "u": {"key": ["id"]}}
    sandbox = Sandbox(spark, tmp_path / "p", PIPELINE | {"tables": tables})
    write_csv(sandbox.landing / "a", CHANGES[:4])
    write_csv(sandbox.landing / "b", CHANGES[4:])
    rows = (sandbox.landing / "a.csv").read_text().removeprefix(",".join(NAMES))
    header = ",".join(name.upper() if name.startswith("_") else name for name in NAMES)
    (sandbox.landing / "a.csv").write_text(header + rows)
    row = record("I", "1", _source_table_="u", id=7, w=None)
    other = [{n.upper() if n.startswith("_") else n: v for n, v in row.items()}]
    write_jsonl(sandbox.landing / "c", other)
    assert total(sandbox.load_landed()).quarantined == 0
    assert by_id(sandbox) == EXPECTED
    assert sandbox.rows("u") == [{"id": "7", "w": None}]


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
    batches = [records, [records[1], *records[2:5], record("I", "6", v="d", w="e")]]
    for number, batch in enumerate(reversed(batches) if turned else batches):
        sandbox.load_records(batch, f"{number}.jsonl")
    assert sorted((r["v"], r["w"]) for r in sandbox.rows("t")) == [
        ("a", None), ("c", None), ("d", "e"), ("x", None), ("y", None),
    ]  # fmt: skip


def test_a_key_that_a_row_does_not_name_is_null_beside_any_others(
    spark: SparkSession, tmp_path: Path
) -> None:
    """With `null_keys`, and whatever columns the other rows of its batch have."""
    tables = {"t": {"key": ["id", "part"], "null_keys": ["part"]}}
    sandbox = Sandbox(spark, tmp_path / "p", {"format": "datahub_tuple", "tables": tables})
    sandbox.load_records([record("I", "1", id=1), record("I", "2", id=2, part="x")])
    sandbox.load_records([record("I", "3", id=3), record("D", "4", id=1)])
    assert sorted((r["id"], r["part"]) for r in sandbox.rows("t")) == [("2", "x"), ("3", None)]


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
    rejects = {(r["file"], r["reason"]): r["raw"] for r in sandbox.quarantined()}
    assert set(rejects) == {
        *((f"{name}.{name}", "unknown_op:X") for name in WRITERS),
        ("csv.csv", "wrong_field_count"), ("csv.csv", "malformed_csv"),
        ("cut.parquet", "damaged_parquet"), ("twice.jsonl", "duplicate_column"),
    }  # fmt: skip
    assert rejects["csv.csv", "malformed_csv"] == b'"x"y\r\n'
    assert rejects["twice.jsonl", "duplicate_column"].decode() == twice
    assert b'"price":"9.00"' in rejects["parquet.parquet", "unknown_op:X"]
