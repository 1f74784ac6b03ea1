"""Huawei CDL JSON: a history of both versions, in any order, to rows of a table."""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.spark.cdl_messages import BARE, pairs, schema, v1, v2
from tests.spark.sandbox import Sandbox, total

pytestmark = [pytest.mark.spark, pytest.mark.formats]
FIELDS: dict[str, list[dict[str, Any]]] = {
    "1.0": [{"type": "int32", "optional": False, "field": "id"},
            {"type": "string", "name": "com.xxx.cdc.data.Decimal", "field": "amount"},
            {"type": "int64", "name": "org.apache.kafka.connect.data.Timestamp", "field": "at"},
            {"type": "string", "field": "doc"}],
    "2.0": [{"type": "int32", "optional": False, "field": "id"},
            {"type": "string", "name": "com.xxx.cdc.data.Decimal", "field": "amount"},
            {"type": "string", "name": "com.xxx.cdc.data.timestamp", "field": "at"},
            {"type": "string", "field": "doc"}],
}  # fmt: skip


def order(ident: int, amount: str | None, at: Any, doc: str | None = "d") -> dict[str, Any]:
    return {"id": ident, "amount": amount, "at": at, "doc": doc}


def change(lsn: int, operation: str, **parts: Any) -> dict[str, Any]:
    """A change of version 1.0 with its schema."""
    row = parts.get("data") or parts.get("before")
    unique = {"id": row["id"]} if row else None
    message = v1(operation, pairs(lsn=lsn, txId=lsn), **{**BARE, "unique": unique, **parts})
    return message | {"schema": schema("data", FIELDS["1.0"])}


def change_2(lsn: int, op: str, snapshot: str = "false", **parts: Any) -> dict[str, Any]:
    """The same of version 2.0."""
    row = parts.get("after") or parts["before"]
    source = {"lsn": lsn, "snapshot": snapshot}
    empty = {"after": None, "before": None, "unique": {"id": row["id"]}}
    return v2(op, source, **empty | parts) | {"schema": schema("after", FIELDS["2.0"])}


HISTORY = [
    change_2(10, "c", "true", after=order(1, "1.10", "2024-02-04 11:59:56", "long")),
    change(20, "INSERT", data=order(2, "12345678901234567890.123456789", 1707047996013)),
    change(30, "UPDATE", data=order(1, "2.20", 1707047996013, None), LOB_COLUMNS="doc"),
    change(40, "INSERT", data=order(3, None, None)),
    change_2(50, "u", before=order(3, None, None), after=order(4, "0.00", None, None)),
    change_2(60, "c", after=order(5, "1", "2024-02-04T11:59:56.000001Z")),
    change(70, "DELETE", before={"id": 5}),
    change_2(80, "c", after=order(6, "1", "2024-02-04T11:59:56+08:00")),
    change_2(5, "r", after=order(2, "9", "2024-02-04 00:00:00", "stale")),
    v1("UPDATE", SEG_OWNER="cdc_cdl", TABLE_NAME="cdc_heartbeat"),
    v1("DDL", **BARE, ddl="ALTER TABLE t ADD doc text"),
    "null",
    {"schema": None, "payload": None},
]
LOADED = [
    {"id": 1, "amount": Decimal("2.200000000"), "at": datetime(2024, 2, 4, 11, 59, 56, 13000),
     "doc": "long"},
    {"id": 2, "amount": Decimal("12345678901234567890.123456789"),
     "at": datetime(2024, 2, 4, 11, 59, 56, 13000), "doc": "d"},
    {"id": 4, "amount": Decimal("0.000000000"), "at": None, "doc": None},
]  # fmt: skip


@pytest.mark.parametrize("turned", [False, True])
def test_a_history_ends_in_the_same_table(
    spark: SparkSession, tmp_path: Path, turned: bool
) -> None:
    """Two versions, two batches in either order, half of the first delivered again."""
    sandbox = Sandbox(spark, tmp_path, {
        "format": "huawei_cdl", "format_options": {"database": "cdl"},
        "tables": {"t": {"columns": {"amount": "decimal(38,9)"}}},
    })  # fmt: skip
    halves = [HISTORY[:5] + HISTORY[8:], HISTORY[5:8] + HISTORY[:4] + HISTORY[8:9]]
    results = []
    for number, records in enumerate(reversed(halves) if turned else halves):
        sandbox.write(f"{number}.jsonl", reversed(records) if turned else records)
        results.append(total(sandbox.load_landed()))
        (sandbox.landing / f"{number}.jsonl").unlink()
    assert sorted(sandbox.rows("t"), key=lambda row: row["id"]) == LOADED
    assert sum(counts.quarantined for counts in results) == 1
    assert sandbox.quarantined()[0]["detail"].startswith("at: ")
    assert sum(counts.ignored for counts in results) == 4


def test_of_changes_with_one_lsn_the_last_wins(spark: SparkSession, tmp_path: Path) -> None:
    """In a file, and in a later one; a change that comes again in its order changes nothing."""
    sandbox = Sandbox(spark, tmp_path, {"format": "huawei_cdl"})
    numbers = range(1, 9)

    def update(ident: int, note: str) -> dict[str, Any]:
        row, unique = {"id": ident, "note": note}, {"id": ident}
        return v1("UPDATE", pairs(lsn=9), data=row, before=None, unique=unique)

    history = [update(i, note) for i in numbers for note in ("first", "second", "third")]
    sandbox.load_halves(history, cut=23, again=3)
    rows = sorted(sandbox.rows("t"), key=lambda row: row["id"])
    assert rows == [{"id": str(i), "note": "third"} for i in numbers]


@pytest.mark.parametrize("version", ["1.0", "2.0"])
def test_an_update_that_names_the_old_key_moves_its_row(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str
) -> None:
    """What it does not send comes from the row that it moves."""

    def told(lsn: int, kind: str, ident: int, row: dict[str, Any], lobs: str) -> dict[str, Any]:
        parts = {"unique": {"id": ident}, "before": None, "LOB_COLUMNS": lobs}
        if version == "1.0":
            return v1(kind, pairs(lsn=lsn), data=row, **parts)
        return v2({"INSERT": "c", "UPDATE": "u"}[kind], {"lsn": lsn}, after=row, **parts)

    sandbox = Sandbox(spark, tmp_path, {"format": "huawei_cdl"}).driven(monkeypatch)
    sandbox.run_each(
        [told(1, "INSERT", 1, {"id": 1, "doc": "x"}, ""),
         told(2, "INSERT", 2, {"id": 2, "doc": "y"}, "")],
        [told(3, "UPDATE", 1, {"id": 3, "doc": None}, "doc")],
    )  # fmt: skip
    rows = sorted(sandbox.rows("t"), key=lambda row: row["id"])
    assert rows == [{"id": "2", "doc": "y"}, {"id": "3", "doc": "x"}]


def test_without_a_key_an_old_key_is_no_old_row(spark: SparkSession, tmp_path: Path) -> None:
    """The rest of the old row is unknown, so the update cannot be applied."""
    sandbox = Sandbox(spark, tmp_path, {"format": "huawei_cdl", "tables": {"t": {"key": []}}})
    sandbox.load_records([
        v1("INSERT", pairs(lsn=1), data={"id": 1, "doc": "x"}),
        v1("UPDATE", pairs(lsn=2), data={"id": 3, "doc": "y"}, before=None),
    ])  # fmt: skip
    assert sandbox.rows("t") == [{"id": "1", "doc": "x"}]
    assert [bad["reason"] for bad in sandbox.quarantined()] == ["does_not_fit"]


def test_rows_from_before_a_column_have_its_default(spark: SparkSession, tmp_path: Path) -> None:
    """As the schema of later messages describes it."""
    ident = {"type": "int32", "optional": False, "field": "id"}
    state = {"type": "string", "optional": False, "default": "new", "field": "state"}

    def insert(row: dict[str, Any], *fields: dict[str, Any]) -> dict[str, Any]:
        told = v1("INSERT", pairs(lsn=row["id"]), data=row, unique={"id": row["id"]})
        return told | {"schema": schema("data", [ident, *fields])}

    sandbox = Sandbox(spark, tmp_path, {"format": "huawei_cdl"})
    sandbox.load_records([insert({"id": 1})])
    sandbox.load_records([insert({"id": 2, "state": "open"}, state)])
    rows = sorted(sandbox.rows("t"), key=lambda row: row["id"])
    assert rows == [{"id": 1, "state": "new"}, {"id": 2, "state": "open"}]
