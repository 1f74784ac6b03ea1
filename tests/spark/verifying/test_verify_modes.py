"""verify: what a table's modes make is compared too, each table of it on its own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from sluice.verification import Comparison
from spark_jobs.lake.cut import Cutter
from spark_jobs.verifying.changelogs import verify
from tests.spark.dialects.debezium import PLACEHOLDER
from tests.spark.notes import event, pipeline, truncate
from tests.spark.sandbox import NAMESPACE, Sandbox

pytestmark = pytest.mark.spark

MODES = ["soft_delete", "history", "append"]
EVENTS: list[Any] = [
    event(1, 1, "a", body="long"),
    event(2, 2, "b", body="long"),
    event(3, 1, "c", body=PLACEHOLDER),
    event(4, 2),
    truncate(5),
    event(6, 3, "d", body="long"),
    event(7, 3, "e", body=PLACEHOLDER),
]


@pytest.fixture
def lake(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Sandbox:
    """One table in three modes, its events in two batches, the newer ones first."""
    shop = Sandbox(spark, tmp_path, pipeline(MODES)).driven(monkeypatch)
    for number, batch in enumerate((EVENTS[3:], EVENTS[:4])):
        shop.write(f"{number}.jsonl", batch)
        shop.run()
    return shop


def differing(lake: Sandbox) -> dict[str, Comparison]:
    cutter = Cutter(lake.catalog, lake.context().ledger, NAMESPACE)
    (report,) = verify(lake.spark, cutter, None).tables
    assert len(report.comparisons) == 5
    return {c.table: c for c in report.comparisons if not c.agrees}


@pytest.mark.long
def test_differences_are_reported_for_each_table_of_the_modes(lake: Sandbox) -> None:
    assert differing(lake) == {}
    deleted = [r["note"] for r in lake.rows("orders") if r["_is_deleted"]]
    assert sorted(deleted) == ["b", "c"]
    for name in ("pipeline", "batch", "attempt"):  # what the last load's session signs by
        lake.spark.conf.unset(f"spark.sql.iceberg.snapshot-property.sluice.{name}")
    lake.spark.sql("UPDATE lake.shop.orders SET note = 'x' WHERE _is_deleted AND id = 1")
    lake.spark.sql("UPDATE lake.shop.orders__history SET body = 'x' WHERE note = 'e'")
    lake.spark.sql("DELETE FROM lake.shop.orders__events WHERE _op = 'truncate'")
    found = differing(lake)
    assert {table: c.kinds for table, c in found.items()} == {
        "shop.orders with its deleted rows": {"differs": 1},
        "shop.orders__history": {"differs": 1},
        "shop.orders__events": {"missing": 1},
    }
    (version,) = found["shop.orders__history"].shown
    assert version.columns == ("body",)


@pytest.mark.long
def test_a_column_that_no_event_carried_is_known_to_be_null(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a row all of whose events are partial; maintenance has forgotten nothing."""
    shop = Sandbox(spark, tmp_path, pipeline(MODES)).driven(monkeypatch)
    changes = [event(1, 1, "a", body=PLACEHOLDER), event(2, 1, "b", body=PLACEHOLDER), event(3, 1)]
    shop.run_each([*changes, event(4, 2, "c", body="long")])
    assert differing(shop) == {}
    for name in ("pipeline", "batch", "attempt"):
        shop.spark.conf.unset(f"spark.sql.iceberg.snapshot-property.sluice.{name}")
    for table, note in (("orders", "b"), ("orders__history", "a")):
        shop.spark.sql(f"UPDATE lake.shop.{table} SET body = 'x' WHERE note = '{note}'")
    assert {table: c.kinds for table, c in differing(shop).items()} == {
        "shop.orders with its deleted rows": {"differs": 1},
        "shop.orders__history": {"differs": 1},
    }


def at_another_time(told: dict[str, Any]) -> dict[str, Any]:
    """The same event once more, of which the source tells another time."""
    return told | {"source": told["source"] | {"ts_ms": 1}}


@pytest.mark.long
def test_times_are_compared_where_they_are_sure(lake: Sandbox) -> None:
    """The delete and the TRUNCATE that ended `b` and `c` are told with two times each; so is what
    ended `d`, of which the later one counts."""
    timeless = event(9, 4)
    del timeless["source"]["ts_ms"]
    again = [at_another_time(EVENTS[i]) for i in (3, 4, 6)]
    more = [event(8, 4, "f", body="long"), timeless, event(10, 5, "g", body="long"), event(11, 5)]
    lake.write("2.jsonl", [*again, *more])
    lake.run()
    assert differing(lake) == {}
    for name in ("pipeline", "batch", "attempt"):
        lake.spark.conf.unset(f"spark.sql.iceberg.snapshot-property.sluice.{name}")
    for table, column, notes in (
        ("orders", "_deleted_at", "'b', 'c', 'f', 'g'"),
        ("orders__history", "_valid_from", "'a'"),
        ("orders__history", "_valid_to", "'b', 'c', 'd', 'f'"),
    ):
        time = "TIMESTAMP '2020-01-01'"
        lake.spark.sql(f"UPDATE lake.shop.{table} SET {column} = {time} WHERE note IN ({notes})")
    found = {
        (table, shown.expected["note"], shown.columns)
        for table, comparison in differing(lake).items()
        for shown in comparison.shown
        if shown.expected is not None
    }
    assert found == {
        ("shop.orders with its deleted rows", "f", ("_deleted_at",)),
        ("shop.orders with its deleted rows", "g", ("_deleted_at",)),
        ("shop.orders__history", "a", ("_valid_from",)),
        ("shop.orders__history", "d", ("_valid_to",)),
        ("shop.orders__history", "f", ("_valid_to",)),
    }
