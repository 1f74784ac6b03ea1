"""Defaults by position: which changes have one, whatever order the batches came in."""

from __future__ import annotations

import pytest

from sluice.column_renames import Rename
from sluice.types.columns import ColumnType
from spark_jobs.planning.column_history import ColumnHistory
from spark_jobs.planning.defaults import Default, StatedDefault, merged

AT = "0000.2.0220"
LOADED = "0000.0.0110"
FIRST = {"2": AT}


@pytest.mark.parametrize(
    ("one", "two"),
    [
        (Default(FIRST), Default(FIRST, "a")),
        (Default(FIRST, "b"), Default(FIRST, "a")),
        (Default(FIRST, "a", ColumnType("string")), Default(FIRST, "a", ColumnType("binary"))),
    ],
    ids=["none beside one", "two texts", "two types"],
)
def test_of_two_defaults_at_one_position_the_same_is_kept_in_either_order(
    one: Default, two: Default
) -> None:
    known = merged({"c": one}, {"c": two})
    assert known == merged({"c": two}, {"c": one})
    assert known["c"].text == "a"


def test_rows_of_a_full_load_that_has_the_column_have_no_default() -> None:
    """A NULL in them is a value of their own."""
    stated = StatedDefault(AT, "a", verbatim=True, stored="", of_session=False)
    assert Default({}, stated=stated).limits == {"0": AT, "2": AT}
    assert Default({"0": LOADED}, stated=stated).limits == {"0": LOADED, "2": AT}
    assert Default({"0": LOADED, "2": AT}, "a").limits == {"0": LOADED, "1": AT, "2": AT}


def test_a_default_is_that_of_the_column_which_has_the_name_where_it_is_described() -> None:
    """In the full load `c` is another column, which was renamed since."""
    renamed = Rename("0000.2.0210", (("c", "former"),))
    history = ColumnHistory({"c": Default({"0": LOADED, "2": AT}, "a")}, (renamed,))
    found = history.current_defaults()
    assert {name: default.text for name, default in found.items()} == {"former": None, "c": "a"}


def test_a_column_that_comes_back_is_not_null_in_stored_rows() -> None:
    history = ColumnHistory(left=("c", "gone"))
    assert history.known({}, (), (), ["C"]).left == ("gone",)
