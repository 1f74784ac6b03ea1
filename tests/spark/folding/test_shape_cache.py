"""Batches with known shapes, and batches wholly above the stored rows: the short ways."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from sluice import names
from spark_jobs.decoding import changelog_rows, record_rules
from spark_jobs.merging import merge
from spark_jobs.planning.discover import discover
from spark_jobs.session import DEFAULTS
from tests.spark.sandbox import Sandbox, total

pytestmark = pytest.mark.spark

TABLES: dict[str, Any] = {"s.orders": {"key": ["id"], "columns": {"id": "bigint"}}}
Row = dict[str, Any]


@pytest.fixture
def lake(spark: SparkSession, tmp_path: Path) -> Sandbox:
    """One table, of which two rows are published."""
    sandbox = Sandbox(spark, tmp_path, {"format": "debezium", "tables": TABLES})
    sandbox.load_records([event(10, after=order(1, "a")), event(11, after=order(2, "b"))])
    return sandbox


def order(ident: int, note: str, **more: Any) -> Row:
    return {"id": ident, "note": note, **more}


def event(
    lsn: int, before: Row | None = None, after: Row | None = None, table: str = "orders"
) -> Row:
    op = "d" if after is None else "c" if before is None else "u"
    source = {"connector": "postgresql", "db": "d", "schema": "s", "table": table, "lsn": lsn}
    return {"op": op, "before": before, "after": after, "source": source, "ts_ms": 1}


def streamed(connector: str, **place: Any) -> Row:
    """An event of another connector, which has another order."""
    source = {"connector": connector, "db": "d", "schema": "s", "table": "orders"} | place
    return event(0, after=order(8, "other")) | {"source": source}


def notes(sandbox: Sandbox) -> dict[int, str]:
    return {row["id"]: row["note"] for row in sandbox.rows("orders")}


def refuse(*_: object) -> None:
    raise AssertionError("the long way was taken")


@pytest.fixture
def no_look_ahead(lake: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(record_rules, "discover", refuse)


@pytest.mark.usefixtures("no_look_ahead")
def test_known_shapes_are_decoded_in_one_pass(lake: Sandbox) -> None:
    records = [
        event(20, before=order(1, "a"), after=order(1, "again")),
        event(21, before=order(2, "b"), after=order(2, "changed")),
        event(22, after=order(4, "new")),
        event(23, before=order(4, "new")),
        {"ts_ms": 5},
    ]
    counts = total(lake.load_records(records))
    assert notes(lake) == {1: "again", 2: "changed"}
    assert (counts.read, counts.applied, counts.superseded, counts.ignored) == (5, 3, 1, 1)


def test_decoding_methods_stay_below_the_jvms_compile_limit(
    lake: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Above the limit Spark does without its own compiler, and the JVM without its."""
    lake.spark.conf.set("spark.sql.codegen.wholeStage", "true")
    lake.spark.conf.set("spark.sql.codegen.factoryMode", "FALLBACK")
    made: list[DataFrame] = []
    typed_changes = changelog_rows.typed_changes

    def keep(*arguments: Any) -> DataFrame:
        made.append(typed_changes(*arguments))
        return made[-1]

    monkeypatch.setattr(changelog_rows, "typed_changes", keep)
    lake.load_records([event(20, before=order(1, "a"), after=order(1, "again"))])
    (frame,) = made
    plan = frame._jdf.queryExecution().executedPlan()
    debug = lake.spark._jvm.org.apache.spark.sql.execution.debug  # type: ignore[union-attr]
    stages = getattr(getattr(debug, "package$"), "MODULE$").codegenStringSeq(plan)
    sizes = [stages.apply(i)._3().maxMethodCodeSize() for i in range(stages.size())]
    assert sizes
    assert max(sizes) < int(DEFAULTS["spark.sql.codegen.hugeMethodLimit"])


@pytest.mark.long
def test_key_changes_are_decoded_in_one_pass_after_earlier_ones(
    lake: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake.load_records([event(20, before=order(1, "a"), after=order(3, "moved"))])
    assert notes(lake) == {2: "b", 3: "moved"}
    monkeypatch.setattr(record_rules, "discover", refuse)
    counts = total(lake.load_records([event(30, before=order(3, "moved"), after=order(4, "on"))]))
    assert notes(lake) == {2: "b", 4: "on"}
    assert (counts.read, counts.applied) == (1, 1)


def test_misfits_of_known_shapes_are_quarantined(lake: Sandbox, no_look_ahead: None) -> None:
    records = [event(20, after=order(5, "ok")), event(21, after={"id": "x5", "note": "bad"})]
    counts = total(lake.load_records(records))
    assert (counts.read, counts.applied, counts.quarantined) == (2, 1, 1)
    assert [row["reason"] for row in lake.quarantined()] == ["does_not_fit"]
    assert notes(lake) == {1: "a", 2: "b", 5: "ok"}


def test_a_bad_record_is_found_behind_white_space(lake: Sandbox) -> None:
    """In a file whose name Spark spells in another way."""
    good = (event(lsn, after=order(lsn, "c")) for lsn in (12, 13))
    key = "odd name %20+ü#.jsonl"
    counts = total(lake.load_records([next(good), " \t", "{cut", next(good)], key))
    assert (counts.read, counts.applied, counts.quarantined) == (3, 2, 1)
    (row,) = lake.quarantined()
    assert (row["file"], row["record"], row["raw"]) == (key, 2, b"{cut")


@pytest.mark.parametrize(
    ("record", "quarantined"),
    [
        (event(21, after=order(6, "more", colour="red")), 0),
        pytest.param(event(21, after={"id": 6}), 0, marks=pytest.mark.long),
        pytest.param(event(21, after={"x": 1}, table="others"), 0, marks=pytest.mark.long),
        ("{broken", 1),
        pytest.param(event(21) | {"op": "x"}, 1, marks=pytest.mark.long),
        pytest.param(
            event(21, before=order(2, "b"), after=order(8, "moved")), 0, marks=pytest.mark.long
        ),
        pytest.param(
            {"schema": None, "payload": event(21, after=order(8, "enveloped"))},
            0,
            marks=pytest.mark.long,
        ),
        pytest.param(streamed("mysql", file="binlog.000001", pos=7), 0, marks=pytest.mark.long),
        (event(21, after=order(8, "__debezium_unavailable_value")), 0),
        pytest.param(
            {"source": {"connector": "mysql"}, "databaseName": "d", "ddl": "DROP TABLE t"},
            0,
            marks=pytest.mark.long,
        ),
    ],
    ids=[
        "new column",
        "column left out",
        "table not asked for",
        "not JSON",
        "unknown op",
        "key changed",
        "another form",
        "another connector",
        "value left out",
        "DDL",
    ],
)
def test_unknown_shapes_fall_back_to_discovery(
    lake: Sandbox, monkeypatch: pytest.MonkeyPatch, record: object, quarantined: int
) -> None:
    looked: list[int] = []
    monkeypatch.setattr(record_rules, "discover", lambda e: looked.append(1) or discover(e))
    counts = total(lake.load_records([event(20, after=order(7, "c")), record]))
    assert looked
    assert (counts.read, counts.quarantined) == (2, quarantined)
    assert notes(lake)[7] == "c"
    assert ("colour" in lake.types("orders")) == ("colour" in str(record))


def test_values_are_found_by_name_in_any_order_of_columns(lake: Sandbox) -> None:
    """Those of the usual order, which most records have, are taken by place."""
    usual = event(20, before=order(2, "b"), after=order(2, "usual", colour="red"))
    other = event(21, after={"colour": "blue", "note": "other", "id": 6})
    lake.load_records([usual, other, event(22, after=order(7, "short"))])
    found = {row["id"]: (row["note"], row["colour"]) for row in lake.rows("orders")}
    assert found[2] == ("usual", "red")
    assert found[6] == ("other", "blue")
    assert found[7] == ("short", None)


def test_a_batch_above_all_rows_is_not_compared_with_them(
    lake: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(merge, "_merge_keyed", refuse)
    repeated = event(30, after=order(1, "newer"))
    counts = total(lake.load_records([repeated, repeated, event(31, before=order(2, "b"))]))
    assert (counts.read, counts.applied, counts.duplicate) == (3, 2, 1)
    assert notes(lake) == {1: "newer"}


def test_a_repeated_event_beside_a_new_column_is_a_duplicate(lake: Sandbox) -> None:
    """The stored row, of the same position, has no such column yet."""
    repeated = event(11, after=order(2, "b"))
    counts = total(lake.load_records([repeated, event(40, after=order(5, "c", colour="red"))]))
    assert (counts.read, counts.applied, counts.duplicate) == (2, 1, 1)
    assert {r["id"]: r["colour"] for r in lake.rows("orders")} == {1: None, 2: None, 5: "red"}


def test_an_older_batch_is_compared_and_loses(lake: Sandbox) -> None:
    lake.load_records([event(30, after=order(1, "newer")), event(31, before=order(2, "b"))])
    late = [event(15, after=order(1, "late")), event(16, after=order(2, "late")),
            event(17, after=order(3, "kept"))]  # fmt: skip
    counts = total(lake.load_records(late))
    assert (counts.read, counts.applied, counts.late) == (3, 1, 2)
    assert notes(lake) == {1: "newer", 3: "kept"}
    known = lake.catalog.load_table(("shop", "orders")).properties[names.PROP_HIGHEST]
    assert known.startswith("0000.2.0231."), known


def test_a_rollback_leaves_the_mark_and_the_rows_are_compared(lake: Sandbox) -> None:
    """A mark that is too high costs a comparison, nothing else."""
    result = lake.load_records([event(90, after=order(1, "newer"))])
    lake.rollback(result)
    assert notes(lake) == {1: "a", 2: "b"}
    lake.load_records([event(50, after=order(1, "between"))])
    assert notes(lake) == {1: "between", 2: "b"}


@pytest.mark.parametrize("first", ["plain", "schema"])
def test_keyed_records_of_another_form_are_no_tombstones(lake: Sandbox, first: str) -> None:
    def keyed(lsn: int, ident: int, form: str) -> Row:
        value, key = event(lsn, after=order(ident, form)), {"id": ident}
        if form == "plain":
            return {"key": key, "value": value}
        wrap = {"schema": {}, "payload": key}, {"schema": {}, "payload": value}
        return dict(zip(("key", "value"), wrap, strict=True))

    second = "schema" if first == "plain" else "plain"
    files = [
        lake.write("a.jsonl", [keyed(30, 5, first)]),
        lake.write("b.jsonl", [keyed(31, 6, second), {"key": {"id": 9}, "value": None}]),
    ]
    counts = total(lake.load(*files))
    assert (counts.read, counts.applied, counts.ignored) == (3, 2, 1)
    assert notes(lake) == {1: "a", 2: "b", 5: first, 6: second}
