"""The types, and the spelling, of columns that get another name."""

from __future__ import annotations

from typing import Any

import pytest

from sluice.column_renames import Rename
from sluice.config.pipeline import Landing, Pipeline, TableConfig
from sluice.errors import PlanError
from sluice.types.columns import parse_type
from spark_jobs.planning.plan import TablePlan
from spark_jobs.planning.planned_column import PlannedColumn
from spark_jobs.planning.renames_known import following
from spark_jobs.planning.table_summary import Source, TableSummary

ORDERS = Source("shop", "", "orders")


def types(
    policy: Any, columns: dict[str, str], *renames: tuple[str, str], of: str = "debezium"
) -> dict[str, str]:
    """What the columns are, all of them stored, once they were renamed one after the other."""
    pipeline = Pipeline(
        name="p", format=of, namespace="shop", landing=Landing(url="landing"),
        on_type_change=policy,
    )  # fmt: skip
    summary = TableSummary(ORDERS)
    planned = tuple(
        PlannedColumn(name, parse_type(kind), {1: parse_type(kind)})
        for name, kind in columns.items()
    )
    plan = TablePlan(ORDERS, "shop", "orders", planned, ("id",), TableConfig(), summary)
    told = tuple(Rename(f"0000.2.{n}", (pair,)) for n, pair in enumerate(renames))
    made = following(pipeline, plan, told, columns)
    return {column.name: column.stored.spark for column in made.columns if column.name != "id"}


def planned(name: str, kind: str, read: str = "") -> PlannedColumn:
    return PlannedColumn(name, parse_type(kind), {1: parse_type(read or kind)})


def followed(hints: dict[str, str], *columns: PlannedColumn) -> dict[str, PlannedColumn]:
    """Stored columns of a plan once `size` was renamed to `girth`."""
    pipeline = Pipeline(
        name="p", format="debezium", namespace="shop", landing=Landing(url="landing")
    )
    config = TableConfig(columns=hints)
    summary = TableSummary(ORDERS, types={1: "as the batch's events describe it"})
    plan = TablePlan(ORDERS, "shop", "orders", columns, ("id",), config, summary)
    told = (Rename("0000.2.1", (("size", "girth"),)),)
    made = following(pipeline, plan, told, [column.name for column in columns])
    return {column.name: column for column in made.columns}


@pytest.mark.parametrize("hinted", ["size", "girth"])
@pytest.mark.parametrize(
    ("kind", "stored", "come"),
    [
        ("decimal(20,0)[unsigned]", "decimal(20,0)", "bigint"),
        ("binary(16)", "binary", "binary"),
        ("timestamp_ntz[@Asia/Shanghai]", "timestamp_ntz", "timestamp_ntz"),
    ],
)
def test_a_hint_that_changes_values_is_wanted_of_both_names(
    hinted: str, kind: str, stored: str, come: str
) -> None:
    """Else -1 under one name would be 18446744073709551615 under the other."""
    other = {"size": "girth", "girth": "size"}[hinted]
    columns = (planned(hinted, stored, read=kind), planned(other, come))
    with pytest.raises(PlanError, match=rf"hint '{other}' too"):
        followed({hinted: kind}, *columns)
    found = followed({hinted: kind, other: come}, *columns)
    assert found[other].readings == {1: parse_type(come)}


def test_on_type_change_string_makes_a_renamed_column_of_another_type_text() -> None:
    columns = {"id": "int", "size": "decimal(9,2)", "girth": "string"}
    assert types("string", columns, ("size", "girth"))["girth"] == "string"
    with pytest.raises(PlanError, match=r"'girth' was called \['size'\] before"):
        types("fail", columns, ("size", "girth"))


def test_column_that_takes_a_dropped_name_with_another_type_is_text() -> None:
    """Unasked: what went by the name before is another column, whose values are among its own."""
    columns = {"id": "int", "size": "int", "weight": "string"}
    found = types("fail", columns, ("size", "size__dropped"), ("weight", "size"))
    assert found == {"size": "string", "weight": "string", "size__dropped": "string"}


def test_a_wider_type_reaches_all_names_at_once() -> None:
    """Else they would depend on how many batches came since."""
    columns = {"id": "int", "a": "int", "x": "bigint"}
    assert types("fail", columns, ("a", "b"), ("x", "a")) == dict.fromkeys("axb", "bigint")


@pytest.mark.parametrize(
    ("stored", "old", "new", "name"),
    [
        ("TITLE", "title", "name", "NAME"),
        ("title", "TITLE", "NAME", "name"),
        ("TITLE", "TITLE", "Name", "Name"),
        ("Title", "title", "name", "name"),
        ("TITLE", "title", "title__dropped", "TITLE__dropped"),
    ],
)
def test_a_new_name_is_in_the_case_that_the_source_gave_the_old_one(
    stored: str, old: str, new: str, name: str
) -> None:
    """Oracle has names without quotes in upper case: so will the events that are to come."""
    found = types("fail", {"id": "int", stored: "int"}, (old, new), of="shareplex")
    assert found == {stored: "int", name: "int"}


def test_a_name_that_was_given_twice_is_in_the_case_of_the_first() -> None:
    columns = {"id": "int", "TITLE": "int"}
    found = types("fail", columns, ("title", "name"), ("name", "label"), of="shareplex")
    assert found == {"TITLE": "int", "LABEL": "int"}


@pytest.mark.parametrize("of", ["canal", "maxwell", "debezium", "dts_avro"])
def test_where_the_source_may_be_mysql_the_case_is_as_typed(of: str) -> None:
    """It keeps the case, and nothing tells whether a name was quoted."""
    columns = {"id": "int", "TITLE": "int"}
    found = types("fail", columns, ("title", "name"), of=of)
    assert found == {"TITLE": "int", "name": "int"}
