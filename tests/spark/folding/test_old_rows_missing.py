"""Tables without a key: updates whose old row is in no record."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.spark import canal_messages, cdl_messages, datastream_events
from tests.spark.sandbox import Sandbox

pytestmark = pytest.mark.spark
Row = dict[str, Any]


def row(value: str) -> Row:
    return {"id": 1, "v": value}


def streamx(op: str, sequence: str, **images: Row) -> Row:
    payload = {name: {"dataColumn": image} for name, image in images.items()}
    return {
        "schema": {"dataColumn": [], "source": {"dbName": "db", "tableName": "t"}},
        "payload": {"op": op, "sequenceId": sequence, **payload},
    }


def tuple_row(kind: str, sequence: str, before: str, value: str) -> Row:
    after = "N" if before == "Y" else "Y"
    return row(value) | {
        "_sequence_id_": sequence, "_operation_type_": kind, "_source_table_": "t",
        "_before_image_": before, "_after_image_": after,
    }  # fmt: skip


def shareplex(op: str, seq: int, **images: Row) -> Row:
    return {"meta": {"op": op, "table": "S.T", "scn": "9", "trans": "1.2.3", "seq": seq}} | images


def aws_dms(operation: str, minute: int, **images: Any) -> Row:
    told = {"timestamp": f"2024-01-02T03:{minute:02}:05.0Z", "record-type": "data"}
    names = {"operation": operation, "schema-name": "s", "table-name": "t"}
    return {"metadata": told | names, **images}


def debezium(op: str, lsn: int, before: Row | None, after: Row | None) -> Row:
    source = {"connector": "postgresql", "db": "d", "schema": "s", "table": "t", "lsn": lsn}
    return {"op": op, "source": source, "before": before, "after": after}


def canal(op: str, at: int, new: Row, **parts: Any) -> Row:
    return canal_messages.message(op, new, es=at, id=at, pkNames=None, **parts)


def cdl(operation: str, lsn: int, **images: Any) -> Row:
    return cdl_messages.v1(operation, cdl_messages.pairs(lsn=lsn), unique=None, **images)


def datastream(change: str, position: int, value: str) -> Row:
    order = {"log_file": "mysql-bin.000001", "log_position": position}
    return datastream_events.event(row(value), change_type=change, **order)


UNTOLD = {
    "aws_dms": [aws_dms("insert", 1, data=row("a")), aws_dms("update", 2, data=row("b"))],
    "canal": [canal("INSERT", 1, row("a")), canal("UPDATE", 2, row("b"), old=[])],
    "datastream": [datastream("INSERT", 1, "a"), datastream("UPDATE", 2, "b")],
    "debezium": [debezium("c", 1, None, row("a")), debezium("u", 2, None, row("b"))],
    "huawei_cdl": [cdl("INSERT", 1, data=row("a")), cdl("UPDATE", 2, data=row("b"), before=None)],
    "streamx": [streamx("INSERT", "1", after=row("a")), streamx("UPDATE", "2", after=row("b"))],
}
IN_TWO_RECORDS = {
    "datahub_tuple": [
        tuple_row("I", "1", "N", "a"), tuple_row("U", "2", "Y", "a"), tuple_row("U", "2", "N", "b"),
    ],
    "datastream": [
        datastream("INSERT", 1, "a"), datastream("UPDATE-DELETE", 2, "a"),
        datastream("UPDATE-INSERT", 2, "b"),
    ],
    "shareplex": [
        shareplex("ins", 1, data=row("a")), shareplex("upd before", 2, data=row("a")),
        shareplex("upd after", 2, data=row("b")),
    ],
    "streamx": [
        streamx("INSERT", "1", after=row("a")), streamx("UPDATE_BEFORE", "2", before=row("a")),
        streamx("UPDATE_AFTER", "2", after=row("b")),
    ],
}  # fmt: skip


def lake_of(spark: SparkSession, folder: Path, name: str) -> tuple[Sandbox, str]:
    """A pipeline of one table without a key, and the table's name."""
    table = "T" if name == "shareplex" else "t"
    columns = {"id": "int", "v": "string"}
    return Sandbox(
        spark, folder, {"format": name, "tables": {table: {"key": [], "columns": columns}}}
    ), table


EVERY_RUN = ("canal", "debezium", "streamx")


def of_each(formats: Mapping[str, Any]) -> list[Any]:
    """Formats by name; some in every run, the others with the suites of the formats."""
    return [
        pytest.param(name, marks=() if name in EVERY_RUN else pytest.mark.formats)
        for name in formats
    ]


@pytest.mark.parametrize("name", of_each(UNTOLD))
def test_update_without_an_old_row_is_quarantined(
    spark: SparkSession, tmp_path: Path, name: str
) -> None:
    lake, table = lake_of(spark, tmp_path, name)
    lake.load_records(UNTOLD[name])
    assert lake.rows(table) == [row("a")]
    (bad,) = lake.quarantined()
    assert (bad["reason"], bad["detail"]) == ("does_not_fit", "old_row_missing")
    assert json.loads(bad["raw"]) == UNTOLD[name][1]


@pytest.mark.parametrize("name", of_each(IN_TWO_RECORDS))
@pytest.mark.parametrize("at_once", [True, False], ids=["one batch", "each alone"])
def test_the_old_row_of_an_update_in_two_records_came_in_the_other(
    spark: SparkSession, tmp_path: Path, name: str, at_once: bool
) -> None:
    lake, table = lake_of(spark, tmp_path, name)
    records = IN_TWO_RECORDS[name]
    for batch in [records] if at_once else [[record] for record in reversed(records)]:
        lake.load_records(batch)
    assert lake.rows(table) == [row("b")]
    assert not lake.quarantined()


def test_an_update_of_a_row_that_is_all_key_is_quarantined(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Datastream names every column of a PostgreSQL table with REPLICA IDENTITY FULL as its key."""
    records = []
    for at, (change, value) in enumerate((("INSERT", "a"), ("UPDATE", "b"))):
        told = datastream(change, at, value)
        told["source_metadata"] |= {"primary_keys": ["ID", "v"]}
        named = json.loads(json.dumps(told))
        named["source_metadata"]["table"] = "named"
        records += [told, named]
    columns = {"columns": {"v": "string"}}
    tables = {"t": columns, "named": {"key": ["id"], **columns}}
    sandbox = Sandbox(spark, tmp_path, {"format": "datastream", "tables": tables})
    sandbox.load_records(records)
    assert [r["v"] for r in sandbox.rows("t")] == ["a"]
    assert [r["v"] for r in sandbox.rows("named")] == ["b"]
    (bad,) = sandbox.quarantined()
    assert (bad["reason"], bad["detail"]) == ("does_not_fit", "old_row_missing")
