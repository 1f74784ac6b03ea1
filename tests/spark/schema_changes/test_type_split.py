"""`on_type_change: new_column`: a stored column is kept, what it cannot hold goes beside it."""

from __future__ import annotations

import itertools
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from spark_jobs.planning.type_split import TypeSplit
from tests.spark.connect import BIGINT, INT, TEXT
from tests.spark.sandbox import Sandbox
from tests.spark.widened import CENTS, event, unscaled

pytestmark = pytest.mark.spark

UNSENT = "__debezium_unavailable_value"
FIRST = [event("c", n, INT, n, n) for n in (1, 2, 3)]
LATER = {
    "text": [event("u", 30, TEXT, "one", 1), event("c", 31, TEXT, "007", 6),
             event("u", 32, TEXT, UNSENT, 2), event("u", 33, TEXT, None, 3)],
    "back": [event("u", 40, TEXT, UNSENT, 6), event("u", 41, BIGINT, 2**40, 1)],
    "between": [event("u", 20, INT, 20, 1), event("u", 21, INT, 21, 2)],
}  # fmt: skip
Values = dict[int, tuple[Any, Any]]


def lake_of(spark: SparkSession, root: Path, **table: Any) -> Sandbox:
    tables = {"orders": {"key": ["id"], **table}}
    pipeline = {"format": "debezium", "tables": tables, "on_type_change": "new_column"}
    return Sandbox(spark, root, pipeline)


def values(lake: Sandbox, name: str = "orders") -> Values:
    return {r["id"]: (r["amount"], r["amount__string"]) for r in lake.rows(name)}


@pytest.mark.long
@pytest.mark.parametrize("order", list(itertools.permutations(LATER)), ids="-".join)
def test_values_that_do_not_fit_a_column_go_into_one_beside_it(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, order: tuple[str, ...]
) -> None:
    """A row has one of the two; what an update does not send stays in whichever it is."""
    lake = lake_of(spark, tmp_path, modes=["current", "history", "append"])
    lake.driven(monkeypatch)
    for number, batch in enumerate([FIRST, *map(LATER.__getitem__, order)]):
        lake.write(f"{number}.jsonl", batch)
        lake.run()
    assert values(lake) == {1: (2**40, None), 2: (21, None), 3: (None, None), 6: (None, "007")}
    assert lake.quarantined() == []
    versions = {
        (r["amount"], r["amount__string"]) for r in lake.rows("orders__history") if r["id"] == 1
    }
    assert versions == {(1, None), (20, None), (None, "one"), (2**40, None)}
    assert lake.agrees()


def test_first_batch_keeps_the_type_with_the_lowest_position(
    spark: SparkSession, tmp_path: Path
) -> None:
    lake = lake_of(spark, tmp_path)
    lake.load_records([*LATER["text"], *FIRST])
    assert values(lake) == {1: (None, "one"), 2: (2, None), 3: (None, None), 6: (None, "007")}
    assert lake.types("orders")["amount"] == "int"


def test_absent_column_is_absent_in_all_columns_beside_it(spark: SparkSession) -> None:
    """Whether or not a batch has brought it: but not of a column that the source has itself."""
    listed = [["id"], ["", "id"], ["amount"], None]
    frame = spark.createDataFrame(
        [(n, None, None, None, absent) for n, absent in enumerate(listed)],
        "n int, types string, before map<string,string>, after map<string,string>, "
        "absent array<string>",
    )
    moved = TypeSplit(True, {}, frozenset({"amount__date"})).of_events(frame)
    one, but, own, none = (row["absent"] for row in moved.orderBy("n").collect())
    assert one[:3] == ["id", "id__number", "id__double"]
    assert (but[0], set(but[1:])) == ("", set(one))
    assert "amount__string" in own
    assert "amount__date" not in own
    assert none is None


def test_columns_beside_an_absent_one_are_called_as_in_the_table(spark: SparkSession) -> None:
    """Whatever the event calls it: a name that is taken, or one in another case."""
    frame = spark.createDataFrame(
        [(None, None, None, ["_op", "AMOUNT", "id"])],
        "types string, before map<string,string>, after map<string,string>, absent array<string>",
    )
    stored = {"_op": "_op__source", "AMOUNT": "amount"}
    moved = TypeSplit(True, {}, frozenset({"amount__date"}), stored).of_events(frame)
    ((listed,),) = moved.select("absent").collect()
    assert {"_op", "_op__source__number", "AMOUNT", "amount__string", "id__number"} < {*listed}
    assert not {"_op__number", "AMOUNT__string", "amount__date"} & {*listed}


@pytest.mark.long
@pytest.mark.parametrize("names", [("_op", "_op"), ("amount", "AMOUNT")], ids="-".join)
def test_an_unsent_column_keeps_the_value_beside_it(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, names: tuple[str, str]
) -> None:
    first, since = names
    lake = lake_of(spark, tmp_path)
    lake.driven(monkeypatch)
    batches = [event("c", 1, TEXT, "one", 1, first), event("u", 2, INT, 5, 1, first),
               event("u", 3, TEXT, UNSENT, 1, since)]  # fmt: skip
    for number, batch in enumerate(batches):
        lake.write(f"{number}.jsonl", [batch])
        lake.run()
    stored = "_op__source" if first == "_op" else first
    assert lake.rows("orders")[0][f"{stored}__number"] == 5
    assert lake.agrees()


@pytest.mark.long
def test_types_that_widen_to_one_another_share_the_column_beside(
    spark: SparkSession, tmp_path: Path
) -> None:
    lake = lake_of(spark, tmp_path)
    lake.load_records([event("c", 1, TEXT, "a", 1)])
    lake.load_records([event("c", 2, INT, 2, 2)], "1.jsonl")
    lake.load_records([event("c", 3, CENTS, unscaled("3.50"), 3)], "2.jsonl")
    rows = {r["id"]: (r["amount"], r["amount__number"]) for r in lake.rows("orders")}
    assert rows == {1: ("a", None), 2: (None, Decimal(2)), 3: (None, Decimal("3.5"))}


@pytest.mark.long
def test_a_hint_says_which_type_is_meant(spark: SparkSession, tmp_path: Path) -> None:
    lake = lake_of(spark, tmp_path, columns={"amount": "string"})
    lake.load_records([*FIRST, *LATER["text"]])
    assert {r["id"]: r["amount"] for r in lake.rows("orders")} == {
        1: "one", 2: "2", 3: None, 6: "007",
    }  # fmt: skip
