"""Updates whose old row has only a part of its key, or of a row in a table without a key."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.spark.sandbox import Sandbox

pytestmark = pytest.mark.spark
Row = dict[str, Any]
UNSENT = "unsent"
Tell = Callable[[int, Row | None, Row], Row]


def ogg(place: int, old: Row | None, new: Row) -> Row:
    """A change as GoldenGate writes it."""
    op = "I" if old is None else "U"
    images = {"before": old, "after": new}
    return {"table": "S.T", "op_type": op, "pos": str(place)} | images


def shareplex(place: int, old: Row | None, new: Row) -> Row:
    """A change as SharePlex writes it."""
    meta = {"op": "ins" if old is None else "upd", "table": "S.T", "scn": str(place), "seq": 1}
    return {"meta": meta, "data": new} | ({} if old is None else {"key": old})


def debezium(place: int, old: Row | None, new: Row) -> Row:
    """A change as Debezium writes it."""
    source = {"connector": "postgresql", "schema": "S", "table": "T", "lsn": place}
    return {"op": "c" if old is None else "u", "source": source, "before": old, "after": new}


def flagged(row: Row | None) -> Row | None:
    """A row as GoldenGate writes it, what was not in the trail flagged."""
    missing = [name for name in row or {} if row and row[name] == UNSENT]
    return row and row | dict.fromkeys(missing) | {f"{name}_isMissing": True for name in missing}


def ogg_flagged(place: int, old: Row | None, new: Row | None) -> Row:
    """A change of GoldenGate with `includeIsMissingFields`."""
    return ogg(place, flagged(old), flagged(new) or {}) | ({} if new else {"op_type": "D"})


def cell(value: str | None) -> Row | None:
    """A value of DTS."""
    if value == UNSENT:
        return {"EmptyObject": "NONE"}
    return None if value is None else {"Character": {"charset": "utf8mb4", "value": value}}


def dts_avro(place: int, old: Row | None, new: Row | None) -> Row:
    """A change as DTS writes it, printed."""
    op = "INSERT" if old is None else "UPDATE" if new else "DELETE"
    fields = [{"name": name, "dataTypeNumber": 253} for name in old or new or {}]
    images = [image and [cell(value) for value in image.values()] for image in (old, new)]
    return {
        "id": place, "sourceTimestamp": 1772442000, "sourcePosition": "1@1", "sourceTxid": "0",
        "source": {"sourceType": "Oracle", "version": "19"}, "operation": op, "tags": {},
        "objectName": "S.T", "fields": fields, "beforeImages": images[0], "afterImages": images[1],
    }  # fmt: skip


def huawei_cdl(place: int, old: Row | None, new: Row | None) -> Row:
    """A change as CDL 1.0 writes it, which lists the large columns and has NULL for them."""
    unsent = [name for row in (old, new) if row for name in row if row[name] == UNSENT]
    images = [
        row and {name: None if value == UNSENT else value for name, value in row.items()}
        for row in (old, new)
    ]
    return {
        "DATA_STORE": "POSTGRESQL", "SEG_OWNER": "S", "TABLE_NAME": "T", "message_version": "1.0",
        "TIMESTAMP": 1772442000000, "LOB_COLUMNS": ",".join(dict.fromkeys(unsent)) or None,
        "OPERATION": "INSERT" if old is None else "UPDATE" if new else "DELETE", "unique": None,
        "transaction": {"properties": [{"name": "lsn", "value": place}]},
        "before": images[0], "data": images[1],
    }  # fmt: skip


def key_of(*columns: str) -> Row:
    return {"S.T": {"key": list(columns)}}


@pytest.mark.parametrize(
    "tell", [shareplex, *(pytest.param(one, marks=pytest.mark.long) for one in (ogg, debezium))]
)
@pytest.mark.parametrize("at_once", [pytest.param(True, marks=pytest.mark.long), False])
def test_columns_that_an_old_key_lacks_are_as_in_the_new_key(
    spark: SparkSession, tmp_path: Path, tell: Tell, at_once: bool
) -> None:
    lake = Sandbox(spark, tmp_path, {"format": tell.__name__, "tables": key_of("A", "B")})
    records = [
        tell(1, None, {"A": "1", "B": "5", "X": "x"}),
        tell(2, {"A": "1"}, {"A": "2", "B": "5", "X": "x"}),
        tell(3, {"A": "2"}, {"A": "3", "B": "5", "X": "x"}),
    ]
    for batch in [records] if at_once else [[line] for line in records]:
        lake.load_records(batch)
    assert lake.rows("T") == [{"A": "3", "B": "5", "X": "x"}]
    assert not lake.quarantined()


def test_a_delete_that_leaves_out_a_key_column_that_may_be_null_deletes_nothing(
    spark: SparkSession, tmp_path: Path
) -> None:
    """By known shapes too, where decoders pass on known columns alone."""
    table = {"key": ["A", "B"], "null_keys": ["B"]}
    lake = Sandbox(spark, tmp_path, {"format": "debezium", "tables": {"S.T": table}})
    lake.load_records([debezium(1, None, {"A": "1", "B": None})])
    deleted = {"op": "d", "before": {"A": "1"}, "after": None}
    lake.load_records([debezium(2, None, {}) | deleted])
    assert [(row["A"], row["B"]) for row in lake.rows("T")] == [("1", None)]
    (bad,) = lake.quarantined()
    assert (bad["reason"], bad["detail"]) == ("does_not_fit", "key_is_null:B")


@pytest.mark.parametrize("tell", [ogg_flagged, dts_avro, huawei_cdl])
def test_without_a_key_an_old_row_whose_value_was_not_sent_takes_none(
    spark: SparkSession, tmp_path: Path, tell: Callable[[int, Row | None, Row | None], Row]
) -> None:
    """An old NULL that was sent is a NULL."""
    name = tell.__name__.removesuffix("_flagged")
    lake = Sandbox(spark, tmp_path, {"format": name, "tables": key_of()})
    records = [
        tell(1, None, {"A": "1", "X": "x"}), tell(2, {"A": "1", "X": UNSENT}, {"A": "2", "X": "x"}),
        tell(3, {"A": "1", "X": UNSENT}, {"A": "3", "X": UNSENT}),
        tell(4, {"A": "1", "X": UNSENT}, None),
        tell(5, None, {"A": "4", "X": None}), tell(6, {"A": "4", "X": None}, {"A": "5", "X": None}),
        tell(7, None, {"A": "6", "X": None}), tell(8, {"A": "6", "X": None}, None),
    ]  # fmt: skip
    lake.load_records(records)
    assert sorted(lake.rows("T"), key=str) == [{"A": "1", "X": "x"}, {"A": "5", "X": None}]
    details = [(bad["reason"], bad["detail"]) for bad in lake.quarantined()]
    assert details == [("does_not_fit", "not_sent:X")] * 3


@pytest.mark.parametrize("tell", [ogg, shareplex])
def test_without_a_key_an_old_row_that_is_known_in_part_takes_none(
    spark: SparkSession, tmp_path: Path, tell: Tell
) -> None:
    lake = Sandbox(spark, tmp_path, {"format": tell.__name__, "tables": key_of()})
    records = [
        tell(1, None, {"A": "1", "X": "x"}), tell(2, {"A": "1"}, {"X": "y"}),
        tell(3, None, {"A": "2", "X": "x"}), tell(4, {"A": "2", "X": "x"}, {"X": "y"}),
    ]  # fmt: skip
    lake.load_records(records)
    assert lake.rows("T") == [{"A": "1", "X": "x"}, {"A": "2", "X": "y"}]
    (bad,) = lake.quarantined()
    assert (bad["reason"], bad["detail"]) == ("does_not_fit", "not_sent:X")
    assert json.loads(bad["raw"]) == records[1]
