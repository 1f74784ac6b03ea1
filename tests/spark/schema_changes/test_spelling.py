"""One column in several spellings: a table has it once, whichever event comes first."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from sluice.errors import PlanError
from spark_jobs.decoding import record_rules
from tests.spark.canal_messages import message
from tests.spark.sandbox import Sandbox, total
from tests.spark.shareplex_records import change

pytestmark = [pytest.mark.spark, pytest.mark.formats]
Row = Mapping[str, Any]


def canal(op: str, row: Row, **parts: Any) -> dict[str, Any]:
    return message(op, dict(row), **{"mysqlType": None, "pkNames": None} | parts)


def maxwell(number: int, row: Row, key: str = "id") -> dict[str, Any]:
    return {"database": "db", "table": "t", "type": "insert", "xid": number, "commit": True,
            "data": row, "primary_key_columns": [key]}  # fmt: skip


def ogg(number: int, row: Row, key: str = "id", **more: Any) -> dict[str, Any]:
    return {"table": "db.t", "op_type": "I", "pos": str(number), "primary_keys": [key],
            "after": row} | more  # fmt: skip


def debezium(number: int, row: Row | None, before: Row | None = None) -> dict[str, Any]:
    op = "d" if row is None else "u" if before else "c"
    source = {"connector": "postgresql", "schema": "db", "table": "t", "lsn": number}
    return {"op": op, "before": before, "after": row, "source": source}


def aws_dms(number: int, row: Row) -> dict[str, Any]:
    about = {"operation": "insert", "schema-name": "db", "table-name": "t", "record-type": "data"}
    return {"data": {**row, "seq": number}, "metadata": about}


RECORDS: dict[str, tuple[dict[str, Any], list[Any]]] = {
    "canal": ({}, [canal("INSERT", {"id": "1", "k1": "a"}),
                   canal("INSERT", {"ID": "2", "K1": "b"})]),
    "maxwell": ({}, [maxwell(1, {"id": 1, "k1": "a"}), maxwell(2, {"ID": 2, "K1": "b"})]),
    "ogg": ({}, [ogg(1, {"id": 1, "k1": "a"}), ogg(2, {"ID": 2, "K1": "b"})]),
    "debezium": ({}, [debezium(1, {"id": 1, "k1": "a"}), debezium(2, {"ID": 2, "K1": "b"})]),
    "aws_dms": ({"order_column": "seq"},
                [aws_dms(1, {"id": 1, "k1": "a"}), aws_dms(2, {"ID": 2, "K1": "b"})]),
    "rows": ({}, [{"id": 1, "k1": "a"}, {"ID": 2, "K1": "b"}]),
}  # fmt: skip


def pipeline(fmt: str, options: Mapping[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    """One table `t` with the key `ID`, in a case that not every event has."""
    name = "t" if fmt == "rows" else "db.t"
    tables = {name: {"key": ["ID"], "columns": {"Id": "bigint"}}}
    template = "{table}"
    return {"format": fmt, "format_options": dict(options or {}), "table_name": template,
            "tables": tables} | more  # fmt: skip


@pytest.mark.parametrize("fmt", RECORDS)
@pytest.mark.parametrize("turned", [False, True], ids=["forth", "back"])
def test_one_column_whatever_its_case(
    spark: SparkSession, tmp_path: Path, fmt: str, turned: bool
) -> None:
    options, records = RECORDS[fmt]
    sandbox = Sandbox(spark, tmp_path, pipeline(fmt, options))
    sandbox.load_records(records[::-1] if turned else records, "db/t/a.jsonl")
    rows = sorted(sandbox.rows("t"), key=lambda row: row["id"])
    assert rows == [{"id": 1, "k1": "a"}, {"id": 2, "k1": "b"}]
    assert sandbox.types("t")["id"] == "long"


@pytest.mark.parametrize("fmt", ["maxwell", "ogg"])
def test_key_of_a_record_may_be_in_another_case(
    spark: SparkSession, tmp_path: Path, fmt: str
) -> None:
    record_of = {"maxwell": maxwell, "ogg": ogg}[fmt]
    records = [record_of(1, {"id": 1, "v": "a"}, "ID"), record_of(2, {"id": 1, "v": "b"}, "ID")]
    sandbox = Sandbox(spark, tmp_path, {"format": fmt, "table_name": "{table}"})
    sandbox.load_records(records)
    assert sandbox.rows("t") == [{"id": "1", "v": "b"}]


def test_the_stored_spelling_stays(spark: SparkSession, tmp_path: Path) -> None:
    sandbox = Sandbox(spark, tmp_path, pipeline("canal"))
    sandbox.load_records([canal("INSERT", {"ID": "1", "V": "a"})], "1.jsonl")
    sandbox.load_records([canal("UPDATE", {"id": "1", "v": "b"}, old=[{"v": "a"}])], "2.jsonl")
    assert sandbox.rows("t") == [{"ID": 1, "V": "b"}]


def test_the_old_key_of_canal_in_another_case_is_deleted(
    spark: SparkSession, tmp_path: Path
) -> None:
    sandbox = Sandbox(spark, tmp_path, pipeline("canal"))
    sandbox.load_records([canal("INSERT", {"id": n, "v": "a"}) for n in "135"], "1.jsonl")
    moves = [
        canal("UPDATE", {"id": "2", "v": "a"}, old=[{"ID": "1"}]),
        canal("UPDATE", {"id": "3", "v": "b"}, old=[{"V": "a"}]),
    ]
    sandbox.load_records(moves, "2.jsonl")
    found = {row["id"]: row["v"] for row in sandbox.rows("t")}
    assert found == {2: "a", 3: "b", 5: "a"}
    sandbox.load_records([canal("DELETE", {"ID": "5", "V": "a"})], "3.jsonl")
    assert {row["id"] for row in sandbox.rows("t")} == {2, 3}


def test_an_absent_column_is_absent_in_any_case(spark: SparkSession, tmp_path: Path) -> None:
    """Canal's `mysqlType` has the table's case, its rows the statement's."""
    types = {"mysqlType": {"ID": "bigint", "V": "varchar(9)"}, "pkNames": ["ID"]}
    records = [
        canal("INSERT", {"id": "1", "v": "a"}, **types),
        canal("UPDATE", {"id": "1"}, old=[{}], **types),
        message("INSERT", {"id": "2", "v": "b"}, {"ID": "3", "V": "c"}, **types),
        message("UPDATE", {"id": "2", "v": "c"}, {"ID": "3", "v": "d"},
                old=[{"v": "b"}, {"v": "c"}], **types),
    ]  # fmt: skip
    sandbox = Sandbox(spark, tmp_path, {"format": "canal", "table_name": "{table}"})
    sandbox.load_records(records)
    found = sorted(sandbox.rows("t"), key=lambda row: row["id"])
    assert found == [{"id": 1, "v": "a"}, {"id": 2, "v": "c"}, {"id": 3, "v": "d"}]


def test_an_image_of_ogg_lies_over_the_other_in_any_case(
    spark: SparkSession, tmp_path: Path
) -> None:
    """What neither image has is what the row had under its old key."""
    records = [
        ogg(1, {"id": 1, "v": "a", "w": "x"}),
        ogg(2, {"ID": 2, "V": "b"}, op_type="U", before={"id": 1, "v": "a"}),
    ]
    sandbox = Sandbox(spark, tmp_path, {"format": "ogg", "table_name": "{table}"})
    sandbox.load_records(records)
    assert sandbox.rows("t") == [{"id": "2", "v": "b", "w": "x"}]


@pytest.mark.parametrize("fmt", ["canal", "debezium", "rows"])
def test_a_record_with_both_spellings_is_bad(spark: SparkSession, tmp_path: Path, fmt: str) -> None:
    options, (first, second) = RECORDS[fmt]
    both = json.dumps(second).replace('"K1": "b"', '"K1": "b", "k1": "c"')
    sandbox = Sandbox(spark, tmp_path, pipeline(fmt, options))
    counts = total(sandbox.load_records([first, both, second], "db/t/a.jsonl"))
    assert (counts.read, counts.quarantined) == (3, 1)
    (row,) = sandbox.quarantined()
    assert "duplicate_column" in (row["reason"], row["detail"])
    assert sorted(row["id"] for row in sandbox.rows("t")) == [1, 2]


def test_columns_that_differ_by_case_alone_stop_the_batch(
    spark: SparkSession, tmp_path: Path
) -> None:
    sandbox = Sandbox(spark, tmp_path, pipeline("debezium"))
    with pytest.raises(PlanError, match="columns 'A' and 'a' differ by case"):
        sandbox.load_records([debezium(n, {"id": n, "A": 1, "a": 2}) for n in (1, 2)])


def refuse(*_: object) -> None:
    raise AssertionError("the long way was taken")


def test_spellings_that_are_known_are_read_once(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sandbox = Sandbox(spark, tmp_path, pipeline("debezium"))
    sandbox.load_records(RECORDS["debezium"][1])
    sandbox.load_records([debezium(3, {"ID": 4, "K1": "d"}, {"ID": 2, "K1": "b"})])
    monkeypatch.setattr(record_rules, "discover", refuse)
    sandbox.load_records(
        [debezium(4, {"ID": 5, "K1": "e"}, {"ID": 4}), debezium(5, None, {"ID": 1})]
    )
    assert sandbox.rows("t") == [{"id": 5, "k1": "e"}]


def test_a_deleted_key_in_a_new_spelling_is_looked_for(spark: SparkSession, tmp_path: Path) -> None:
    sandbox = Sandbox(spark, tmp_path, pipeline("debezium"))
    sandbox.load_records([debezium(n, {"id": n, "k1": "a"}) for n in (1, 2)])
    counts = total(sandbox.load_records([debezium(4, None, {"ID": 1})]))
    assert (counts.applied, counts.quarantined) == (1, 0)
    assert [row["id"] for row in sandbox.rows("t")] == [2]


@pytest.mark.parametrize("apart", [True, False], ids=["apart", "together"])
def test_a_new_name_is_spelled_as_the_events_will_have_it(
    spark: SparkSession, tmp_path: Path, apart: bool
) -> None:
    """Whether they come with the statement, which has it as somebody typed it, or later."""
    rename = {"ddl": "alter table o.item rename column title to name"}
    changes = [change(1, "ins", {"ID": "1", "TITLE": "a"}), change(5, "ddl") | rename]
    since = [change(9, "ins", {"ID": "2", "NAME": "b"})]
    config = {"format": "shareplex", "tables": {"O.ITEM": {"key": ["ID"]}}}
    shop = Sandbox(spark, tmp_path, config)
    for records in [changes, since] if apart else [[*changes, *since]]:
        shop.load_records(records)
    assert {r["ID"]: r["NAME"] for r in shop.rows("ITEM")} == {"1": "a", "2": "b"}
