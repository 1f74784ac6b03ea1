"""CSV and Parquet files land where the format is rows of a table, and only there."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest
import zstandard

from sluice.containers.csv_rows import CsvStyle
from sluice.landing.inspection import Inspection
from sluice.landing.table_folders import folders
from sluice.manifest import AVRO, JSON_LINES, PARQUET
from tests.unit.tablefiles import look, parquet_bytes

CSV = b'a,b\n1,\n2,""\n'
LINES = b'{"a":"1","b":null}\n{"a":"2","b":""}\n'


def taken(inspection: Inspection) -> bytes:
    return Path(inspection.file.url.removeprefix("file://")).read_bytes()


@pytest.mark.parametrize(
    ("key", "content"),
    [
        ("a.csv", CSV),
        ("a.csv.gz", gzip.compress(CSV, mtime=0)),
        ("a.csv.zst", zstandard.compress(CSV)),
        ("a.csv", gzip.compress(CSV, mtime=0)),
    ],
)
def test_csv_becomes_json_lines(tmp_path: Path, key: str, content: bytes) -> None:
    found = look(tmp_path, key, content, CsvStyle())
    assert (found.file.container, found.file.staged, found.rejects) == (JSON_LINES, True, ())
    assert found.file.url.endswith(".jsonl")
    assert taken(found) == LINES


def test_csv_style_of_the_pipeline_is_used(tmp_path: Path) -> None:
    found = look(tmp_path, "a.csv", b"1|-\n", CsvStyle(("-",), "|", ("a", "b")))
    assert taken(found) == b'{"a":"1","b":null}\n'


def test_of_a_cut_csv_file_the_whole_rows_count(tmp_path: Path) -> None:
    rows = b"a,b\n" + b"".join(b"%d,x\n" % n for n in range(20_000))
    found = look(tmp_path, "a.csv.gz", gzip.compress(rows)[:-40], CsvStyle())
    lines = taken(found).splitlines()
    assert 0 < len(lines) < 20_000
    assert json.loads(lines[-1]) == {"a": str(len(lines) - 1), "b": "x"}
    assert [r.reason for r in found.rejects] == ["truncated_gzip"]


def test_a_zero_byte_in_a_row_is_a_character_of_it(tmp_path: Path) -> None:
    found = look(tmp_path, "a.csv", b'a,b\n1,"x\0y"\n2,z\n', CsvStyle())
    rows = [json.loads(line) for line in taken(found).splitlines()]
    assert rows == [{"a": "1", "b": "x\0y"}, {"a": "2", "b": "z"}]
    assert look(tmp_path / "zip", "b.csv", b"PK\x03\0\n", CsvStyle()).rejects[0].reason == (
        "not_json_nor_avro"
    )


def test_parquet_is_read_where_it_is(tmp_path: Path) -> None:
    found = look(tmp_path, "part-0.snappy.parquet", parquet_bytes(), CsvStyle())
    assert (found.file.container, found.file.staged, found.rejects) == (PARQUET, False, ())
    assert json.loads(found.file.avro_schema)["fields"] == [
        {"name": "id", "type": {"type": "long"}},
        {"name": "n", "type": ["null", {"type": "int"}]},
    ]


def test_compressed_parquet_is_staged(tmp_path: Path) -> None:
    found = look(tmp_path, "a.gz", gzip.compress(parquet_bytes()), CsvStyle())
    assert (found.file.container, found.file.staged) == (PARQUET, True)
    assert taken(found) == parquet_bytes()
    assert found.file.url.endswith(".parquet")


@pytest.mark.parametrize(
    "content", [parquet_bytes()[:-9], gzip.compress(parquet_bytes(), mtime=0)[:-9]]
)
def test_cut_parquet_is_rejected_whole(tmp_path: Path, content: bytes) -> None:
    found = look(tmp_path, "a.parquet", content, CsvStyle())
    assert [r.reason for r in found.rejects] == ["damaged_parquet"]
    assert taken(found) == b""


def test_other_formats_read_neither_csv_nor_parquet(tmp_path: Path) -> None:
    csv = look(tmp_path / "csv", "a.csv", b'[{"a":1}]', None)
    assert taken(csv) == b'{"a":1}\n'
    parquet = look(tmp_path / "parquet", "a.parquet", parquet_bytes(), None)
    assert [r.reason for r in parquet.rejects] == ["not_json_nor_avro"]
    assert parquet.file.container not in (AVRO, PARQUET)


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        ("dms/1042/orders/LOAD00000001.csv", ["dms", "1042", "orders"]),
        ("dms/shop/orders/2024/10/27/20241027-1.csv", ["dms", "shop", "orders"]),
        ("dt=2024-10-27/orders/2024-10-27/a.parquet", ["orders"]),
        ("orders/region=eu/a.parquet", ["orders"]),
        ("a.csv", []),
    ],
)
def test_folders_of_dates_stand_behind_the_table(key: str, expected: list[str]) -> None:
    """A schema may be called by a number."""
    assert folders(key) == expected
