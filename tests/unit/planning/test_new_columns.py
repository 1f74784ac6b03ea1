"""Which columns go beside stored ones (`on_type_change: new_column`), without Spark."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sluice.config.policies import NEW_COLUMN
from sluice.errors import PlanError
from sluice.types.columns import parse_type
from spark_jobs.formats.base import SourceColumn
from spark_jobs.planning.key_names import NO_NAMES
from spark_jobs.planning.spelling import Spelling
from spark_jobs.planning.stored_types import KnownTypes
from spark_jobs.planning.table_summary import Source, TableSummary
from spark_jobs.planning.type_split import TypeSplit, split_by_type

EARLY, LATE = 1, 2
SUMMARY = TableSummary(
    Source("", "", "t"),
    types={EARLY: "early", LATE: "late"},
    lowest={(LATE, "S"): "S2", (EARLY, "S"): "S1"},
)
SPELLED = Spelling({}, {"amount": ("Amount", "amount")}, NO_NAMES)


def type_split(
    early: str,
    late: str,
    stored: str = "",
    policy: str = NEW_COLUMN,
    key: tuple[str, ...] = ("id",),
    summary: TableSummary = SUMMARY,
    **more: str,
) -> TypeSplit:
    """What goes beside column `amount`, of two types; `more`: other columns of the later events."""
    described = {
        EARLY: {"amount": SourceColumn("amount", parse_type(early))},
        LATE: {n: SourceColumn(n, parse_type(k)) for n, k in {"amount": late, **more}.items()},
    }
    types = KnownTypes("t", {}, {"amount": stored} if stored else {}, policy)
    return split_by_type(summary, described, types, SPELLED, key)


def test_first_type_keeps_the_column_and_every_spelling_has_the_suffix() -> None:
    found = type_split("int", "string")
    assert found.suffixes == {LATE: {"amount": "__string", "Amount": "__string"}}
    assert type_split("string", "bigint").suffixes[LATE]["amount"] == "__number"


def test_the_stored_type_stands_against_all() -> None:
    assert set(type_split("int", "double", stored="date").suffixes) == {EARLY, LATE}
    assert type_split("string", "int", stored="int").suffixes.keys() == {EARLY}


def test_types_that_widen_get_no_column_beside() -> None:
    assert not type_split("int", "decimal(12,2)").suffixes
    assert not type_split("int", "string", policy="string").suffixes


def test_a_name_that_the_source_has_itself_is_refused() -> None:
    with pytest.raises(PlanError, match=r"have columns \['amount__string'\], which"):
        type_split("int", "string", amount__String="string")
    assert not type_split("int", "bigint", amount__string="string").suffixes


def test_table_without_a_key_gets_no_column_beside() -> None:
    with pytest.raises(PlanError, match=r"\['amount'\] changed, and .* new_column needs a key"):
        type_split("int", "string", key=())
    assert not type_split("int", "bigint", key=()).enabled
    assert type_split("int", "bigint").enabled


def test_column_of_the_key_gets_no_column_beside() -> None:
    assert not type_split("int", "string", key=("amount",)).suffixes


def test_types_that_fit_what_stands_one_by_one_may_not_fit_together() -> None:
    found = type_split("decimal(38,20)", "decimal(30,4)", stored="decimal(20,4)")
    assert found.suffixes == {LATE: {"amount": "__number", "Amount": "__number"}}


def test_known_shapes_do_not_say_which_type_came_first() -> None:
    with pytest.raises(PlanError, match="it is unknown which type of 'amount' came first"):
        type_split("int", "string", summary=replace(SUMMARY, lowest={}))
    assert type_split("int", "string", stored="int", summary=replace(SUMMARY, lowest={})).suffixes
