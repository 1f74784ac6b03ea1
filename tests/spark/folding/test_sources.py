"""Several source tables that make one target: partitions, a renamed table, shards."""

from __future__ import annotations

import copy
import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from sluice import names
from sluice.config.pipeline import Pipeline
from sluice.config.source_tables import claimants
from sluice.config.table_choice import only
from sluice.errors import PlanError
from sluice.operations import stages
from sluice.operations.selection import Selection
from sluice.operations.undo import undo_batch
from sluice.result import BatchResult
from spark_jobs.decoding import record_rules
from spark_jobs.planning.sources import as_listed, refuse_unclear
from spark_jobs.planning.table_summary import Source, TableSummary
from tests.spark import canal_messages as canal
from tests.spark.sandbox import Sandbox, driven_here, total

pytestmark = pytest.mark.spark

Row = dict[str, Any]
PARTITIONED: Row = {"key": ["id"], "columns": {"id": "bigint"}, "sources": ["public.orders_p*"]}
RENAMED: Row = {"key": ["id"], "columns": {"id": "bigint"}, "sources": ["items_old"]}
TABLES = {"public.orders": PARTITIONED, "items": RENAMED}
PROJECT: Row = {"format": "debezium", "tables": TABLES}
_LSN = itertools.count(1000)


def event(lsn: int, table: str, after: Row | None, before: Row | None = None, op: str = "") -> Row:
    source = {"connector": "postgresql", "db": "d", "schema": "public", "table": table, "lsn": lsn}
    truncate_by = op or ("d" if after is None else "u" if before else "c")
    return {"op": truncate_by, "before": before, "after": after, "source": source, "ts_ms": lsn}


def row(ident: int, note: str) -> Row:
    return {"id": ident, "note": note}


def truncate(lsn: int, table: str) -> Row:
    return event(lsn, table, None, op="t")


def notes(lake: Sandbox, table: str) -> dict[int, str]:
    return {found["id"]: found["note"] for found in lake.rows(table)}


def refuse(*_: object) -> None:
    raise AssertionError("the long way was taken")


# PostgreSQL logs a row that goes from one partition to another as a delete and an insert.
PARTITION_EVENTS = [
    event(10, "orders_p2024", row(1, "new")),
    event(11, "orders_p2025", row(2, "stays")),
    event(12, "orders", row(3, "before there were partitions")),
    event(13, "orders_p2024", None, {"id": 1}),
    event(14, "orders_p2025", row(1, "moved")),
    event(15, "orders_p2025", None, {"id": 1}),
    event(16, "orders_p2024", row(1, "moved back")),
    # Both at one place in the log.
    event(17, "orders_p2025", None, {"id": 2}),
    event(17, "orders_p2024", row(2, "moved too")),
    event(18, "orders_p2024", None, {"id": 3}),
    event(9, "items_old", row(1, "old name")),
    event(30, "items", row(1, "new name"), row(1, "old name")),
    event(31, "items", row(2, "only new")),
    event(8, "items_old", row(3, "only old")),
    event(19, "customers", row(1, "not listed")),
]
ORDERS = {1: "moved back", 2: "moved too"}
ITEMS = {1: "new name", 2: "only new", 3: "only old"}


@dataclass(frozen=True)
class Loaded:
    """All of PARTITION_EVENTS in one batch; `said` is what its first try was refused by."""

    sandbox: Sandbox
    said: str


@pytest.fixture(scope="module")
def loaded(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Loaded]:
    """Drivers run in here; of the renamed table a TRUNCATE under its old name is the first."""
    sandbox = Sandbox(spark, tmp_path_factory.mktemp("sources"), PROJECT)
    with driven_here(sandbox):
        gone = event(1, "items_old", row(9, "before the truncate"))
        sandbox.write("a.jsonl", [*PARTITION_EVENTS, truncate(2, "items_old"), gone])
        _, failure = stages.run(sandbox.context())
        sandbox.configure(**truncate_by("items", "apply"))
        run(sandbox)
        yield Loaded(sandbox, str(failure))


@pytest.fixture
def lake(loaded: Loaded) -> Iterator[Sandbox]:
    """The same lake for every test; what a test leaves unpublished is given up."""
    sandbox = loaded.sandbox
    sandbox.configure(**PROJECT)
    yield sandbox
    ctx = sandbox.context()
    for unfinished in ctx.ledger.unfinished():
        undo_batch(ctx, unfinished.batch_id)


def truncate_by(table: str, on_truncate: str) -> Row:
    """The project, with a word on TRUNCATE for one table."""
    return {**PROJECT, "tables": {**TABLES, table: {**TABLES[table], "on_truncate": on_truncate}}}


def run(sandbox: Sandbox) -> BatchResult:
    (result,), failure = stages.run(sandbox.context())
    assert failure is None
    assert total(result).balanced
    return result


def refusal(sandbox: Sandbox, *events: Row) -> str:
    """Why a batch is not published; the tables stay as they are."""
    before = [sandbox.rows(table) for table in ("orders", "items")]
    sandbox.write(f"{next(_LSN)}.jsonl", events)
    results, failure = stages.run(sandbox.context())
    assert results == []
    assert isinstance(failure, PlanError)
    assert [sandbox.rows(table) for table in ("orders", "items")] == before
    return str(failure)


def test_partitions_and_a_renamed_table_are_one_table_each(lake: Sandbox) -> None:
    assert (notes(lake, "orders"), notes(lake, "items")) == (ORDERS, ITEMS)
    tables = {name for _, name in lake.catalog.list_tables("shop")}
    assert tables == {"orders", "items"}
    orders = lake.catalog.load_table(("shop", "orders"))
    assert orders.properties[names.PROP_SOURCE] == "public.orders"


@pytest.mark.parametrize(
    "batches",
    [
        ("public", "audit"),
        ("bare", "public"),
        *(
            pytest.param(b, marks=pytest.mark.long)
            for b in [("audit", "public"), ("both",), ("public", "bare"), ("bare both",)]
        ),
    ],
    ids="-".join,
)
def test_two_tables_of_one_target_are_refused_in_whatever_batches_they_come(
    spark: SparkSession, tmp_path: Path, batches: tuple[str, ...]
) -> None:
    """They would overwrite each other's rows: only as parts of one table may they."""
    tables: Row = {"orders": {"key": ["id"], "columns": {"id": "bigint"}}}
    sandbox = Sandbox(spark, tmp_path, {"format": "debezium", "tables": tables})
    first, second = (event(n, "orders", row(1, f"of {n}")) for n in (1, 2))
    bare = copy.deepcopy(second)
    second["source"]["schema"] = "audit"
    bare["source"] |= {"db": "", "schema": ""}
    events = {"public": [first], "audit": [second], "both": [first, second],
              "bare": [bare], "bare both": [bare, first]}  # fmt: skip
    for batch in batches[:-1]:
        sandbox.load_records(events[batch])
    with pytest.raises(PlanError, match=r"both go to shop\.orders"):
        sandbox.load_records(events[batches[-1]])
    if len(batches) > 1:
        tables["orders"]["sources"] = ["public.orders", "audit.orders"]
        sandbox.configure(format="debezium", tables=tables)
        sandbox.load_records(events[batches[-1]])
        assert notes(sandbox, "orders") == {1: "of 2"}


def test_files_in_any_order_and_batches_end_in_the_same_rows(
    spark: SparkSession, tmp_path: Path
) -> None:
    sandbox = Sandbox(spark, tmp_path, PROJECT)
    sandbox.load_records(PARTITION_EVENTS[6:])
    sandbox.load_records(PARTITION_EVENTS[8::-1])
    assert (notes(sandbox, "orders"), notes(sandbox, "items")) == (ORDERS, ITEMS)


def test_a_truncate_of_one_partition_stops_a_known_batch(lake: Sandbox) -> None:
    message = refusal(lake, event(40, "orders_p2024", row(9, "x")), truncate(41, "orders_p2025"))
    assert "table d.public.orders_p2025: a TRUNCATE came of it, and it is one of the" in message
    assert (
        "Set `on_truncate` of public.orders in `tables:` to apply (it empties the whole" in message
    )


def test_a_truncate_that_may_empty_the_table_does_so_in_a_known_batch(
    lake: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(record_rules, "discover", refuse)
    events = [truncate(51, "orders_p2024"), event(52, "orders_p2025", row(5, "after it"))]

    lake.configure(**truncate_by("public.orders", "ignore"))
    lake.write("ignored.jsonl", [*events, event(50, "orders_p2024", row(4, "before it"))])
    assert total(run(lake)).ignored == 1
    assert notes(lake, "orders") == {**ORDERS, 4: "before it", 5: "after it"}

    lake.configure(**truncate_by("public.orders", "apply"))
    lake.write("applied.jsonl", events)
    run(lake)
    assert notes(lake, "orders") == {5: "after it"}
    assert notes(lake, "items") == ITEMS


def test_truncate_of_one_of_several_sources_stops_a_first_batch_without_on_truncate(
    loaded: Loaded,
) -> None:
    assert "table d.public.items_old: a TRUNCATE came of it" in loaded.said
    assert "Set `on_truncate` of items in `tables:`" in loaded.said
    assert notes(loaded.sandbox, "items") == ITEMS


@pytest.mark.long
def test_a_truncate_under_the_tables_own_name_is_the_whole_tables(lake: Sandbox) -> None:
    lake.configure(**PROJECT, on_truncate="fail")
    message = refusal(lake, truncate(60, "orders"))
    assert "table public.orders: a TRUNCATE came, and on_truncate is fail" in message


@pytest.mark.long
def test_a_source_of_two_tables_stops_the_batch(lake: Sandbox) -> None:
    lake.configure(format="debezium", tables={**TABLES, "old": {"sources": ["*_old"]}})
    message = refusal(lake, event(70, "items_old", row(1, "whose?")))
    assert "table d.public.items_old: it belongs to items and old of `tables:`" in message


def test_run_for_some_tables_is_stopped_only_by_sources_of_these_tables() -> None:
    listed = {"items": RENAMED, "old": {"sources": ["*_old"]}, "users": {"sources": ["u_*"]}}
    pipeline = a_pipeline(listed)
    items = TableSummary(Source("d", "public", "items_old"), records=1)
    users = TableSummary(Source("d", "public", "u_1"), records=1, truncates=1)
    refuse_unclear(only(pipeline, ["users"]), [items])
    refuse_unclear(only(pipeline, ["items"]), [users])
    with pytest.raises(PlanError, match="belongs to items and old"):
        refuse_unclear(only(pipeline, ["old"]), [items])
    with pytest.raises(PlanError, match=r"belongs to items(.|\n)*u_1: a TRUNCATE"):
        refuse_unclear(pipeline, [items, users])


@pytest.mark.long
def test_sources_that_are_added_later_are_filled_from_loaded_files(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The partition had a target of its own until then."""
    own = {"key": ["id"], "columns": {"id": "bigint"}}
    apart = {"public.orders": own, "public.orders_p2024": own}
    sandbox = Sandbox(spark, tmp_path, {"format": "debezium", "tables": apart}).driven(monkeypatch)
    sandbox.write("a.jsonl", PARTITION_EVENTS)
    run(sandbox)
    assert notes(sandbox, "orders") == {3: "before there were partitions"}
    before = notes(sandbox, "orders_p2024")

    sandbox.configure(**PROJECT)
    (filled,), failure = stages.run(sandbox.context(), Selection(tables=("orders",)))
    assert failure is None
    assert total(filled).balanced
    assert notes(sandbox, "orders") == ORDERS
    sandbox.write("b.jsonl", [event(90, "orders_p2024", row(90, "next"))])
    run(sandbox)
    assert notes(sandbox, "orders") == {**ORDERS, 90: "next"}
    assert notes(sandbox, "orders_p2024") == before


def test_shards_of_two_databases_are_one_table(spark: SparkSession, tmp_path: Path) -> None:
    def change(op: str, shard: tuple[str, str], *rows: Row) -> Row:
        return canal.message(op, *rows, database=shard[0], table=shard[1])

    first, second = ("db_00", "t_00"), ("db_01", "t_15")
    entry = {"sources": ["db_??.t_??"], "on_truncate": "ignore"}
    sandbox = Sandbox(
        spark, tmp_path,
        {"format": "canal", "tables": {"t": entry}, "table_name": "{database}_{table}"},
    )  # fmt: skip
    file = sandbox.write("1.jsonl", [
        change("INSERT", first, canal.row("1", "a"), canal.row("2", "b")),
        change("INSERT", second, canal.row("3", "c")),
        change("INSERT", ("db_00", "t"), canal.row("9", "no shard, but so called")),
        change("INSERT", ("db_00", "other_00"), canal.row("4", "not listed")),
    ])  # fmt: skip
    with pytest.raises(PlanError, match=r"table t: its name in `tables:` does not say its databa"):
        sandbox.load(file)
    sandbox.configure(format="canal", tables={"shop.t": entry}, table_name="{database}_{table}")
    assert total(sandbox.load(file)).ignored == 2
    sandbox.load_records([
        canal.message("TRUNCATE", isDdl=True, database="db_01", table="t_15"),
        change("DELETE", first, canal.row("1", "a")),
        change("UPDATE", second, canal.row("3", "d")),
    ], key="2.jsonl")  # fmt: skip
    assert {r["id"]: r["v"] for r in sandbox.rows("shop_t")} == {2: "b", 3: "d"}


def test_records_are_named_as_the_configuration_says_whose_they_are(spark: SparkSession) -> None:
    tables = {
        "orders": {"sources": ["orders_*", r"a\d.(b)"]},
        "shop.users": {"sources": ["*.users_?"], "on_truncate": "ignore"},
        "x.y.z": {"sources": ["z?"]},
        "archive.orders": None,
        "old": {"sources": ["*_old"]},
    }
    pipeline = a_pipeline(tables)
    expected = {
        ("d", "s", "orders_1"): ("", "", "orders"),
        ("", "", "orders"): ("", "", "orders"),
        ("d", "s", "orders"): ("", "", "orders"),
        ("d", "archive", "orders"): ("d", "archive", "orders"),
        ("d", "s", "orders_old"): ("d", "s", "orders_old"),
        ("d", "s", "Orders_1"): ("d", "s", "Orders_1"),
        ("d", "", r"a\d.(b)"): ("", "", "orders"),
        ("d", "", "a1.b"): ("d", "", "a1.b"),
        ("d", "s", "users_1"): ("", "shop", "users"),
        ("d", "", "users_1"): ("shop", "", "users"),
        ("", "s", "users_1"): ("", "shop", "users"),
        ("d", "", "users_😀"): ("shop", "", "users"),
        ("d", "", "users_1\n"): ("d", "", "users_1\n"),
        ("d", "", "zz"): ("x", "y", "z"),
        ("orders_1", "", ""): ("orders_1", "", ""),
    }
    fields = "database string, schema string, table string, op string"
    given = [tuple(part or None for part in name) for name in expected]
    ops = ("insert", None, "truncate")
    envelope = spark.createDataFrame([(*name, op) for name in given for op in ops], fields)
    named = as_listed(envelope.withColumn("n", F.struct(*envelope.columns[:3])), pipeline)
    found: dict[Any, dict[Any, Any]] = {op: {} for op in ops}
    for each in named.collect():
        is_now = (each["database"], each["schema"], each["table"])
        found[each["op"]][plain(each["n"])] = plain(is_now)
    assert found["insert"] == found[None] == expected
    kept = {("d", "s", "orders_1"), ("d", "", r"a\d.(b)"), ("d", "", "zz")}
    assert found["truncate"] == {**expected, **{name: name for name in kept}}
    for name, now in expected.items():
        belongs = claimants(pipeline.tables or {}, ".".join(filter(None, name)))
        assert now == name or belongs == [".".join(filter(None, now))]


def a_pipeline(tables: Row) -> Pipeline:
    given = {"name": "p", "format": "canal", "landing": {"url": "l"}, "namespace": "n"}
    apart = {"table_name": "{schema}_{table}", "tables": tables}
    return Pipeline.model_validate({**given, **apart})


def plain(name: Any) -> tuple[str, ...]:
    return tuple(part or "" for part in name)
