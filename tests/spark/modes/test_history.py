"""Mode history: every version of every row, whatever comes late, twice, or in which batch.

`make prove` tries more histories.
"""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from sluice.errors import PlanError
from spark_jobs.decoding import record_rules
from tests import reference
from tests.spark.deliveries import DELIVERIES, Delivery, deliver
from tests.spark.dialects import debezium
from tests.spark.dialects.debezium import PLACEHOLDER
from tests.spark.histories import KEYED, STEPS, KeyedSource, drawn, of_table
from tests.spark.notes import event, pipeline, truncate
from tests.spark.proving import proved
from tests.spark.sandbox import Sandbox
from tests.spark.versions import clock, comparable, histories, newest

pytestmark = pytest.mark.spark

SOURCES = {"keyed": ["current", "history"], "partial": ["soft_delete", "history"]}
NUMBERS = itertools.count(1)


@pytest.fixture(scope="module")
def shared(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Sandbox:
    """One lake for all examples; each has a database of its own in it."""
    tables = {name: KEYED | {"modes": modes} for name, modes in SOURCES.items()}
    pipeline = {"format": "debezium", "table_name": "{database}_{table}", "tables": tables}
    return Sandbox(spark, tmp_path_factory.mktemp("versions"), pipeline)


@proved
@example(drawn(3), Delivery(seed=4, batches=3, given_up=1, retried_last=True))
@given(st.lists(STEPS, min_size=2, max_size=2), DELIVERIES)
@pytest.mark.long
def test_versions_depend_on_the_set_of_events_alone(
    shared: Sandbox, steps: list[Any], delivery: Delivery
) -> None:
    played = [KeyedSource("keyed"), KeyedSource("partial", partial=True)]
    for source, mine in zip(played, steps, strict=False):
        for number, step in enumerate(mine):
            source.step(number, step)
    log = [change for source in played for change in source.log]
    database = f"db{next(NUMBERS)}"
    deliver(shared, debezium.DIALECT, database, log, delivery)
    for source in played:
        wanted = reference.versions(of_table(log, source.name), "id")
        assert histories(shared, f"{database}_{source.name}") == comparable(wanted), source.name
    assert newest(shared, f"{database}_partial") == comparable(
        {v.values["id"]: v for v in reference.versions(of_table(log, "partial"), "id")}.values()
    )


@pytest.fixture
def lake(spark: SparkSession, tmp_path: Path) -> Sandbox:
    """One table with its history."""
    sandbox = Sandbox(spark, tmp_path, pipeline(["current", "history"]))
    return sandbox


def versions_of(sandbox: Sandbox) -> list[tuple[Any, ...]]:
    """Every version: key, note, when it began and ended."""
    rows = sandbox.rows("orders__history", metadata=True)
    found = [
        (r["id"], r["note"], clock(r["_valid_from"]), clock(r["_valid_to"]))
        for r in rows
        if r["_is_current"] == (r["_valid_to"] is None)
    ]
    assert len(found) == len(rows)
    return sorted(found, key=lambda v: (v[0], v[2]))


def test_a_late_event_falls_into_its_place(lake: Sandbox) -> None:
    lake.load_records([event(10, 1, "a"), event(30, 1, "c"), event(40, 1), event(50, 1, "e")])
    lake.load_records([event(20, 1, "b"), event(45, 1, "d"), event(60, 2, "new")])
    lake.load_records([event(47, 1), event(70, 2, "newer"), event(45, 1, "d")])
    assert versions_of(lake) == [
        (1, "a", 10, 20), (1, "b", 20, 30), (1, "c", 30, 40),
        (1, "d", 45, 47), (1, "e", 50, None),
        (2, "new", 60, 70), (2, "newer", 70, None),
    ]  # fmt: skip
    assert lake.rows("orders") != []


@pytest.mark.long
def test_a_version_goes_on_under_another_key_where_a_batch_ends_between_its_halves(
    lake: Sandbox,
) -> None:
    """The batch is above everything stored, and the old key's version is not open any more."""
    lake.load_records([event(10, 1, "a", doc="big"), event(20, 1)])
    lake.load_records([event(20, 2, "b", "c", doc=PLACEHOLDER)])
    assert versions_of(lake) == [(1, "a", 10, 20), (2, "b", 20, None)]
    rows = lake.rows("orders__history") + lake.rows("orders")
    assert [r["doc"] for r in rows] == ["big"] * 3


@pytest.mark.long
def test_a_truncate_ends_the_versions_below_it_late_too(lake: Sandbox) -> None:
    lake.load_records([event(10, 1, "a"), event(20, 2, "b"), event(50, 2, "c")])
    lake.load_records([truncate(30)])
    assert versions_of(lake) == [(1, "a", 10, 30), (2, "b", 20, 30), (2, "c", 50, None)]
    lake.load_records([event(25, 1, "late"), event(60, 1, "again")])
    assert versions_of(lake) == [
        (1, "a", 10, 25), (1, "late", 25, 30), (1, "again", 60, None),
        (2, "b", 20, 30), (2, "c", 50, None),
    ]  # fmt: skip


@pytest.mark.long
def test_a_history_that_is_switched_on_later_has_what_was_before(lake: Sandbox) -> None:
    """And after a rollback, and after a time in which the mode was off."""
    lake.configure(**pipeline(["current"]))
    lake.load_records([event(10, 1, "a"), event(15, 2, "untouched")])
    lake.configure(**pipeline(["current", "history"]))
    first = [(1, "a", 10, 20), (1, "b", 20, None), (2, "untouched", 15, None)]
    result = lake.load_records([event(20, 1, "b")], "second.jsonl")
    assert versions_of(lake) == first
    lake.rollback(result)
    assert lake.rows("orders__history") == []
    lake.load_records([event(20, 1, "b")], "second.jsonl")
    assert versions_of(lake) == first
    lake.configure(**pipeline(["current"]))
    lake.load_records([event(30, 2, "missed")])
    assert versions_of(lake) == first
    lake.configure(**pipeline(["current", "history"]))
    lake.load_records([event(40, 3, "on")])
    assert versions_of(lake) == [
        (1, "a", 10, 20), (1, "b", 20, None),
        (2, "untouched", 15, 30), (2, "missed", 30, None), (3, "on", 40, None),
    ]  # fmt: skip


@pytest.mark.long
def test_versions_outlive_the_changelog(lake: Sandbox) -> None:
    """Maintenance expires old changes; what the history has of them stays, and takes late ones."""
    lake.load_records([event(10, 1, "a"), event(20, 1), event(30, 1, "b"), event(5, 2, "x")])
    changelog = lake.catalog.load_table(("shop__cdc", "orders__changes"))
    changelog.delete(f"_batch_id = '{lake.published[0]}'")
    lake.load_records([event(50, 1, "d"), event(60, 2, "y")])
    lake.load_records([event(40, 1, "c"), event(15, 1, "a2")])
    assert versions_of(lake) == [
        (1, "a", 10, 15), (1, "a2", 15, 20), (1, "b", 30, 40), (1, "c", 40, 50),
        (1, "d", 50, None), (2, "x", 5, 60), (2, "y", 60, None),
    ]  # fmt: skip


@pytest.mark.long
def test_a_new_column_is_added_and_the_short_ways_are_taken(
    lake: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake.load_records([event(10, 1, "a")])
    lake.load_records([event(20, 1, "b", colour="red")])
    monkeypatch.setattr(record_rules, "discover", lambda _: pytest.fail("looked through"))
    lake.load_records([event(30, 1, "c", colour="blue")])
    rows = {r["note"]: r.get("colour") for r in lake.rows("orders__history")}
    assert rows == {"a": None, "b": "red", "c": "blue"}
    assert versions_of(lake) == [(1, "a", 10, 20), (1, "b", 20, 30), (1, "c", 30, None)]


@pytest.mark.long
def test_a_failed_batch_leaves_the_history_as_it_was(lake: Sandbox) -> None:
    lake.load_records([event(10, 1, "a")])
    lake.stage(lake.write("given-up.jsonl", [event(20, 1, "b")]))
    assert versions_of(lake) == [(1, "a", 10, None)]
    staged = lake.stage(lake.write("given-up.jsonl", [event(20, 1, "b")]))
    branches = lake.catalog.load_table(("shop", "orders__history")).metadata.refs
    assert len([b for b in branches if b.startswith("batch_")]) == 1, "the older attempt's is gone"
    lake.publish(staged)
    assert versions_of(lake) == [(1, "a", 10, 20), (1, "b", 20, None)]


def test_a_table_without_a_key_has_no_history(lake: Sandbox) -> None:
    tables: dict[str, Any] = {"s.orders": {"key": [], "columns": {"id": "int"}}}
    lake.configure(format="debezium", tables=tables)
    lake.load_records([event(10, 1, "a", op="c")])
    tables["s.orders"] = {"modes": ["current", "history"]}
    lake.configure(format="debezium", tables=tables)
    with pytest.raises(PlanError, match="history in `modes` needs a key"):
        lake.load_records([event(20, 1, "b", op="c")])


def test_a_history_takes_no_other_table_s_place(spark: SparkSession, tmp_path: Path) -> None:
    tables = {f"s.{name}": {"key": ["id"]} for name in ("orders", "orders__history")}
    given = {"format": "debezium", "modes": ["current", "history"], "tables": tables}
    sandbox = Sandbox(spark, tmp_path, given)
    other = event(10, 1, "a")
    other["source"]["table"] = "orders__history"
    with pytest.raises(PlanError, match=r"both go to shop\.orders__history"):
        sandbox.load_records([event(10, 1, "a"), other])
    sandbox.load_records([event(10, 1, "a")])
    with pytest.raises(PlanError, match=r"holds the history or the events of shop\.orders"):
        sandbox.load_records([other])


@pytest.mark.long
@pytest.mark.parametrize("cut", [2, 3], ids=["between the halves", "one batch"])
def test_the_halves_of_an_update_end_a_version_at_one_place(
    spark: SparkSession, tmp_path: Path, cut: int
) -> None:
    """Whole rows in two records, of which a batch may end with the first."""
    tables = {"t": {"key": ["id"], "modes": ["current", "history"]}}
    lake = Sandbox(
        spark,
        tmp_path,
        {"format": "datahub_tuple", "format_options": {"table": "t"}, "tables": tables},
    )

    def half(number: int, op: str, flags: str, value: str) -> dict[str, Any]:
        return {
            "_sequence_id_": str(number), "_operation_type_": op, "_before_image_": flags[0],
            "_after_image_": flags[1], "id": 1, "v": value,
        }  # fmt: skip

    versions_of = [half(10, "I", "NY", "a"), half(20, "U", "YN", "a"), half(20, "U", "NY", "b")]
    lake.load_records(versions_of[:cut], "0.jsonl")
    lake.load_records(
        [*versions_of[cut:], half(30, "U", "YN", "b"), half(30, "U", "NY", "c")], "1.jsonl"
    )
    versions = sorted((r["v"], r["_position_to"]) for r in lake.rows("t__history", metadata=True))
    assert [(v, end and end[-1]) for v, end in versions] == [("a", "1"), ("b", "1"), ("c", None)]
