"""Plain rows: dumps of tables as CSV, Parquet and JSON lines."""

from __future__ import annotations

import gzip
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from tests.spark.sandbox import Sandbox, total

pytestmark = pytest.mark.spark

PRODUCTS = {"key": ["id"], "columns": {"id": "bigint", "price": "decimal(9,2)"}}


def dumps(spark: SparkSession, root: Path, **pipeline: Any) -> Sandbox:
    return Sandbox(
        spark, root / "p", {"format": "rows", "tables": {"products": PRODUCTS}} | pipeline
    )


def put(sandbox: Sandbox, key: str, content: str | bytes) -> None:
    path = sandbox.landing / key
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content.encode() if isinstance(content, str) else content)


def ordered(sandbox: Sandbox, table: str = "products") -> list[dict[str, Any]]:
    return sorted(sandbox.rows(table), key=lambda row: row["id"])


@pytest.mark.parametrize("turned", [False, True])
def test_dump_with_the_later_name_wins(spark: SparkSession, tmp_path: Path, turned: bool) -> None:
    sandbox = dumps(spark, tmp_path)
    files: list[tuple[str, str | bytes]] = [
        ("shop/products/2024-10-9.csv", "id,name,price\n1,pen,1.10\n2,ink,\n"),
        ("shop/products/2024-10-27.csv.gz", gzip.compress(b'name,id,price\n"",2,3.30\nnib,3,1\n')),
    ]
    for key, content in reversed(files) if turned else files:
        put(sandbox, key, content)
        assert total(sandbox.load_landed()).quarantined == 0
    assert ordered(sandbox) == [
        {"id": 1, "name": "pen", "price": Decimal("1.10")},
        {"id": 2, "name": "", "price": Decimal("3.30")},
        {"id": 3, "name": "nib", "price": Decimal("1.00")},
    ]


@pytest.mark.parametrize("apart", [False, True])
def test_a_key_that_a_row_does_not_name_is_null_whatever_else_its_file_has(
    spark: SparkSession, tmp_path: Path, apart: bool
) -> None:
    """Exports that leave NULLs out do so."""
    table = {"key": ["id", "part"], "null_keys": ["part"]}
    sandbox = dumps(spark, tmp_path, tables={"products": table})
    lines = ['{"id": 1}\n', '{"id": 2, "part": "x"}\n']
    for number, content in enumerate(lines if apart else ["".join(lines)]):
        put(sandbox, f"shop/products/{number}.jsonl", content)
    assert total(sandbox.load_landed()).quarantined == 0
    assert [(r["id"], r["part"]) for r in ordered(sandbox)] == [("1", None), ("2", "x")]


def test_a_column_may_order(spark: SparkSession, tmp_path: Path) -> None:
    sandbox = dumps(
        spark, tmp_path, format_options={"order_column": "Version", "table": "products"}
    )
    rows = [{"id": 1, "version": 10, "n": "new"}, {"id": 1, "version": 9, "n": "old"}]
    sandbox.write("a.jsonl", [*rows, {"id": 2, "version": "x"}, {"id": 3}])
    counts = total(sandbox.load_landed())
    assert (counts.read, counts.quarantined) == (4, 2)
    assert {row["reason"] for row in sandbox.quarantined()} == {"bad_order"}
    assert [(row["id"], row["n"], row["version"]) for row in ordered(sandbox)] == [(1, "new", "10")]


def test_types_come_from_parquet(spark: SparkSession, tmp_path: Path) -> None:
    sandbox = dumps(spark, tmp_path, tables={"products": {"key": ["id"]}})
    folder = sandbox.landing / "products" / "dt=2024-10-27"
    folder.mkdir(parents=True)
    schema = pa.schema([("id", pa.int32()), ("price", pa.decimal128(9, 2))])
    pq.write_table(
        pa.Table.from_pylist([{"id": 1, "price": Decimal("1.10")}], schema), folder / "a.parquet"
    )
    sandbox.load_landed()
    assert sandbox.types("products") == {"id": "int", "price": "decimal(9, 2)"}
    assert ordered(sandbox) == [{"id": 1, "price": Decimal("1.10")}]


def test_a_file_without_a_table_is_quarantined(spark: SparkSession, tmp_path: Path) -> None:
    sandbox = dumps(spark, tmp_path)
    put(sandbox, "a.csv", "id\n1\n")
    put(sandbox, "b.csv", '"a"x,b\n1,2\n')
    counts = total(sandbox.load_landed())
    assert (counts.read, counts.quarantined) == (3, 3)
    reasons = sorted(row["reason"] for row in sandbox.quarantined())
    assert reasons == ["malformed_csv", "no_line_of_names", "table_missing"]


def test_a_name_that_no_column_may_have_or_that_comes_twice_costs_its_line_alone(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Lines of JSON have the columns of their table, whichever of its lines brought them."""
    sandbox = dumps(spark, tmp_path)
    lines = [
        '{"id": 1, "name": "pen"}', '{"id": 2, "na\\u0001me": "ink"}', '{"id": 3, "price": 1}',
        '{"id": 4, "price": 1, "price": 2}',
    ]  # fmt: skip
    put(sandbox, "shop/products/1.jsonl", "\n".join(lines))
    assert total(sandbox.load_landed()).quarantined == 2
    assert [row["id"] for row in ordered(sandbox)] == [1, 3]
    reasons = sorted(row["reason"] for row in sandbox.quarantined())
    assert reasons == ["bad_column_name", "duplicate_column"]


def test_columns_are_found_in_lines_unlike_the_first(spark: SparkSession, tmp_path: Path) -> None:
    """Neither a text nor an object in a value has columns of the row, whatever is in it."""
    sandbox = dumps(spark, tmp_path, tables={"products": {"key": ["id"]}})
    lines = [
        '{"id": 1, "note": "pen"}', '{"id": 2, "note": "\\"a\\": 1, \\"b\\": \\"2"}',
        '{"id": 3, "note": "x", "more": "y"}', '{"id": 4, "note": {"deep": 1, "note": 2}}',
        '{"note": "z", "id": 5}', ' { "id" : 6 , "note" : 1e2 } ', '{"id": 7, "note": "\\u0022"}',
    ]  # fmt: skip
    put(sandbox, "shop/products/1.jsonl", "\n".join(lines))
    assert total(sandbox.load_landed()).quarantined == 0
    rows = ordered(sandbox)
    notes = ["pen", '"a": 1, "b": "2', "x", '{"deep": 1, "note": 2}', "z", "1e2", '"']
    assert [row["note"] for row in rows] == notes
    assert [row["more"] for row in rows] == [None, None, "y", *[None] * 4]
    assert not {"a", "b", "deep"} & rows[0].keys()
