"""StreamX JSON of writers that leave NULLs out: what an update lacks is NULL, or was not sent."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from sluice.config.format_options import StreamxOptions
from spark_jobs.formats.streamx import StreamX
from tests.spark.envelopes import jsonl
from tests.spark.sandbox import Sandbox

pytestmark = pytest.mark.spark
Row = dict[str, Any]
COLUMNS = {"id": "LONG", "name": "STRING", "note": "STRING"}
ANN, BOB = {"id": 1, "name": "ann", "note": "x"}, {"id": 2, "name": "bob", "note": "y"}


def blob(op: str, sequence: int, key: list[str] | None = None, **images: Row) -> Row:
    """A message as the vendor's page of DataHub Blob has them: nothing in it is null."""
    described = [{"name": name, "type": kind} for name, kind in COLUMNS.items()]
    return {
        "schema": {"dataColumn": described, "source": {"dbName": "db", "tableName": "t"},
                   **({} if key == [] else {"primaryKey": key or ["id"]})},
        "payload": {
            "op": op, "sequenceId": str(sequence), "timestamp": {"eventTime": 1605339932000},
            **{side: {"dataColumn": image} for side, image in images.items()},
        },
        "version": "0.0.1",
    }  # fmt: skip


def without(row: Row, *names: str) -> Row:
    return {name: value for name, value in row.items() if name not in names}


def partial(**payload: Any) -> Row:
    """An update that lacks `note`."""
    told = blob("UPDATE", 2, before=ANN, after=without(ANN, "note"))
    return told | {"payload": told["payload"] | payload}


@pytest.mark.parametrize(
    ("option", "absent"),
    [
        ({}, [None, ["note"], ["note"]]),
        ({"omitted_columns": "auto"}, [None, ["note"], ["note"]]),
        ({"omitted_columns": "absent"}, [["note"]] * 3),
        ({"omitted_columns": "nulls"}, [None] * 3),
    ],
)
def test_a_writer_of_nulls_leaves_out_what_it_does_not_send(
    spark: SparkSession, tmp_path: Path, option: Row, absent: list[Any]
) -> None:
    messages = [partial(), partial(ddl=None), partial(ddl={"text": "x", "ddlMeta": None})]
    file = jsonl(tmp_path / "u.jsonl", messages)
    rows = StreamX().read(spark, (file,), StreamxOptions(**option)).collect()
    assert [row["absent"] for row in sorted(rows, key=lambda row: row["ordinal"])] == absent


@pytest.mark.parametrize(
    "batches",
    [
        [(0, 1, 2, 3, 4)],
        pytest.param([(0, 1, 2), (3,), (4,)], marks=pytest.mark.long),
        [(4,), (3, 0, 1), (2,)],
    ],
)
@pytest.mark.parametrize("key", [["id"], []])
def test_updates_to_null_in_one_message_and_in_two(
    spark: SparkSession,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    key: list[str],
    batches: list[tuple[int, ...]],
) -> None:
    messages = [
        blob("INSERT", 1, key, after=ANN),
        blob("INSERT", 2, key, after=BOB),
        blob("UPDATE_BEFOR", 3, key, before=ANN),
        blob("UPDATE_AFTER", 3, key, after=without(ANN, "note")),
        blob("UPDATE_AFTER", 4, key, before=BOB, after=without(BOB, "note")),
    ]
    lake = Sandbox(spark, tmp_path, {"format": "streamx", "tables": {"db.t": {"key": key}}})
    lake.driven(monkeypatch)
    lake.run_each(*([messages[at] for at in batch] for batch in batches))
    assert sorted(lake.rows("t"), key=lambda row: row["id"]) == [
        ANN | {"note": None}, BOB | {"note": None},
    ]  # fmt: skip


def test_old_rows_without_their_nulls(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a table without a key the old row is found by all of its values, NULLs too."""
    messages = [
        blob("INSERT", 1, [], after=without(ANN, "note")),
        blob("UPDATE_BEFOR", 2, [], before=without(ANN, "note")),
        blob("UPDATE_AFTER", 2, [], after=ANN),
        blob("INSERT", 3, [], after=without(BOB, "name")),
        blob("DELETE", 4, [], before=without(BOB, "name")),
    ]
    lake = Sandbox(spark, tmp_path, {"format": "streamx", "tables": {"db.t": {"key": []}}})
    lake.driven(monkeypatch)
    lake.run_each(messages[:1], messages[1:])
    assert lake.rows("t") == [ANN]


def test_a_key_that_changes_takes_nothing_that_is_null(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A second message that leaves a NULL out does not take the old row's value for it."""
    messages = [
        blob("INSERT", 1, after=ANN),
        blob("UPDATE_BEFOR", 2, before=ANN),
        blob("UPDATE_AFTER", 2, after={"id": 3, "name": "ann"}),
    ]
    lake = Sandbox(spark, tmp_path, {"format": "streamx"}).driven(monkeypatch)
    lake.run_each(messages[:1], messages[1:])
    assert lake.rows("t") == [{"id": 3, "name": "ann", "note": None}]


@pytest.mark.parametrize("ddl", ["DROP TABLE t", 7, [1]])
def test_a_statement_that_is_no_object_is_refused(
    spark: SparkSession, tmp_path: Path, ddl: Any
) -> None:
    told = blob("DDL", 1) | {"payload": {"op": "DDL", "sequenceId": "1", "ddl": ddl}}
    file = jsonl(tmp_path / "d.jsonl", [told])
    (row,) = StreamX().read(spark, (file,), StreamxOptions()).collect()
    assert row["reason"] == "not_json"
    assert json.loads(row["raw"])["payload"]["ddl"] == ddl
