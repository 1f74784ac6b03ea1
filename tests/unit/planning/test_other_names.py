"""Which names are one column's, and what a table's plan takes from one for another."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from sluice.column_renames import Rename
from sluice.config.ddl_files import DdlTable
from sluice.config.pipeline import Landing, Pipeline, TableConfig
from sluice.errors import PlanError
from sluice.ledger.column_log import ColumnStatement
from sluice.types.columns import ColumnType, parse_type
from spark_jobs.formats import FORMATS
from spark_jobs.planning.other_names import known_names
from spark_jobs.planning.plan import TablePlan, plan_table
from spark_jobs.planning.renames import declared
from spark_jobs.planning.renames_known import following, renames_from
from spark_jobs.planning.table_inputs import StoredTable
from spark_jobs.planning.table_summary import Source, TableSummary

ORDERS = Source("shop", "", "orders")
RENAMED = Rename("0000.2.0010", (("size", "girth"),))


def others(told: list[ColumnStatement], **columns: str) -> dict[str, tuple[tuple[str, ...], bool]]:
    """Of each name what else its column was called, and whether these are that column's alone."""
    config = TableConfig(renamed_columns=columns)
    renames = (*renames_from(told, config), *declared(columns))
    found = known_names(TableSummary(ORDERS), config, ["id"], renames, told).other_names
    return {name: (of.names, of.alone) for name, of in found.items()}


def told(at: int, *columns: tuple[str | None, str | None]) -> ColumnStatement:
    return ColumnStatement("shop.orders", f"0000.2.{at:04}", columns, "")


def test_each_name_of_a_column_gives_all_its_names() -> None:
    assert others([], Size="girth") == {"girth": (("size",), True), "size": (("girth",), True)}
    twice = [told(10, ("a", "b")), told(20, ("b", "c"))]
    assert others(twice) == {
        "c": (("b", "a"), True), "b": (("c", "a"), True), "a": (("c", "b"), True),
    }  # fmt: skip
    back = [told(10, ("a", "b")), told(20, ("b", "a"))]
    assert others(back) == {"a": (("b",), True), "b": (("a",), True)}
    since = [told(5, (None, "a")), told(10, ("a", "b"))]
    assert others(since) == {"b": (("a",), True), "a": (("b",), True)}


def test_name_that_two_columns_had_is_found_only_by_the_current_name() -> None:
    one = {"girth": (("size",), False)}
    assert others([told(10, ("size", "girth")), told(20, (None, "size"))]) == one
    taken = [told(10, ("size", "girth")), told(20, ("weight", "size"))]
    assert others(taken) == one | {"size": (("weight",), False)}
    again = [told(5, ("size", None)), told(6, (None, "size")), told(10, ("size", "girth"))]
    assert others(again) == one


def test_names_of_the_key_are_not_among_other_names() -> None:
    assert others([told(10, ("id", "number"), ("size", "girth"))]).keys() == {"size", "girth"}


def plan(
    hints: Mapping[str, str],
    *images: tuple[str, ...],
    stored: Mapping[str, str] | None = None,
    policy: Any = "fail",
    script: Mapping[str, ColumnType] | None = None,
    statements: Sequence[ColumnStatement] = (),
) -> TablePlan:
    """The plan of events that describe nothing, once `size` is known to be `girth` since."""
    told = {"shop.orders": DdlTable("shop.orders", "a.sql:1", script or {})}
    scripts: Any = SimpleNamespace(tables=told)
    pipeline = Pipeline(
        name="p", format="maxwell", namespace="shop", landing=Landing(url="landing"),
        on_type_change=policy,
    ).described_by(scripts)  # fmt: skip
    config = TableConfig(key=["id"], columns={"id": "int", **hints})
    summary = TableSummary(ORDERS, images={n: ("id", *image) for n, image in enumerate(images)})
    names = known_names(summary, config, ["id"], (RENAMED,), statements)
    key = None if stored is None else ("id",)
    made = plan_table(
        pipeline, FORMATS["maxwell"], summary, config, StoredTable(stored or {}, key, names)
    )
    return following(pipeline, made, (RENAMED,), stored or {})


def readings(made: TablePlan) -> dict[str, Any]:
    return {c.name: (c.stored.spark, *c.readings.values()) for c in made.columns if c.name != "id"}


@pytest.mark.parametrize("policy", ["fail", "string", "quarantine", "new_column"])
@pytest.mark.parametrize("hint", ["date[days]", "decimal(10,2)", "bigint"])
@pytest.mark.parametrize("hinted", ["size", "girth", "SIZE"])
def test_hint_counts_whichever_name_the_events_have(hinted: str, hint: str, policy: str) -> None:
    """In the first batch and in the ones after it."""
    kind = parse_type(hint)
    read = (kind.spark, kind)
    first = plan({hinted: hint}, ("girth",), policy=policy)
    assert readings(first) == {"girth": read}
    both = plan({hinted: hint}, ("size",), stored=first.types, policy=policy)
    assert readings(both) == {"girth": read, "size": read}
    assert readings(plan({hinted: hint}, ("girth",), stored=both.types, policy=policy)) == (
        readings(both)
    )
    assert readings(plan({hinted: hint}, ("size",), policy=policy)) == readings(both)
    assert readings(plan({hinted: hint}, ("size",), ("girth",), policy=policy)) == readings(both)


@pytest.mark.parametrize("scripted", ["size", "girth"])
@pytest.mark.parametrize("policy", ["fail", "string"])
def test_script_counts_whichever_name_it_has(scripted: str, policy: str) -> None:
    script = {scripted: ColumnType("int")}
    first = plan({}, ("girth",), script=script, policy=policy)
    assert first.types == {"id": "int", "girth": "int"}
    then = plan({}, ("size",), stored=first.types, script=script, policy=policy)
    one = plan({}, ("size",), ("girth",), script=script, policy=policy)
    assert then.types == one.types == {"id": "int", "girth": "int", "size": "int"}


def test_a_hint_of_one_name_wins_over_a_script_that_has_the_other() -> None:
    made = plan({"size": "decimal(10,2)"}, ("girth",), script={"girth": ColumnType("int")})
    assert made.types["girth"] == "decimal(10,2)"


def test_no_script_changes_what_is_stored_under_the_other_name() -> None:
    stored = {"id": "int", "girth": "string"}
    made = plan({}, ("size",), stored=stored, script={"size": ColumnType("int")})
    assert made.types == {"id": "int", "girth": "string", "size": "string"}


@pytest.mark.parametrize("policy", ["fail", "string"])
def test_a_hint_of_a_name_that_two_columns_had_is_for_what_is_stored_as_it_says(
    policy: str,
) -> None:
    """A later column has the name `size`: the hint may be of that one alone."""
    since = [told(10, ("size", "girth")), told(20, (None, "size"))]
    hints = {"size": "date[days]"}
    for kind, read in (("string", "string"), ("date", "date[days]")):
        stored = {"id": "int", "girth": kind}
        made = plan(hints, ("girth",), stored=stored, policy=policy, statements=since)
        assert readings(made)["girth"] == (kind, parse_type(read))


@pytest.mark.parametrize("policy", ["fail", "string"])
@pytest.mark.parametrize("hinted", ["size", "girth"])
@pytest.mark.parametrize("image", ["size", "girth"])
def test_rows_stored_without_a_hint_are_not_mixed_with_hinted_ones(
    hinted: str, image: str, policy: str
) -> None:
    """Rows of the other name came before anybody told of the rename."""
    bare = {"size": "girth", "girth": "size"}[hinted]
    stored = {"id": "int", bare: "string"}
    hints = {hinted: "decimal(10,2)"}
    with pytest.raises(PlanError, match=f"rows of '{bare}' were stored as string"):
        plan(hints, (image,), stored=stored, policy=policy)
    if policy == "string":
        both = hints | {bare: "string"}
        assert plan(both, (image,), stored=stored, policy=policy).types["girth"] == "string"


def test_rows_stored_signed_are_not_mixed_with_unsigned_ones() -> None:
    hints = {"size": "decimal(20,0)[unsigned]"}
    with pytest.raises(PlanError, match="rows of 'girth' were stored as bigint"):
        plan(hints, ("size",), stored={"id": "int", "girth": "bigint"})
    assert plan({"size": "bigint"}, ("girth",), stored={"id": "int", "girth": "int"}).types == {
        "id": "int", "girth": "bigint",
    }  # fmt: skip
