"""What a load and a look say of names that are nobody's, and of a wrong format."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from sluice.operations import preview as preview_module
from sluice.operations import stages
from sluice.operations.context import Context
from sluice.operations.preview import preview
from tests.spark.described import BEFORE
from tests.spark.described import event as described
from tests.spark.sandbox import Sandbox

pytestmark = pytest.mark.spark


def event(lsn: int, table: str, **after: Any) -> dict[str, Any]:
    source = {"connector": "postgresql", "db": "d", "schema": "s", "table": table, "lsn": lsn}
    return {"op": "c", "after": after, "source": source, "ts_ms": 1}


def notes_of_plan_and_run(
    lake: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> tuple[list[str], list[str]]:
    """What a look says and what the run says, of what has landed."""
    lake.driven(monkeypatch)
    monkeypatch.setattr(preview_module, "submit", lake.look)
    messages: list[str] = []
    ctx = lake.context()
    looked = preview(ctx).forecast.notes
    ran = Context(ctx.project, ctx.pipeline, ctx.catalog, ctx.ledger, ctx.files, messages.append)
    _, failure = stages.run(ran)
    assert failure is None
    prefix = "load: "
    lines = [line.removeprefix(prefix) for line in messages if line.startswith(prefix)]
    return list(looked), [line for line in lines if not line.startswith("batch ")]


def test_unlisted_tables_and_unknown_columns_are_reported_once(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = {"key": ["id"], "columns": {"id": "bigint", "idd": "bigint"}}
    lake = Sandbox(spark, tmp_path, {"format": "debezium", "tables": {"s.order": table}})
    lake.write("a.jsonl", [event(1, "order", id=1), event(2, "orders", id=1)])
    looked, ran = notes_of_plan_and_run(lake, monkeypatch)
    assert ran == looked
    assert [line.partition(";")[0] for line in ran] == [
        "1 record is of d.s.orders, which `tables:` does not list",
        "columns of d.s.order that no event of the batch has: idd",
    ]
    lake.write("b.jsonl", [event(3, "order", id=2)])
    assert notes_of_plan_and_run(lake, monkeypatch) == ([], [])


def test_batch_without_one_readable_record_is_reported(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake = Sandbox(spark, tmp_path, {"format": "datastream"})
    lake.write("a.jsonl", [event(n, "orders", id=n) for n in range(4)])
    looked, ran = notes_of_plan_and_run(lake, monkeypatch)
    reason = {row["reason"] for row in lake.quarantined()}
    assert (
        looked
        == ran
        == [
            f"of 4 records none could be read as datastream ({', '.join(reason)}); "
            "is `format:` right?"
        ]
    )


def test_a_table_of_which_no_record_fits_its_hints_is_told(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = {"key": ["id"], "columns": {"id": "bigint", "at": "timestamp[ms]"}}
    lake = Sandbox(spark, tmp_path, {"format": "debezium", "tables": {"s.t": table, "s.u": table}})
    days = ("2026-03-02", "2026-03-03")
    lake.write("a.jsonl", [event(n, "t", id=n, at=day) for n, day in enumerate(days, 1)])
    lake.write("b.jsonl", [event(9, "u", id=1, at=1772409600000), event(10, "u", id=2, at="x")])
    looked, ran = notes_of_plan_and_run(lake, monkeypatch)
    assert (
        looked
        == ran
        == [
            "of 2 records of d.s.t none was read: at: '2026-03-02' does not fit timestamp[ms]; "
            "is its hint right? After a change: sluice reprocess p"
        ]
    )


def test_the_hint_in_question_is_that_of_the_column_that_does_not_fit(
    spark: SparkSession, tmp_path: Path
) -> None:
    hints = {"orders": {"ID": "int"}, "other": {"d": "int"}}
    tables = {name: {"key": ["v"], "columns": columns} for name, columns in hints.items()}
    lake = Sandbox(spark, tmp_path, {"format": "debezium", "tables": tables})
    wrong = described("c", 1, BEFORE, id="x", v="a")
    source = {**wrong["payload"]["source"], "table": "other"}
    unhinted = {**wrong, "payload": {**wrong["payload"], "source": source}}
    notes = lake.load_records([wrong, unhinted]).notes
    assert [note for note in notes if "none was read" in note] == [
        "of 1 record of shop.public.orders none was read: id: 'x' does not fit int; is its hint "
        "right? After a change: sluice reprocess p",
        "of 1 record of shop.public.other none was read: id: 'x' does not fit int; after a "
        "change: sluice reprocess p",
    ]


MARCH = 1_772_409_600_000_000
"""2026-03-02 in microseconds."""


def hinted(kind: str) -> dict[str, Any]:
    table = {"key": ["id"], "columns": {"id": "bigint", "at": kind}}
    return {"format": "debezium", "tables": {"s.t": table}}


def test_a_hint_of_another_unit_than_that_of_the_stored_rows_is_told_once(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake = Sandbox(spark, tmp_path, hinted("timestamp[us]"))
    lake.write("a.jsonl", [event(1, "t", id=1, at=MARCH), event(2, "t", id=2, at=MARCH)])
    assert notes_of_plan_and_run(lake, monkeypatch) == ([], [])
    lake.configure(**hinted("timestamp[ms]"))
    lake.write("b.jsonl", [event(3, "t", id=3, at=MARCH // 1000)])
    looked, ran = notes_of_plan_and_run(lake, monkeypatch)
    assert looked == ran
    assert [line.partition("; to")[0] for line in ran] == [
        "d.s.t: at is read by timestamp[ms], but its stored rows were read by timestamp[us] and "
        "stay as they are"
    ]
    lake.write("c.jsonl", [event(4, "t", id=4, at=MARCH // 1000)])
    assert notes_of_plan_and_run(lake, monkeypatch) == ([], [])


@pytest.mark.long
def test_a_unit_that_gives_years_beyond_2200_is_told_with_the_one_that_does_not(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake = Sandbox(spark, tmp_path, hinted("timestamp_ntz[ms]"))
    lake.write("a.jsonl", [event(1, "t", id=1, at=MARCH), event(2, "t", id=2, at=MARCH + 1)])
    looked, ran = notes_of_plan_and_run(lake, monkeypatch)
    assert (
        looked
        == ran
        == [
            "d.s.t: at: 2 of 2 values are after 2200 with timestamp_ntz[ms]; timestamp_ntz[us] "
            "would give 2026-03-02…: is the unit right?"
        ]
    )
    ends = 253_402_214_400_000  # 9999-12-31, which sources write for no end
    lake.write("b.jsonl", [event(3, "t", id=3, at=ends), event(4, "t", id=4, at=ends)])
    assert notes_of_plan_and_run(lake, monkeypatch) == ([], [])
    seconds = MARCH // 1_000_000  # which are days of January 1970 as milliseconds
    lake.write("c.jsonl", [event(5, "t", id=5, at=seconds), event(6, "t", id=6, at=seconds)])
    looked, ran = notes_of_plan_and_run(lake, monkeypatch)
    assert looked == ran
    assert "at: 2 of 2 values are in 1970 with timestamp_ntz[ms]; timestamp_ntz[s]" in ran[0]
