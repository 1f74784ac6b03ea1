"""Values of records without a description, in columns that others' descriptions gave a type."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from tests.spark.connect import BIGINT, TEXT, Type, schema_of
from tests.spark.renamed import place
from tests.spark.sandbox import Sandbox, total

pytestmark = [pytest.mark.spark, pytest.mark.formats]

NUMBER: Type = {
    "type": "struct", "name": "io.debezium.data.VariableScaleDecimal",
    "fields": [{"type": "int32", "field": "scale"}, {"type": "bytes", "field": "value"}],
}  # fmt: skip
CLOCK: Type = {"type": "int64", "optional": True, "name": "io.debezium.time.MicroTime"}
ONE, TWO = {"scale": 0, "value": "AQ=="}, {"scale": 0, "value": "Ag=="}


def change(op: str, pos: int, row: dict[str, Any], described: bool) -> dict[str, Any]:
    images = {"before": row, "after": None} if op == "d" else {"before": None, "after": row}
    schema = schema_of({"id": NUMBER, "v": TEXT, "at": CLOCK}, "after") if described else None
    return {"schema": schema, "payload": {"op": op, "source": place(pos), **images}}


@pytest.mark.parametrize("apart", [False, True])
def test_records_without_a_schema_count_alike_in_one_batch_and_in_two(
    spark: SparkSession, tmp_path: Path, apart: bool
) -> None:
    sandbox = Sandbox(
        spark, tmp_path, {"format": "debezium", "tables": {"orders": {"key": ["id"]}}}
    )
    first = [
        change("c", n, {"id": number, "v": "a", "at": 0}, described=True)
        for n, number in enumerate((ONE, TWO), 1)
    ]
    then = [
        change("d", 3, {"id": ONE}, described=False),
        change("u", 4, {"id": TWO, "v": "b", "at": 3_600_000_000}, described=False),
    ]
    for number, records in enumerate([first, then] if apart else [first + then]):
        sandbox.write(f"{number}.jsonl", records)
        sandbox.load_landed()
    assert [(r["id"], r["v"], r["at"]) for r in sandbox.rows("orders")] == [("2", "a", "00:00:00")]
    assert [row["reason"] for row in sandbox.quarantined()] == ["does_not_fit"]


@pytest.mark.parametrize("beside", [False, True])
def test_a_record_without_a_schema_is_read_alike_whichever_schema_its_batch_has(
    spark: SparkSession, tmp_path: Path, beside: bool
) -> None:
    """The column had two types, and the batch has the one whose values need no schema, and a shape
    that no earlier batch had."""
    table = {"orders": {"key": ["id"]}}
    sandbox = Sandbox(spark, tmp_path, {"format": "debezium", "tables": table})
    number = change("c", 1, {"id": 1, "v": ONE}, described=True)
    number["schema"] = schema_of({"id": BIGINT, "v": NUMBER}, "after")
    text = [change("c", pos, {"id": pos, "v": "a"}, described=True) for pos in (2, 3)]
    for record in text:
        record["schema"] = schema_of({"id": BIGINT, "v": TEXT}, "after")
    bare = change("c", 4, {"id": 4, "v": TWO, "new": "b"}, described=False)
    for records in ([number], text[:1], [bare, *text[1:]] if beside else [bare]):
        sandbox.write(f"{records[0]['payload']['source']['pos']}.jsonl", records)
        sandbox.load_landed()
    loaded = [("1", "1"), ("2", "a"), ("3", "a")] if beside else [("1", "1"), ("2", "a")]
    assert sorted((str(r["id"]), r["v"]) for r in sandbox.rows("orders")) == loaded
    assert [row["reason"] for row in sandbox.quarantined()] == ["does_not_fit"]


@pytest.mark.parametrize("hint", [None, "binary[hex]"])
@pytest.mark.parametrize("apart", [False, True])
def test_texts_of_bytes_beside_typed_files_need_a_hint(
    spark: SparkSession, tmp_path: Path, apart: bool, hint: str | None
) -> None:
    """The hexadecimal text is base64 too, of other bytes."""
    table: dict[str, Any] = {"key": ["id"], "columns": {"b": hint} if hint else {}}
    sandbox = Sandbox(spark, tmp_path, {
        "format": "rows", "tables": {"t": table}, "format_options": {"table": "t"},
    })  # fmt: skip
    rows = [{"id": "1", "b": b"Hello!"}]
    pq.write_table(pa.Table.from_pylist(rows), sandbox.landing / "1.parquet")
    if apart:
        sandbox.load_landed()
    sandbox.write("2.jsonl", [{"id": "2", "b": b"Hello!".hex()}])
    quarantined = total(sandbox.load_landed()).quarantined
    assert quarantined == (0 if hint else 1)
    assert {row["b"] for row in sandbox.rows("t")} == {b"Hello!"}
