"""Types and keys that only a script of DDL tells, in a table's plan, without Spark."""

from __future__ import annotations

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import pytest

from sluice.config.ddl_files import DdlTable
from sluice.config.pipeline import Landing, Pipeline, TableConfig
from sluice.errors import PlanError
from sluice.types.columns import STRING, ColumnType, decimal
from spark_jobs.formats import FORMATS
from spark_jobs.formats.base import SourceColumn
from spark_jobs.planning.plan import TablePlan, plan_table
from spark_jobs.planning.planned_column import PlannedColumn
from spark_jobs.planning.stored_types import KnownTypes, planned
from spark_jobs.planning.table_inputs import StoredTable
from spark_jobs.planning.table_summary import Source, TableSummary

TOLD = {
    "Id": ColumnType("bigint"), "total": decimal(9, 2), "ok": ColumnType("boolean"),
    "at": ColumnType("timestamp_ntz"), "day": ColumnType("date"), "note": STRING,
}  # fmt: skip
NUMBERS = {"id": "bigint", "total": "decimal(9,2)", "ok": "boolean"}
TIMES = {"at": "timestamp_ntz", "day": "date"}
TEXTS = dict.fromkeys(("at", "day", "note"), "string")


def plan(
    format_name: str,
    *,
    stored: Mapping[str, str] | None = None,
    key: tuple[str, ...] = ("Id",),
    rows: bool = True,
    **table: Any,
) -> TablePlan:
    """The plan of a table that a script of DDL describes, and its events do not."""
    scripts: Any = SimpleNamespace(tables={"public.t": DdlTable("public.t", "a.sql:1", TOLD, key)})
    pipeline = Pipeline(
        name="p", format=format_name, namespace="shop", landing=Landing(url="landing")
    ).described_by(scripts)
    seen = ("id", "total", "ok", "at", "day", "note", "more")
    summary = TableSummary(Source("shop", "public", "t"), images={1: seen} if rows else {})
    fmt, known = FORMATS[format_name], None if stored is None else ("id",)
    return plan_table(
        pipeline, fmt, summary, TableConfig(**table), StoredTable(stored or {}, known)
    )


@pytest.mark.parametrize(
    ("format_name", "types"),
    [
        ("datastream", NUMBERS | TIMES), ("maxwell", NUMBERS | TIMES), ("ogg", NUMBERS | TIMES),
        ("shareplex", NUMBERS | TIMES), ("aws_dms", NUMBERS | TIMES), ("rows", NUMBERS | TIMES),
        ("datahub_tuple", NUMBERS), ("canal", NUMBERS), ("streamx", NUMBERS),
        ("debezium", {"id": "bigint", "ok": "boolean"}),
        ("huawei_cdl", {"id": "bigint", "ok": "boolean"}),
    ],
)  # fmt: skip
def test_a_type_counts_where_the_format_writes_it_as_plain_text(
    format_name: str, types: dict[str, str]
) -> None:
    untold = {"id": "string", "total": "string", "ok": "string", **TEXTS, "more": "string"}
    found = plan(format_name)
    assert found.types == untold | types
    assert all(set(c.readings.values()) == {c.stored} for c in found.columns)


def test_hints_win() -> None:
    found = plan("datastream", columns={"TOTAL": "decimal(12,3)", "at": "string"}, key=("total",))
    assert found.types["total"] == "decimal(12,3)"
    assert found.types["at"] == "string"
    assert found.key == ("total",)


def test_key_of_the_script_counts_only_without_another_one() -> None:
    assert plan("datastream").key == ("id",)
    with pytest.raises(PlanError, match="no key is known"):
        plan("datastream", key=())
    assert plan("datastream", key=("total",), stored={"id": "bigint"}).key == ("id",)


def test_a_table_of_which_no_row_has_come_has_its_key() -> None:
    """Events may describe the others otherwise."""
    found = plan("datastream", rows=False)
    assert list(found.types) == ["Id"]
    assert found.key == ("Id",)


def column(
    told: ColumnType, stored: str | None = None, described: ColumnType | None = None, **more: Any
) -> PlannedColumn:
    existing = {} if stored is None else {"a": stored}
    events = {} if described is None else {7: {"a": SourceColumn("a", described)}}
    return planned("a", events, KnownTypes("t", {}, existing, ddl={"a": told}, **more))


def test_descriptions_of_events_win_over_the_script() -> None:
    found = column(decimal(9, 2), described=ColumnType("double"))
    assert found == PlannedColumn("a", ColumnType("double"), {7: ColumnType("double")})


@pytest.mark.parametrize("policy", ["fail", "string", "new_column", "quarantine"])
@pytest.mark.parametrize(
    ("told", "stored", "after"),
    [
        (ColumnType("bigint"), "int", "bigint"), (ColumnType("double"), "float", "double"),
        (decimal(12, 2), "decimal(9,2)", "decimal(12,2)"),
        (decimal(5, 2), "decimal(9,2)", "decimal(9,2)"), (ColumnType("int"), "bigint", "bigint"),
        (decimal(12, 3), "decimal(9,2)", "decimal(9,2)"), (decimal(9, 2), "int", "int"),
        (ColumnType("bigint"), "string", "string"), (STRING, "bigint", "bigint"),
        (ColumnType("timestamp"), "timestamp_ntz", "timestamp_ntz"),
    ],
)  # fmt: skip
def test_a_stored_type_stands_unless_it_grows_in_place(
    policy: str, told: ColumnType, stored: str, after: str
) -> None:
    found = column(told, stored, on_type_change=policy)
    assert found.stored.spark == after
    assert found.readings == {None: found.stored}


def test_a_boolean_of_mysql_is_read_in_words_too() -> None:
    truth = ColumnType("int", "boolean")
    for stored in (None, "int"):
        assert column(truth, stored) == PlannedColumn("a", ColumnType("int"), {None: truth})
