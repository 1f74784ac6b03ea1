"""A column whose type grows beyond what Iceberg promotes in place."""

from __future__ import annotations

import itertools
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from sluice.catalog.replaced_columns import replace_columns
from sluice.errors import PlanError
from sluice.operations import stages
from sluice.operations.held_files import release
from sluice.operations.reprocess import reprocess
from sluice.operations.undo import undo_batch
from sluice.types.columns import parse_type
from spark_jobs.lake import column_rewrite
from spark_jobs.values import as_type, as_type_sql
from tests.spark.connect import BIGINT, INT, TEXT, money
from tests.spark.sandbox import Sandbox, session_of
from tests.spark.widened import BATCHES, CENTS, FINE, event, unscaled

pytestmark = pytest.mark.spark

WANTED = {1: Decimal("1.0000"), 2: Decimal("2.5000"), 4: Decimal("4.1234"), 5: None}


@pytest.fixture
def lake(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Sandbox:
    """With a ledger; drivers run in here."""
    tables = {"orders": {"key": ["id"], "modes": ["current", "history"]}}
    return Sandbox(spark, tmp_path, {"format": "debezium", "tables": tables}).driven(monkeypatch)


def run(lake: Sandbox, name: str) -> str:
    lake.write(f"{name}.jsonl", BATCHES[name])
    return lake.run().batch_id


def amounts(lake: Sandbox) -> dict[int, Any]:
    return {row["id"]: row["amount"] for row in lake.rows("orders")}


QUICK = ("whole", "cents", "fine")


@pytest.mark.parametrize(
    "order",
    [
        pytest.param(order, marks=[] if order == QUICK else [pytest.mark.long])
        for order in itertools.permutations(QUICK)
    ],
    ids="-".join,
)
def test_a_table_has_the_type_that_holds_all(lake: Sandbox, order: tuple[str, ...]) -> None:
    for name in order:
        run(lake, name)
    assert lake.types("orders") == {"id": "int", "amount": "decimal(14, 4)"}
    assert amounts(lake) == WANTED
    versions = {(r["id"], r["amount"], r["_is_current"]) for r in lake.rows("orders__history")}
    assert versions == {
        (1, Decimal(1), True), (2, Decimal(2), False), (2, Decimal("2.5"), True),
        (3, Decimal(3), False), (4, Decimal("-4.25"), False), (4, Decimal("4.1234"), True),
        (5, None, True),
    }  # fmt: skip
    assert lake.agrees()


def test_late_write_of_another_widening_is_not_published(
    lake: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has seen the wider column before this one dropped it and added its own."""
    run(lake, "whole")
    name, branch, column = "lake.shop.orders", "_sluice_wider", "_sluice_wider amount"
    other = session_of(lake.spark, lake.project)
    other.conf.set("spark.sql.catalog.lake.cache-enabled", "true")
    other.sql(f"ALTER TABLE {name} ADD COLUMNS (`{column}` decimal(12,2))")
    other.sql(f"ALTER TABLE {name} CREATE BRANCH `{branch}`")
    late = other.table(name).withColumn(column, F.col("amount").cast("decimal(12,2)"))
    pending = [late]

    def meanwhile(*arguments: Any) -> None:
        while pending:
            pending.pop().writeTo(f"{name}.`branch_{branch}`").overwrite(F.lit(True))
        replace_columns(*arguments)

    monkeypatch.setattr(column_rewrite, "replace_columns", meanwhile)
    run(lake, "cents")
    assert amounts(lake) == {1: 1, 2: Decimal("2.50"), 3: 3, 4: Decimal("-4.25")}


@pytest.mark.long
def test_a_batch_that_brought_a_wider_type_is_rolled_back_and_comes_again(lake: Sandbox) -> None:
    run(lake, "whole")
    batch_id = run(lake, "cents")
    undo_batch(lake.context(), batch_id)
    assert amounts(lake) == {1: 1, 2: 2, 3: 3}
    assert lake.agrees()
    run(lake, "fine")
    release(lake.context(), batch_id)
    stages.run(lake.context())
    assert amounts(lake) == WANTED
    assert lake.agrees()


DATE = {"type": "int32", "optional": True, "name": "io.debezium.time.Date"}
WIDER = {
    "another scale": (INT, CENTS, unscaled("2.50"), "evolve"),
    "text": (DATE, TEXT, "soon", "evolve"),
    "more digits": (CENTS, money(12, 2), unscaled("123456789.01"), "additive"),
    "promoted": (INT, BIGINT, 1 << 40, "additive"),
}


@pytest.mark.long
@pytest.mark.parametrize("name", WIDER)
def test_after_the_rollback_of_a_wider_type_the_old_one_goes_on(lake: Sandbox, name: str) -> None:
    old, new, value, policy = WIDER[name]
    tables = {"orders": {"key": ["id"], "modes": ["current", "history"]}}
    more = {"on_schema_change": policy, "on_type_change": "string"}
    lake.configure(format="debezium", tables=tables, **more)
    small = unscaled("0.07") if old == CENTS else 7
    lake.write("a.jsonl", [event("c", 1, old, small, 1), event("c", 2, old, small, 2)])
    lake.run()
    types, rows = lake.types("orders"), amounts(lake)
    for _ in range(2):
        lake.write("b.jsonl", [event("u", 11, new, value, 2), event("c", 12, new, value, 4)])
        (wide, *_), failure = stages.run(lake.context())
        assert failure is None
        wider = amounts(lake)
        undo_batch(lake.context(), wide.batch_id)
        assert (lake.types("orders"), amounts(lake)) == (types, rows)
        release(lake.context(), wide.batch_id)
        (lake.root / "landing" / "b.jsonl").unlink()

    lake.write("c.jsonl", [event("u", 21, old, small, 1), event("c", 22, old, small, 5)])
    lake.run()
    assert (lake.types("orders"), amounts(lake)) == (types, rows | {5: rows[1]})
    assert lake.agrees()
    lake.write("b.jsonl", [event("u", 11, new, value, 2), event("c", 12, new, value, 4)])
    lake.run()
    assert amounts(lake) == wider | {5: wider[1]}
    assert lake.agrees()


@pytest.mark.long
def test_a_batch_that_fails_leaves_the_values(lake: Sandbox) -> None:
    run(lake, "whole")
    broken = event("c", 30, FINE, unscaled("1.0000"), 9)
    check = {"name": "none", "sql": "SELECT * FROM {table} WHERE id = 9"}
    tables = {"orders": {"key": ["id"], "modes": ["current", "history"], "checks": [check]}}
    lake.configure(format="debezium", tables=tables)
    lake.write("broken.jsonl", [broken])
    _, failure = stages.run(lake.context())
    assert "fails check none" in str(failure)
    assert {i: int(v) for i, v in amounts(lake).items()} == {1: 1, 2: 2, 3: 3}
    assert lake.agrees()


@pytest.mark.long
def test_a_type_stays_where_nothing_follows_or_rows_are_known_by_it(
    spark: SparkSession, tmp_path: Path
) -> None:
    shop = Sandbox(spark, tmp_path, {"format": "debezium", "tables": {"orders": {"key": ["id"]}}})
    shop.load_records(BATCHES["whole"])
    shop.configure(
        format="debezium", tables={"orders": {"key": ["id"]}}, on_schema_change="additive"
    )
    with pytest.raises(PlanError, match="on_schema_change is not evolve"):
        shop.load_records(BATCHES["cents"])
    keyed = Sandbox(
        spark, tmp_path / "keyed", {"format": "debezium", "tables": {"orders": {"key": ["amount"]}}}
    )
    keyed.load_records(BATCHES["whole"])
    with pytest.raises(PlanError, match="one of the key"):
        keyed.load_records(BATCHES["cents"])


TO_TEXT = ("whole", "cents", "named")


@pytest.mark.long
@pytest.mark.parametrize("order", list(itertools.permutations(TO_TEXT)), ids="-".join)
def test_on_type_change_string_makes_types_that_do_not_widen_text(
    lake: Sandbox, order: tuple[str, ...]
) -> None:
    tables = {"orders": {"key": ["id"], "modes": ["current", "history"]}}
    lake.configure(format="debezium", tables=tables, on_type_change="string")
    for name in order:
        run(lake, name)
    assert lake.types("orders") == {"id": "int", "amount": "string"}
    assert amounts(lake) == {1: "1", 2: "2.5", 3: "3", 4: "none", 6: "007"}
    versions = {(r["id"], r["amount"], r["_is_current"]) for r in lake.rows("orders__history")}
    assert versions == {
        (1, "1", True), (2, "2", False), (2, "2.5", True), (3, "3", True),
        (4, "-4.25", False), (4, "none", True), (6, "007", True),
    }  # fmt: skip
    assert lake.agrees()


def test_types_of_one_batch_become_text_alike(lake: Sandbox) -> None:
    lake.configure(format="debezium", tables={"orders": {"key": ["id"]}}, on_type_change="string")
    lake.load_records([event for name in reversed(TO_TEXT) for event in BATCHES[name]])
    assert lake.types("orders") == {"id": "int", "amount": "string"}
    assert amounts(lake) == {1: "1", 2: "2.5", 3: "3", 4: "none", 6: "007"}


@pytest.mark.long
def test_on_type_change_quarantine_quarantines_types_that_do_not_widen(lake: Sandbox) -> None:
    tables = {"orders": {"key": ["id"]}}
    lake.configure(format="debezium", tables=tables, on_type_change="quarantine", max_bad_share=1.0)
    run(lake, "whole")
    lake.write("named.jsonl", [*BATCHES["named"], event("c", 17, TEXT, None, 7)])
    lake.run()
    run(lake, "cents")
    assert lake.types("orders") == {"id": "int", "amount": "decimal(12, 2)"}
    assert amounts(lake) == {1: 1, 2: Decimal("2.50"), 3: 3, 4: Decimal("-4.25"), 7: None}
    rejected = [(r["reason"], r["detail"]) for r in lake.quarantined()]
    details = [f"amount: '{text}' does not fit int" for text in ("007", "none")]
    assert sorted(rejected) == [("does_not_fit", detail) for detail in details]
    lake.configure(format="debezium", tables=tables, on_type_change="string", max_bad_share=1.0)
    reprocess(lake.context())
    assert amounts(lake) == {1: "1", 2: "2.5", 3: "3", 4: "none", 6: "007", 7: None}
    assert lake.agrees()


def test_types_that_do_not_widen_stop_the_batch_by_default(lake: Sandbox) -> None:
    run(lake, "whole")
    lake.write("named.jsonl", [event("u", 14, INT, 9, 1), *BATCHES["named"]])
    _, failure = stages.run(lake.context())
    assert "'amount': int and string do not fit together" in str(failure)
    assert "on_type_change: string" in str(failure)
    shown = [line for line in str(failure).split("\n") if line.startswith("seen in ")]
    assert shown == [
        f'seen in named.jsonl, record {at}: {{"amount":"{text}"}}'
        for at, text in ((2, "none"), (3, "007"))
    ]


@pytest.mark.parametrize(
    ("value", "ways", "text"),
    [
        ("100", ["int", "bigint", "decimal(12,2)"], "100"),
        ("100.50", ["decimal(5,2)", "decimal(12,4)"], "100.5"),
        ("-0.00", ["decimal(3,2)"], "0"),
        ("0.1", ["float", "double"], "0.10000000149011612"),
        ("true", ["boolean"], "true"),
        ("0001-01-01", ["date"], "0001-01-01"),
        ("2026-01-31 23:59:59.500", ["timestamp"], "2026-01-31 23:59:59.5"),
    ],
    ids=lambda value: str(value),
)
def test_a_text_is_the_same_by_whatever_types_it_comes(
    spark: SparkSession, value: str, ways: list[str], text: str
) -> None:
    read = F.lit(value).cast(ways[0])
    found = [as_type(read, parse_type(ways[0]), "string")]
    found.append(F.expr(as_type_sql(f"CAST('{value}' AS {ways[0]})", ways[0], "string")))
    for before, after in itertools.pairwise(ways):
        read = as_type(read, parse_type(before), after)
        found.append(as_type(read, parse_type(after), "string"))
    assert set(spark.range(1).select(F.array(*found)).collect()[0][0]) == {text}
