"""Modes that are switched off and on again: history and events get all that they lack, whatever
happened between."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from sluice.names import PROP_FLOOR
from sluice.operations import refolding
from tests.spark import renamed, typed
from tests.spark.connect import TEXT
from tests.spark.described import BATCHES as DEFAULTED
from tests.spark.described import BEFORE, NEW, PLAIN, event
from tests.spark.renamed import BATCHES as RENAMED
from tests.spark.renamed import PLACEHOLDER
from tests.spark.sandbox import Sandbox
from tests.spark.shop import Shop, orders
from tests.spark.shop import event as papers

pytestmark = pytest.mark.spark

Drive = Callable[..., Sandbox]

ON, OFF = ["current", "history", "append"], ["current"]
KEEP_LITTLE = {"small_files": 2, "delete_share": 0.1, "snapshot_days": 1}


def pipeline(modes: Sequence[str]) -> dict[str, Any]:
    table = {"key": ["id"], "columns": {"id": "int"}, "modes": list(modes)}
    return {"format": "debezium", "tables": {"orders": table}, "maintenance": KEEP_LITTLE}


@pytest.fixture
def drive(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Drive:
    """Runs batches of events of one table, each with its modes, on one lake."""
    shop = Sandbox(spark, tmp_path, pipeline(ON)).driven(monkeypatch)

    def run(*batches: tuple[Sequence[str], list[Any]]) -> Sandbox:
        for number, (modes, events) in enumerate(batches):
            shop.configure(**pipeline(modes))
            shop.write(f"{number}.jsonl", events)
            shop.run()
        return shop

    return run


@pytest.mark.long
def test_a_new_column_beside_events_that_are_there(drive: Drive) -> None:
    late = event("c", 5, BEFORE | {"x": TEXT}, id=77, v="v", x="late")
    shop = drive((ON, DEFAULTED["first"]), (ON, DEFAULTED["added"]), (ON, [late]))
    assert len(shop.rows("orders__events")) == len(DEFAULTED["first"] + DEFAULTED["added"]) + 1
    assert shop.agrees()


@pytest.mark.long
def test_rename_while_modes_are_off_doubles_no_event(drive: Drive) -> None:
    renames = RENAMED["before"] + RENAMED["since"]
    last = renamed.event("c", 40, id=9, name="on")
    shop = drive((ON, renames), (OFF, RENAMED["renamed"]), (ON, [last]))
    places = [row["_position"] for row in shop.rows("orders__events", metadata=True)]
    assert len(places) == len(set(places)) > len(renames)
    assert shop.agrees()


@pytest.mark.long
def test_default_added_while_modes_are_off_doubles_no_event(drive: Drive) -> None:
    first = [*DEFAULTED["first"], event("u", 30, PLAIN, id=2, v="z", status="done")]
    meanwhile = event("u", 10, NEW, id=2, v="y", status="open")
    last = event("c", 40, NEW, id=9, v="on", status="q")
    shop = drive((ON, first), (OFF, [meanwhile]), (ON, [last]))
    assert len(shop.rows("orders__events")) == len(first) + 2
    assert shop.agrees()


def texts_of(lake: Sandbox, table: str) -> set[tuple[int, str]]:
    return {(row["id"], row["status"]) for row in lake.rows(table)}


@pytest.mark.long
def test_maintenance_while_modes_are_off_loses_no_version_and_no_event(
    spark: SparkSession, tmp_path: Path
) -> None:
    shop = Shop(spark, tmp_path, pipeline(ON))
    shop.run(*orders(("c", 10, 1, "a"), ("c", 11, 2, "a")))
    shop.run(*orders(("u", 12, 1, "b")))
    shop.configure(**pipeline(OFF))
    shop.run(*orders(("u", 20, 1, "missed"), ("c", 21, 3, "missed")))
    for days in (2, 4):  # the second expires what the first one replaced
        steps = shop.maintain(after=timedelta(days=days)).steps
        rewritten = {step.table for step in steps if step.step == "data files"}
        assert days > 2 or {"shop.orders__history", "shop.orders__events"} <= rewritten
    shop.configure(**pipeline(ON))
    shop.run(*orders(("c", 30, 4, "on")))
    wanted = {(1, "a"), (2, "a"), (1, "b"), (1, "missed"), (3, "missed"), (4, "on")}
    assert texts_of(shop, "orders__history") == wanted
    assert texts_of(shop, "orders__events") == wanted


@pytest.mark.long
@pytest.mark.parametrize("before", [ON, OFF], ids=["off and on", "on for the first time"])
def test_value_not_sent_since_maintenance_is_taken_from_the_row(
    spark: SparkSession, tmp_path: Path, before: Sequence[str]
) -> None:
    """The changes that brought it are forgotten."""

    def document_event(op: str, position: int, ident: int, body: str, title: str) -> str:
        return papers(op, "orders", position, id=ident, body=body, title=title)

    shop = Shop(spark, tmp_path, pipeline(before))
    shop.run(document_event("c", 10, 1, "a", "first"), document_event("c", 11, 2, "c", "first"))
    shop.configure(**pipeline(OFF))
    shop.run(document_event("u", 12, 1, "b", "second"))
    shop.maintain()
    floor = shop.table("orders").properties[PROP_FLOOR]
    shop.run(
        document_event("u", 20, 1, PLACEHOLDER, "third"),
        document_event("u", 21, 2, PLACEHOLDER, "second"),
    )
    shop.run(document_event("u", 22, 2, "d", PLACEHOLDER))
    shop.configure(**pipeline(ON))
    shop.run(
        document_event("u", 15, 1, PLACEHOLDER, "late"), document_event("u", 30, 3, "x", "new")
    )
    found = [(r["id"], r["body"], r["title"]) for r in shop.rows("orders__history")]
    assert {(1, "b", "late"), (1, "b", "third"), (2, "d", "second"), (3, "x", "new")} < set(found)
    newest = sorted((r["id"], r["body"], r["title"]) for r in shop.rows("orders"))
    assert newest == [(1, "b", "third"), (2, "d", "second"), (3, "x", "new")]
    shop.run(document_event("u", 16, 1, PLACEHOLDER, "later"))
    versions = shop.rows("orders__history", metadata=True)
    assert {r["body"] for r in versions if r["id"] == 1 and r["_position"] > floor} == {"b"}


@pytest.mark.long
@pytest.mark.parametrize("before", [ON, OFF], ids=["off and on", "on for the first time"])
def test_columns_that_later_changes_do_not_list_are_taken_from_the_row(
    spark: SparkSession, tmp_path: Path, before: Sequence[str]
) -> None:
    """In a format whose changes say which columns they carry, not which they leave out."""

    def record(scn: int, op: str, data: dict[str, str], **key: dict[str, str]) -> str:
        meta = {"op": op, "table": "O.ORDERS", "time": "2017-06-16T14:24:34", "scn": str(scn),
                "trans": "7.0.4", "seq": 1, "idx": "1/9"}  # fmt: skip
        return json.dumps({"meta": meta, "data": data, **key})

    def with_modes(modes: Sequence[str]) -> dict[str, Any]:
        table = {"key": ["ID"], "modes": list(modes)}
        return {"format": "shareplex", "tables": {"O.ORDERS": table}, "maintenance": KEEP_LITTLE}

    shop = Shop(spark, tmp_path, with_modes(before))
    shop.run(record(10, "ins", {"ID": "1", "A": "a", "B": "b", "C": "c"}))
    shop.configure(**with_modes(OFF))
    shop.maintain()
    shop.run(record(20, "upd", {"A": "x"}, key={"ID": "1"}))
    shop.run(record(30, "upd", {"B": "y"}, key={"ID": "1"}))
    shop.configure(**with_modes(ON))
    shop.run(record(40, "ins", {"ID": "9", "A": "n", "B": "n", "C": "n"}))
    rows = shop.rows("ORDERS__history")
    found = {(r["A"], r["B"], r["C"], r["_is_current"]) for r in rows if r["ID"] == "1"}
    assert {("x", "y", "c", True)} == {row for row in found if row[-1]}
    assert {row[2] for row in found} == {"c"}


@pytest.mark.long
def test_a_batch_undone_between_does_not_close_the_gap(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop = Sandbox(spark, tmp_path, pipeline(ON)).driven(monkeypatch)

    def run(name: str, *changes: Any) -> str:
        shop.write(name, orders(*changes))
        return shop.run().batch_id

    first = run("1", ("c", 10, 1, "a"), ("c", 11, 2, "a"))
    run("2", ("c", 12, 5, "stays"))
    shop.configure(**pipeline(OFF))
    run("3", ("u", 20, 1, "missed"), ("c", 21, 3, "missed"))
    refolding.undo_or_refold(shop.context(), first)
    assert shop.agrees()
    shop.configure(**pipeline(ON))
    run("4", ("c", 30, 4, "on"))
    wanted = {(5, "stays"), (1, "missed"), (3, "missed"), (4, "on")}
    assert texts_of(shop, "orders__history") == wanted
    assert texts_of(shop, "orders__events") == wanted
    assert shop.agrees()


@pytest.mark.long
def test_history_and_events_catch_up_after_the_target_was_rewritten(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As where a rename is told too late for the rows that are stored."""

    def modes(asked: Sequence[str]) -> dict[str, Any]:
        return {"format": "debezium", "tables": {"orders": {"key": ["id"], "modes": list(asked)}}}

    def row(op: str, position: int, ident: int, **names: str) -> dict[str, Any]:
        return typed.event(op, position, ident, **{n: (TEXT, v) for n, v in names.items()})

    def rename(position: int, old: str, new: str) -> dict[str, Any]:
        return renamed.ddl(position, f"ALTER TABLE orders RENAME COLUMN {old} TO {new}")

    shop = Sandbox(spark, tmp_path, modes(ON)).driven(monkeypatch)
    first = [
        row("c", 1, 1, size="girth", weight="size"),
        row("u", 15, 3, girth="girth", weight="size"),
        rename(20, "weight", "size"),
        row("u", 21, 4, girth="girth", size="size"),
    ]
    shop.run_each(first)
    shop.configure(**modes(OFF))
    late = [rename(10, "size", "girth"), row("c", 30, 8, girth="girth", size="size")]
    shop.run_each(late)
    shop.configure(**modes(ON))
    shop.run_each([row("c", 40, 9, girth="girth", size="size")])
    for table in ("orders", "orders__history", "orders__events"):
        found = sorted((r["id"], r["girth"], r["size"]) for r in shop.rows(table))
        assert found == [(ident, "girth", "size") for ident in (1, 3, 4, 8, 9)], table
    assert shop.agrees()


@pytest.mark.long
def test_batch_of_ddl_alone_catches_up_history_and_events(drive: Drive) -> None:
    """To give stored rows another name is to write the tables: they must not pass for whole."""
    old = {"id": 1, "title": "untouched"}
    missed = [
        renamed.event("u", 5, old, id=1, title="missed"),
        renamed.event("c", 6, id=6, title="missed"),
    ]
    shop = drive((ON, RENAMED["before"]), (OFF, missed), (ON, RENAMED["renamed"]))
    for table in ("orders__history", "orders__events"):
        found = {(row["id"], row["name"]) for row in shop.rows(table)}
        assert {(1, "untouched"), (1, "missed"), (6, "missed")} < found, table
    assert shop.agrees()


@pytest.mark.long
def test_rename_while_modes_are_off_renames_forgotten_rows_too(
    spark: SparkSession, tmp_path: Path
) -> None:
    """By the floor the rows of the tables stand for their events, under the names of then."""

    def modes(asked: Sequence[str]) -> dict[str, Any]:
        keep = {"tombstone_days": 30, "changelog_days": 30}
        return {**pipeline(asked), "maintenance": keep}

    shop = Shop(spark, tmp_path, modes(ON))
    gone: dict[str, Any] = {"id": 2, "title": "two"}
    first = [renamed.event("c", 1, id=1, title="one"), renamed.event("c", 2, **gone)]
    shop.run(*map(json.dumps, [*first, renamed.event("d", 3, gone)]))
    shop.maintain()
    assert shop.table("orders").properties[PROP_FLOOR]
    shop.configure(**modes(OFF))
    shop.run(*map(json.dumps, [renamed.ddl(10), renamed.event("c", 11, id=4, name="four")]))
    shop.configure(**modes(ON))
    shop.run(json.dumps(renamed.event("c", 20, id=9, name="nine")))
    for table in ("orders__history", "orders__events"):
        begun = [(r["id"], r["name"]) for r in shop.rows(table) if r.get("_op") != "delete"]
        assert sorted(begun, key=str) == [(1, "one"), (2, "two"), (4, "four"), (9, "nine")], table
