"""TRUNCATE in Debezium's topic of schema changes: by default nothing else tells of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from sluice.errors import PlanError
from tests.spark.debezium_events import event, source
from tests.spark.sandbox import Sandbox, total

pytestmark = pytest.mark.spark
Record = dict[str, Any]


def row(ident: int, pos: int) -> Record:
    made = event("c", src=source(pos=pos), after={"id": ident, "name": "x"})
    return {"key": {"id": ident}, "value": made}


def stated(text: str, pos: int = 10, table: str = "t", snapshot: str = "false") -> Record:
    """A record of the topic of schema changes."""
    place = source(pos=pos, row=0, table=table, snapshot=snapshot)
    value = {"source": place, "ts_ms": 1, "databaseName": "shop", "ddl": text, "tableChanges": []}
    return {"key": {"databaseName": "shop"}, "value": value}


TRUNCATE = stated("TRUNCATE TABLE `t`")
SENT = {"key": None, "value": event("t", src=source(pos=10, row=0), after=None)}
OLD, NEW = [row(1, 1), row(2, 2)], [row(2, 11), row(3, 12)]


def ids(shop: Sandbox) -> list[str]:
    return sorted(found["id"] for found in shop.rows("t"))


@pytest.mark.parametrize(
    "batches",
    [
        pytest.param([OLD, [TRUNCATE], NEW], id="in-turn"),
        pytest.param([NEW, [TRUNCATE], OLD], id="rows-late", marks=pytest.mark.long),
        pytest.param([[*OLD, *NEW, TRUNCATE, SENT]], id="sent-too"),
        pytest.param([[TRUNCATE], NEW], id="first"),
    ],
)
def test_truncate_of_the_schema_topic_empties_the_table_at_its_position(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, batches: list[Any]
) -> None:
    shop = Sandbox(spark, tmp_path, {"format": "debezium"}).driven(monkeypatch)
    shop.run_each(*batches)
    assert ids(shop) == ["2", "3"]
    assert shop.agrees()


def test_truncate_of_a_partition_or_of_another_table_changes_nothing_and_is_reported(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shop = Sandbox(spark, tmp_path, {"format": "debezium"})
    part, other = stated("ALTER TABLE t TRUNCATE PARTITION p0"), stated("truncate shop.u")
    found = stated("TRUNCATE TABLE t", snapshot="true")
    assert total(shop.load_records([*OLD, part, other, found])).ignored == 3
    assert ids(shop) == ["1", "2"]
    lines = [line for line in capsys.readouterr().err.splitlines() if "TRUNCATE" in line]
    assert [line.partition(": a TRUNCATE")[0] for line in lines] == ["shop.t"]


def test_truncate_of_a_table_that_is_not_captured_stops_no_batch(
    spark: SparkSession, tmp_path: Path
) -> None:
    """The topic tells of every table of the server, and of most no row ever comes."""
    shop = Sandbox(spark, tmp_path, {"format": "debezium"})
    shop.load_records([*OLD, stated("TRUNCATE TABLE staging", table="staging")])
    assert ids(shop) == ["1", "2"]


def test_rows_older_than_an_early_truncate_stop_the_batch(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop = Sandbox(spark, tmp_path, {"format": "debezium"}).driven(monkeypatch)
    (first,) = shop.run_each([TRUNCATE])
    shop.write("old.jsonl", OLD)
    with pytest.raises(PlanError, match=rf"shop\.t: batch {first} .* before any of its rows;"):
        shop.run()
