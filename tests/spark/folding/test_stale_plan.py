"""Batches that another one overtakes between their decoding, which needs no lease, and their merge;
and records whose place is their arrival, read a second time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from sluice.errors import PlanError, TransientError
from sluice.operations import stages
from sluice.operations.reprocess import land_quarantined
from tests.spark.described import BEFORE, NEW, PLAIN, event
from tests.spark.sandbox import Sandbox

pytestmark = pytest.mark.spark


class Overtaken(list[str]):
    """The published batches, before whose first look another batch is published."""

    def __init__(self, known: list[str], meanwhile: Callable[[], Any]) -> None:
        super().__init__(known)
        self.meanwhile = [meanwhile]

    def __iter__(self) -> Iterator[str]:
        if self.meanwhile:
            self.meanwhile.pop()()
        return super().__iter__()


def overtake(shop: Sandbox, records: list[dict[str, Any]]) -> None:
    shop.published = Overtaken(shop.published, lambda: shop.load_records(records, "a.jsonl"))


@pytest.mark.long
def test_a_rollback_leaves_the_column_of_the_batch_that_overtook(
    spark: SparkSession, tmp_path: Path
) -> None:
    shop = Sandbox(spark, tmp_path, {"format": "debezium", "tables": {"orders": {"key": ["id"]}}})
    shop.load_records([event("c", 1, BEFORE, id=1, v="one")], "0.jsonl")
    overtake(shop, [event("u", 10, PLAIN, id=1, v="one", status="x")])
    late = [event("c", 2, PLAIN | {"more": NEW["v"]}, id=9, v="late", status="y", more="z")]
    second = shop.load_records(late, "b.jsonl")
    shop.rollback(second)
    (row,) = shop.rows("orders")
    assert (row["id"], row["status"]) == (1, "x")


@pytest.mark.parametrize(
    "modes", [["current"], pytest.param(["current", "history"], marks=pytest.mark.long)]
)
def test_a_column_of_the_batch_that_overtook_is_not_left_empty(
    spark: SparkSession, tmp_path: Path, modes: list[str]
) -> None:
    """Its default holds below where it was told of, and so in rows of the batch that was late."""
    hinted = {"orders": {"key": ["id"], "modes": modes}}
    shop = Sandbox(spark, tmp_path, {"format": "debezium", "tables": hinted})
    shop.load_records([event("c", 1, BEFORE, id=1, v="one")], "0.jsonl")
    overtake(shop, [event("u", 10, NEW, id=1, v="one", status="x")])
    late = [event("c", 2, BEFORE, id=9, v="late")]
    with pytest.raises(TransientError, match="orders: a column was added while"):
        shop.load_records(late, "b.jsonl")
    shop.load_landed()
    assert {row["id"]: row["status"] for row in shop.rows("orders")} == {1: "x", 9: "new"}


@pytest.mark.parametrize(
    "modes",
    [["current"], pytest.param(["current", "history", "append"], marks=pytest.mark.long)],
)
def test_a_column_that_a_rollback_took_meanwhile_is_decoded_again(
    spark: SparkSession, tmp_path: Path, modes: list[str]
) -> None:
    hinted = {"orders": {"key": ["id"], "modes": modes}}
    shop = Sandbox(spark, tmp_path, {"format": "debezium", "tables": hinted})
    shop.load_records([event("c", 1, BEFORE, id=1, v="one")], "0.jsonl")
    first = shop.load_records([event("u", 10, PLAIN, id=1, v="two", status="x")], "a.jsonl")
    shop.published = Overtaken(shop.published, lambda: shop.rollback(first))
    later = [event("c", 20, PLAIN | {"more": NEW["v"]}, id=9, v="late", status="y", more="z")]
    with pytest.raises(
        TransientError, match="orders: a batch was rolled back or dropped a column while"
    ):
        shop.load_records(later, "b.jsonl")
    shop.load_records(later, "b.jsonl")
    rows = {row["id"]: (row["v"], row["status"], row["more"]) for row in shop.rows("orders")}
    assert rows == {1: ("one", None, None), 9: ("late", "y", "z")}


def _maxwell(xid: int, ident: int | str, last: bool) -> dict[str, Any]:
    """As Maxwell writes by default: the place of a row in its transaction is where it stands."""
    place = {"commit": True} if last else {}
    row = {"type": "insert", "data": {"id": ident}, "primary_key_columns": ["id"]}
    return {"database": "s", "table": "orders", "ts": 1477053234, "xid": xid} | row | place


@pytest.mark.parametrize(
    "table",
    [
        {"key": []},
        pytest.param({"key": ["id"], "modes": ["current", "history"]}, marks=pytest.mark.long),
    ],
)
def test_rows_of_one_place_that_arrive_again_are_refused(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, table: dict[str, Any]
) -> None:
    """They would be other rows, or other versions: nothing but their place tells them apart."""
    hinted = {"s.orders": {**table, "columns": {"id": "bigint"}}}
    lake = Sandbox(spark, tmp_path, {"format": "maxwell", "tables": hinted})
    monkeypatch.setattr("sluice.operations.load.submit", lake.submit)
    records = [_maxwell(1, 10, False), _maxwell(1, "bad", False), _maxwell(1, 11, True)]
    lake.write("a.jsonl", records)
    assert stages.run(lake.context())[1] is None
    before = lake.rows("orders")
    (key,) = land_quarantined(lake.context())
    with pytest.raises(PlanError, match="rows read again cannot be distinguished from those"):
        lake.stage_manifest(lake.context().files.read_manifest(key))
    assert lake.rows("orders") == before


def test_a_number_of_many_digits_takes_no_column_with_it(
    spark: SparkSession, tmp_path: Path
) -> None:
    shop = Sandbox(spark, tmp_path, {
        "format": "rows", "format_options": {"table": "orders"}, "tables": {"orders": {"key": []}},
    })  # fmt: skip
    (tmp_path / "landing").mkdir(exist_ok=True)
    digits = "9" * 1001
    text = (
        f'{{"id":1}}\n{{"id":2,"n":{digits},"m":"kept"}}\n{{"id":3,"v":"a","v":"b","n":{digits}}}\n'
    )
    (tmp_path / "landing" / "a.jsonl").write_text(text)
    shop.load_landed()
    rows = {row["id"]: row for row in shop.rows("orders")}
    assert (rows["2"]["n"], rows["2"]["m"]) == (digits, "kept")
    assert [q["reason"] for q in shop.quarantined()] == ["duplicate_column"]
