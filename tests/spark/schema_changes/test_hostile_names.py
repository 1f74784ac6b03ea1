"""Names from files are data: none is run, looked up, or leads out of its own folder."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from sluice.errors import PlanError
from spark_jobs.planning import discover
from spark_jobs.planning.name_limits import BAD_COLUMN_NAME, BAD_TABLE_NAME
from tests.spark.sandbox import NAMESPACE, Sandbox, total

pytestmark = pytest.mark.spark
PLANTED = "PLANTED-SECRET"
COLUMNS = [
    "${env:SLUICE_PLANTED}", "${spark:spark.app.name}", "{x}", "{source}", "{source.__class__}",
    "%s", "a`b", "a'b", 'a"b', "a;b", "a--b", "/*", "a.b", "a b", "a\\b", "select", "../up", "ä😀",
    "file", "block", "ordinal", "_row", "_status", "_hash", "_rank", "_records", "_winner",
    "_next", "_era", "_at", "_ended", "_bad", "t", "s", "key", "value", "image", "deleted",
]  # fmt: skip
TABLES = ["a`b", "a'b", 'a"b', "a;b", "a--b", "a?b", "a#b", "%2e%2e", "select", "{x}", "ä😀"]
BAD_TABLES = [
    "../../../pwned",
    "..",
    ".",
    "good/data",
    "a\\b",
    "a\nb",
    "a\u202eb",
    "",
    "x" * 10_000,
]
BAD_COLUMNS = ["", "a\nb", "a\u202eb", "a\u0000b", "x" * 10_000]


@pytest.fixture
def lake(spark: SparkSession, tmp_path: Path) -> Sandbox:
    """Any table of the source, keyed by `id`."""
    return Sandbox(spark, tmp_path, {"format": "debezium", "table_name": "{table}"})


def event(
    lsn: int, table: str, after: dict[str, Any], op: str = "c", **more: Any
) -> dict[str, Any]:
    source = {"connector": "postgresql", "db": "d", "schema": "s", "table": table, "lsn": lsn}
    key = {"id": after["id"]}
    value = {"op": op, "after": after, "source": source, **more}
    return {"key": key, "value": value}


def everything(root: Path) -> set[str]:
    return {str(p.relative_to(root)) for p in root.rglob("*")}


@pytest.mark.parametrize(
    "modes", [["current"], pytest.param(["soft_delete", "history"], marks=pytest.mark.long)]
)
def test_any_name_is_a_columns_name(
    lake: Sandbox, monkeypatch: pytest.MonkeyPatch, modes: list[str]
) -> None:
    monkeypatch.setenv("SLUICE_PLANTED", PLANTED)
    lake.configure(
        format="debezium", table_name="{table}", tables={"s.t": {"key": ["id"], "modes": modes}}
    )
    old, new = ({c: f"{c} {when}" for c in COLUMNS} for when in ("old", "new"))
    # The newest first, so that the others are late and are compared with what is stored.
    lake.load_records([event(30, "t", {"id": 1, **new}, "u")])
    lake.load_records([event(20, "t", {"id": 2, **old}), event(10, "t", {"id": 1, **old})])
    rows = {row["id"]: row for row in lake.rows("t")}
    assert {c: rows["1"][c] for c in COLUMNS} == new
    assert {c: rows["2"][c] for c in COLUMNS} == old
    assert PLANTED not in json.dumps([lake.types("t"), sorted(everything(lake.root))])


def test_any_visible_name_is_a_tables_name_and_the_others_are_quarantined(lake: Sandbox) -> None:
    lake.configure(format="debezium", table_name="{table}")
    before = everything(lake.root.parent)
    events = [event(n, name, {"id": n, "v": name}) for n, name in enumerate(TABLES, 1)]
    events += [event(50 + n, name, {"id": n}) for n, name in enumerate(BAD_TABLES)]
    counts = total(lake.load_records(events))
    bad = [row["reason"] for row in lake.quarantined()]
    assert (counts.applied, counts.quarantined) == (len(TABLES), len(BAD_TABLES))
    assert bad.count(BAD_TABLE_NAME) >= len(BAD_TABLES) - 1  # one without a name may say so itself
    for number, name in enumerate(TABLES, 1):
        assert lake.rows(name) == [{"id": str(number), "v": name}]
    assert {ident[-1] for ident in lake.catalog.list_tables(NAMESPACE)} == set(TABLES)
    outside = {p for p in everything(lake.root.parent) - before if not p.startswith(lake.root.name)}
    assert outside == set()


def test_a_statement_that_names_no_table_is_counted(lake: Sandbox) -> None:
    """CREATE DATABASE, CREATE ROLE: nothing of it is to be loaded, and nothing is wrong with it."""
    lake.configure(format="maxwell", table_name="{table}")
    statement = {"type": "database-create", "database": "d", "ts": 5, "sql": "CREATE DATABASE d"}
    counts = total(lake.load_records([statement]))
    assert (counts.ignored, counts.quarantined) == (1, 0)


def test_a_name_that_no_column_may_have_costs_its_record_alone(lake: Sandbox) -> None:
    events = [event(n, "t", {"id": n, name: "x"}) for n, name in enumerate(BAD_COLUMNS, 2)]
    lake.configure(format="debezium", table_name="{table}", tables={"s.t": {"key": ["id"]}})
    counts = total(lake.load_records([event(1, "t", {"id": 1, "v": "x"}), *events]))
    assert (counts.applied, counts.quarantined) == (1, len(BAD_COLUMNS))
    assert {row["reason"] for row in lake.quarantined()} == {BAD_COLUMN_NAME}
    assert lake.types("t").keys() == {"id", "v"}


def test_more_tables_columns_and_forms_than_allowed_stop_the_batch(
    lake: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    many = [event(n, f"t{n}", {"id": n}) for n in range(4)]
    lake.configure(format="debezium", table_name="{table}", max_tables_per_batch=3)
    with pytest.raises(PlanError, match="max_tables_per_batch"):
        lake.load_records(many)
    lake.configure(format="debezium", table_name="{table}", max_columns_per_table=3)
    with pytest.raises(PlanError, match="max_columns_per_table"):
        lake.load_records([event(9, "t", {"id": 1, **{f"c{n}": 1 for n in range(3)}})])
    monkeypatch.setattr(discover, "_MOST_FORMS", 3)
    with pytest.raises(PlanError, match=r"more than 3 forms .*landing\.pattern.*sluice release"):
        lake.load_records(many)
    assert not lake.catalog.namespace_exists(NAMESPACE)


def test_a_files_name_is_no_sql(lake: Sandbox) -> None:
    """Without an order of its own a record's position holds the file's name."""
    lake.configure(format="canal", table_name="{table}", tables={"d.t": {"key": ["id"]}})
    row = {
        "type": "INSERT",
        "database": "d",
        "table": "t",
        "pkNames": ["id"],
        "data": [{"id": "1"}],
    }
    lake.load_records([row], "a.jsonl")
    cut = {"type": "TRUNCATE", "database": "d", "table": "t", "data": None, "sql": "truncate t"}
    name = "b' OR (SELECT count(*) FROM lake.sluice.files) >= 0 OR '.jsonl"
    lake.load_records([cut, {**row, "data": [{"id": "2"}]}], name)
    assert lake.rows("t") == [{"id": "2"}]


@pytest.mark.long
def test_a_batch_of_bad_names_alone_leaves_no_changes(lake: Sandbox) -> None:
    """It looks like those before it until the name is seen: what was written by then goes."""
    lake.configure(format="debezium", table_name="{table}")
    lake.load_records([event(1, "t", {"id": 1})], "1.jsonl")
    counts = total(lake.load_records([event(2, "t", {"id": 5, "a\nb": "x"})], "2.jsonl"))
    assert [row["reason"] for row in lake.quarantined()] == [BAD_COLUMN_NAME]
    changes = lake.catalog.load_table((f"{NAMESPACE}__cdc", "t__changes")).scan().to_arrow()
    assert [row["id"] for row in changes.to_pylist()] == ["1"]
    assert counts.read <= 1
