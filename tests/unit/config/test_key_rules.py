"""How key columns compare: the names of the columns that stand for them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluice.config.collations import compared_name, rules, source_name
from sluice.errors import PlanError
from spark_jobs.planning.planned_column import key_by_rules

RULES = [
    "nocase",
    "rtrim",
    "nocase_rtrim",
    "null",
    "null_nocase",
    "null_rtrim",
    "null_nocase_rtrim",
]


def test_null_and_a_collation_are_one_rule() -> None:
    found = rules({"a": "nocase", "b": "rtrim"}, ["b", "c"])
    assert found == {"a": "nocase", "b": "null_rtrim", "c": "null"}


@given(st.sampled_from(RULES), st.text(min_size=1))
def test_the_sources_name_is_in_the_columns_own(rule: str, column: str) -> None:
    assert source_name(compared_name(column, rule)) == column


@pytest.mark.parametrize("column", ["code", "_sluice__code", "_sluice_other_code", "null_code"])
def test_any_other_name_is_the_sources(column: str) -> None:
    assert source_name(column) == column


def test_a_rule_of_a_column_that_is_not_in_the_key_is_refused() -> None:
    """Where the events name the key, so that the configuration could not tell."""
    with pytest.raises(PlanError, match=r"name \['visits'\], but the key is \['code'\]"):
        key_by_rules("t", ("code",), (), {"visits": "nocase"}, whole_rows=False)
