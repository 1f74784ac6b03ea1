"""A source that restarts its positions is noticed, before its events are lost as late ones."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from sluice.errors import AuditFailedError, ResetSuspectedError
from tests.spark.sandbox import Sandbox, total

pytestmark = pytest.mark.spark

KEYED: dict[str, Any] = {"format": "debezium", "tables": {"orders": {"key": ["id"]}}}


def event(
    ident: int, lsn: int, minute: int, value: str, op: str = "u", table: str = "orders"
) -> dict[str, Any]:
    """A PostgreSQL event; a deleted row has no value."""
    row = {"id": ident, "v": value}
    source = {
        "connector": "postgresql", "db": "shop", "schema": "public", "table": table,
        "lsn": lsn, "ts_ms": minute * 60_000, "snapshot": "true" if op == "r" else "false",
    }  # fmt: skip
    before, after = (row, None) if op == "d" else (None, row)
    return {"op": op, "before": before, "after": after, "source": source, "ts_ms": 0}


OLD = [event(ident, 1000 + ident, ident, "old", "c") for ident in range(1, 7)]


@pytest.fixture
def shop(spark: SparkSession, tmp_path: Path) -> Sandbox:
    """A shop whose six orders are loaded."""
    made = Sandbox(spark, tmp_path, KEYED)
    made.load_records(OLD, "old.jsonl")
    return made


def values(shop: Sandbox) -> dict[int, str]:
    return {int(row["id"]): row["v"] for row in shop.rows("orders")}


def test_a_source_that_counts_anew_stops_the_batch_until_its_epoch_is_raised(
    shop: Sandbox,
) -> None:
    reset = [event(n, n, 60 + n, "new") for n in range(1, 5)]
    reset += [event(5, 5, 70, "", "d"), event(7, 7, 71, "new", "c")]
    anew = shop.write("anew.jsonl", reset)
    with pytest.raises(
        AuditFailedError,
        match=r"position_reset_suspected: 5 of 6 .* FROM shop__cdc\.orders__changes .*-epoch p",
    ):
        shop.stage(anew)
    assert values(shop) == dict.fromkeys(range(1, 7), "old")
    shop.configure(**KEYED, epoch=1)
    shop.load(anew)
    assert values(shop) == dict.fromkeys((1, 2, 3, 4, 7), "new") | {6: "old"}


def test_position_reset_in_one_table_stops_all_tables_of_the_batch(
    shop: Sandbox,
) -> None:
    """Half of the notes are new, so that they alone would pass: the rest would be late for good."""
    both = {**KEYED, "tables": {**KEYED["tables"], "notes": {"key": ["id"]}}}
    shop.configure(**both, consistency="table")
    shop.load_records([event(n, 2000 + n, n, "old", "c", "notes") for n in (1, 2)], "notes.jsonl")
    notes = [event(n, n, 60, "new", "c" if n > 2 else "u", "notes") for n in range(1, 5)]
    anew = shop.write("anew.jsonl", [*notes, *(event(n, n, 60, "new") for n in range(1, 5))])
    with pytest.raises(ResetSuspectedError) as caught:
        shop.stage(anew)
    assert caught.value.tables == {}


def test_on_position_reset_accept_loads_the_events_as_late(shop: Sandbox) -> None:
    shop.configure(**KEYED, on_position_reset="accept")
    late = shop.load_records([event(n, n, 60 + n, "new") for n in range(1, 5)])
    assert total(late).late == 4
    assert values(shop) == dict.fromkeys(range(1, 7), "old")


@pytest.mark.parametrize(
    "records",
    [
        [event(n, n, 0, "older") for n in range(1, 7)],
        [event(n, n, 60, "loaded", "r") for n in range(1, 7)],
        [event(1, 1, 60, "newer"), event(2, 2000, 60, "old")],
    ],
    ids=["late files", "a second full load", "half of them only"],
)
def test_late_events_are_no_reset(shop: Sandbox, records: list[dict[str, Any]]) -> None:
    assert total(shop.load_records(records)).late >= 1
    assert values(shop) == dict.fromkeys(range(1, 7), "old")


def test_a_deleted_row_remembers_when_it_was_deleted(shop: Sandbox) -> None:
    shop.load_records([event(n, 2000 + n, 10, "", "d") for n in range(1, 7)])
    with pytest.raises(AuditFailedError, match="position_reset_suspected: 6 of 6"):
        shop.stage(shop.write("anew.jsonl", [event(n, n, 60, "new", "c") for n in range(1, 7)]))
    shop.load_records([event(n, n, 9, "older", "c") for n in range(1, 7)], "late.jsonl")
    assert values(shop) == {}
