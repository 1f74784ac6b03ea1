"""`null_misfits`: columns in which NULL stands for a value that does not fit, counted."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from rich.console import Console

from sluice.errors import PlanError
from sluice.operations import preview as preview_module
from sluice.operations.preview import preview
from sluice.operations.reprocess import reprocess
from sluice.output.report import batch_json, show_batch
from sluice.result import BatchResult, Nulled
from tests.spark.sandbox import Sandbox

pytestmark = pytest.mark.spark
Row = dict[str, Any]
ZERO, UNSENT = "0000-00-00", "__debezium_unavailable_value"
HINTS = {"id": "int", "paid_on": "date", "n": "int"}
ASKED = {"columns": HINTS, "null_misfits": ["PAID_ON"]}
BOTH = {"key": ["id"], "modes": ["current", "history"]}


def event(lsn: int, op: str, before: Row | None, after: Row | None) -> Row:
    """A change of `t` whose events tell no types."""
    source = {"connector": "postgresql", "db": "d", "schema": "s", "table": "t", "lsn": lsn}
    return {"op": op, "before": before, "after": after, "source": source}


def row(ident: int, paid_on: Any, n: Any = 1) -> Row:
    return {"id": ident, "paid_on": paid_on, "n": n}


EVENTS = [
    event(1, "c", None, row(1, "2024-02-29")),
    event(2, "c", None, row(2, ZERO)),
    event(3, "u", row(1, "2024-02-29"), row(1, "2023-02-29", 2)),
    event(4, "u", row(2, ZERO), row(2, "2024-01-01")),
    event(5, "u", row(2, "2024-01-01"), row(3, ZERO)),
    event(6, "c", None, row(4, None)),
    event(7, "c", None, row(5, ZERO, "many")),
    # Values that were not sent are none that do not fit, in neither half.
    event(8, "u", row(4, None), row(6, UNSENT, UNSENT)),
    # But every row needs its key.
    event(9, "u", row(1, None), {"id": UNSENT, "paid_on": None, "n": 1}),
]


def lake_with(spark: SparkSession, root: Path, **table: Any) -> Sandbox:
    return Sandbox(spark, root, {"format": "debezium", "tables": {"s.t": table}})


def days(lake: Sandbox) -> dict[int, str]:
    return {r["id"]: f"{r['paid_on']} {r['n']}" for r in lake.rows("t")}


def nulled(result: BatchResult) -> tuple[Nulled, ...]:
    (table,) = result.tables
    return table.nulled


def test_misfits_become_null_and_are_counted(spark: SparkSession, tmp_path: Path) -> None:
    lake = lake_with(spark, tmp_path, **BOTH, **ASKED)
    result = lake.load_records(EVENTS)
    assert days(lake) == {1: "None 2", 3: "None 1", 6: "None 1"}
    bad = lake.quarantined()
    assert [one["reason"] for one in bad] == ["does_not_fit"] * 2
    assert sorted(one["detail"].split()[0].strip(":=") for one in bad) == ["id", "n"]
    # Those of the rows 2, 1 and 3; the row 5 is in quarantine for another column.
    assert nulled(result) == (Nulled("paid_on", 3),)
    assert BatchResult.from_json(result.to_json()) == result
    assert batch_json(result)["tables"][0]["nulled"] == {"paid_on": 3}
    console = Console(record=True, width=200)
    show_batch(console, result)
    assert "shop.t: values that did not fit are NULL: 3 of paid_on" in console.export_text()


@pytest.mark.long
def test_plan_counts_values_that_would_become_null(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake = lake_with(spark, tmp_path, **BOTH, **ASKED)
    lake.driven(monkeypatch)
    monkeypatch.setattr(preview_module, "submit", lake.look)
    lake.write("a.jsonl", EVENTS)
    (table,) = preview(lake.context()).forecast.tables
    assert table.nulled == (Nulled("paid_on", 3),)
    assert nulled(lake.run()) == table.nulled


@pytest.mark.long
def test_misfits_are_null_in_every_order_of_batches(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole, apart = (lake_with(spark, tmp_path / name, **BOTH, **ASKED) for name in ("a", "b"))
    whole.load_records(EVENTS)
    apart.driven(monkeypatch)
    results = []
    for number, part in enumerate((EVENTS[4:], EVENTS[2:5], EVENTS[:2])):
        apart.write(f"{number}.jsonl", part)
        results.append(apart.run())
    assert [sum(n.values for n in nulled(result)) for result in results] == [1, 2, 1]
    for table in ("t", "t__history"):
        assert sorted(map(str, apart.rows(table))) == sorted(map(str, whole.rows(table)))
    assert apart.agrees()


def test_rows_without_a_key_are_found_by_the_null(spark: SparkSession, tmp_path: Path) -> None:
    lake = lake_with(spark, tmp_path, key=[], **ASKED)
    lake.load_records([event(3, "d", row(1, ZERO), None)])
    rows = [event(1, "c", None, row(1, ZERO)), event(2, "c", None, row(2, ZERO))]
    result = lake.load_records([*rows, event(4, "u", row(2, ZERO), row(2, ZERO, 2))])
    assert days(lake) == {2: "None 2"}
    # One of each event: the old row of the update is none of its own.
    assert nulled(result) == (Nulled("paid_on", 3),)


def test_reprocess_loads_quarantined_misfits_as_null(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake = lake_with(spark, tmp_path, key=["id"], columns=HINTS)
    lake.driven(monkeypatch)
    lake.write("a.jsonl", EVENTS[:2])
    lake.run()
    assert days(lake) == {1: "2024-02-29 1"}
    lake.configure(format="debezium", tables={"s.t": {"key": ["id"], **ASKED}})
    reprocess(lake.context())
    assert days(lake) == {1: "2024-02-29 1", 2: "None 1"}


def test_null_misfits_refuses_key_columns_known_from_events(
    spark: SparkSession, tmp_path: Path
) -> None:
    lake = lake_with(spark, tmp_path, null_misfits=["ID"])
    keyed = {"key": {"id": 1}, "value": EVENTS[0]}
    with pytest.raises(PlanError, match=r"`null_misfits` names \['id'\] of its key"):
        lake.load_records([keyed])
