"""Containers that are whole by their frames, with a value in them that nobody can read."""

from __future__ import annotations

import base64
import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zstandard
from pyspark.sql import SparkSession

from tests.avro_blocks import snappy, varint
from tests.spark.datastream_events import avro_file
from tests.spark.sandbox import Sandbox

pytestmark = pytest.mark.spark

TABLES = {"t": {"key": ["id"], "columns": {"id": "int"}}}
SCHEMA = {
    "type": "record",
    "name": "row",
    "fields": [{"name": "id", "type": "int"}, {"name": "note", "type": "string"}],
}


@pytest.fixture
def lake(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Sandbox:
    """Plain rows; loads are driven as `spark-submit` would."""
    options = {"table": "t"}
    sandbox = Sandbox(
        spark, tmp_path, {"format": "rows", "format_options": options, "tables": TABLES}
    )

    monkeypatch.setattr("sluice.operations.load.submit", sandbox.submit)
    return sandbox


def container(*ids: int, codec: str = "null") -> bytes:
    """A block for each of the ids."""
    made = io.BytesIO()
    rows = [{"id": i, "note": f"note {i}"} for i in ids]
    fastavro.writer(made, SCHEMA, rows, codec=codec, sync_interval=1)
    return made.getvalue()


def zstd(plain: bytes) -> bytes:
    return zstandard.compress(plain)


def packed(codec: str, blocks: dict[int, bytes]) -> bytes:
    """A container of blocks with one record each, which fastavro would not compress here."""
    made = io.BytesIO(container())
    reader = fastavro.block_reader(made)
    assert reader.metadata is not None
    sync = made.getvalue()[-16:]
    name = codec.encode()
    head = made.getvalue().replace(
        b"avro.codec\x08null", b"avro.codec" + bytes([2 * len(name)]) + name
    )
    frames = (b"\x02" + varint(len(body)) + body + sync for body in blocks.values())
    return head + b"".join(frames)


def plain(id_: int, note: str) -> bytes:
    made = io.BytesIO()
    fastavro.schemaless_writer(made, SCHEMA, {"id": id_, "note": note})
    return made.getvalue()


@pytest.mark.parametrize(("codec", "pack"), [("snappy", snappy), ("zstandard", zstd)])
def test_a_bad_block_is_found_behind_its_codec(
    lake: Sandbox, codec: str, pack: Callable[[bytes], bytes]
) -> None:
    damaged = plain(2, "note 2").replace(b"\x0cnote", b"\x7enote")
    blocks = {1: pack(plain(1, "a")), 2: pack(damaged), 3: pack(plain(3, "c"))[:-2] + b"??"}
    (lake.landing / "bad.avro").write_bytes(packed(codec, blocks))
    lake.run()
    assert [row["id"] for row in lake.rows("t")] == [1]
    assert [bad["reason"] for bad in lake.quarantined()] == ["damaged_avro"] * 2


def test_invalid_avro_decimal_is_read_as_bytes(lake: Sandbox) -> None:
    """As Avro's specification has it, and a name within another namespace is found."""
    code = {"type": "fixed", "name": "Code", "size": 2}
    wrong = [
        {"type": "bytes", "logicalType": "decimal"},
        {"type": "bytes", "logicalType": "decimal", "precision": "9"},
        {"type": "bytes", "logicalType": "decimal", "precision": 2, "scale": 5},
        {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": -2},
    ]
    fields = [{"name": f"v{n}", "type": kind} for n, kind in enumerate(wrong)]
    narrow = code | {"name": "Narrow", "logicalType": "decimal", "precision": 30}
    inner = {"type": "record", "name": "y.In", "fields": [{"name": "c", "type": "x.Code"}]}
    fields += [
        {"name": "id", "type": "int"},
        {"name": "code", "type": code},
        {"name": "narrow", "type": narrow},
        {"name": "inner", "type": inner},
    ]
    schema = {"type": "record", "name": "x.Row", "fields": fields}
    body = b"\x02\x05" * len(wrong) + b"\x02abcdef"
    made = container().replace(*schemas(schema))
    (lake.landing / "odd.avro").write_bytes(made + b"\x02" + varint(len(body)) + body + made[-16:])
    lake.run()
    (row,) = lake.rows("t")
    assert [row[f"v{n}"] for n in range(len(wrong))] == [b"\x05"] * len(wrong)
    assert (row["id"], row["code"], row["narrow"]) == (1, b"ab", b"cd")
    assert json.loads(row["inner"]) == {"c": base64.b64encode(b"ef").decode()}


def test_an_array_of_more_items_than_java_reads(lake: Sandbox) -> None:
    """Items without bytes, which fastavro would read in any number."""
    nothing = {"type": "array", "items": {"type": "fixed", "name": "nothing", "size": 0}}
    fields = [{"name": "id", "type": "int"}, {"name": "many", "type": nothing}]
    made = container().replace(*schemas(SCHEMA | {"fields": fields}))
    bodies = (varint(i) + varint(items) + b"\0" for i, items in ((1, 2_000_000), (2, 3)))
    blocks = (b"\x02" + varint(len(body)) + body + made[-16:] for body in bodies)
    (lake.landing / "bad.avro").write_bytes(made + b"".join(blocks))
    (lake.landing / "good.avro").write_bytes(container(3))
    lake.run()
    assert [row["id"] for row in lake.rows("t")] == [2, 3]
    assert [bad["reason"] for bad in lake.quarantined()] == ["damaged_avro"]


def schemas(schema: Any) -> tuple[bytes, bytes]:
    """The schema in the header of an empty container, and another in its place."""
    header = fastavro.reader(io.BytesIO(container())).metadata["avro.schema"].encode()
    other = json.dumps(schema).encode()
    return varint(len(header)) + header, varint(len(other)) + other


def test_a_bad_block_costs_its_own_records(lake: Sandbox) -> None:
    """The length of a text in it is beyond the block's end."""
    content = container(1, 2, 3)
    at = content.index(b"note 2") - 1
    (lake.landing / "bad.avro").write_bytes(content[:at] + b"\x7e" + content[at + 1 :])
    (lake.landing / "good.avro").write_bytes(container(4))
    counts = lake.run().unassigned
    assert sorted(row["id"] for row in lake.rows("t")) == [1, 3, 4]
    (bad,) = lake.quarantined()
    assert (bad["file"], bad["reason"]) == ("bad.avro", "damaged_avro")
    assert b"note 2" in bad["raw"]
    assert counts.quarantined == 1


def test_a_parquet_file_that_cannot_be_decoded_is_one_reject(lake: Sandbox) -> None:
    made = io.BytesIO()
    table = pa.table({"id": pa.array([1, 2], pa.int32()), "note": ["a" * 500, "b" * 500]})
    pq.write_table(table, made, compression="gzip", use_dictionary=False)
    content = bytearray(made.getvalue())
    page = content.index(b"\x1f\x8b")
    content[page : page + 4] = b"\0\0\0\0"
    (lake.landing / "bad.parquet").write_bytes(bytes(content))
    (lake.landing / "good.avro").write_bytes(container(4))
    lake.run()
    assert [row["id"] for row in lake.rows("t")] == [4]
    (bad,) = lake.quarantined()
    assert (bad["file"], bad["reason"]) == ("bad.parquet", "damaged_parquet")


@pytest.mark.long
def test_a_file_cut_in_its_header_costs_no_other(spark: SparkSession, tmp_path: Path) -> None:
    """Of a typed format: its decoder reads the schema that the header has."""
    sandbox = Sandbox(spark, tmp_path, {"format": "datastream"})
    avro_file(sandbox.landing / "t.avro", [{"name": "id", "type": "int"}], [{"id": 1}, {"id": 2}])
    cut = (sandbox.landing / "t.avro").read_bytes()[:60]
    (sandbox.landing / "u.avro").write_bytes(cut)
    sandbox.load_landed()
    assert sorted(row["id"] for row in sandbox.rows("t")) == [1, 2]
    (bad,) = sandbox.quarantined()
    assert (bad["file"], bad["reason"], bad["record"]) == ("u.avro", "truncated_avro", 0)
    assert bad["raw"] == cut
