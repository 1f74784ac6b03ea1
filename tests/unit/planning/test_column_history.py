"""Renames that arrive after a default was filled in: whether stored rows show what is whose."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sluice.column_renames import Rename, Renames
from spark_jobs.planning.additions import Addition
from spark_jobs.planning.column_history import ColumnHistory
from spark_jobs.planning.defaults import Default

COLUMNS = ("status", "old", "status__dropped", "since")


def below(position: int) -> str:
    return f"0000.2.{position:04d}"


def rename(position: int, old: str, new: str) -> Rename:
    return Rename(below(position), ((old, new),))


def stated(renames: Renames = (), name: str = "status", at: int = 20) -> ColumnHistory:
    """With a default that DDL states; `name`: the column's current one."""
    return ColumnHistory(renames=renames, additions=(Addition(below(at), name, "new"),))


@pytest.mark.parametrize("taken_by", ["old", "status__dropped"])
def test_a_value_that_may_be_another_columns_default_is_read_again(taken_by: str) -> None:
    """Below the late rename `status` is another column than the one with the default."""
    now = stated((rename(10, "status", taken_by),))
    assert now.clash(stated(), COLUMNS) == (taken_by, "status", "status")


def test_so_is_one_whose_name_stays_while_the_default_goes_to_another() -> None:
    """It was called otherwise when the column with the default was added."""
    renames = (rename(15, "status", "old"), rename(25, "status", "since"),
               rename(30, "old", "status"))  # fmt: skip
    assert stated(renames, "since").clash(stated(), COLUMNS) == ("status", "since", "status")


def test_so_is_one_whose_default_was_stated_under_another_name() -> None:
    """`new` took the name `status` from a column whose rename to `old` came a batch late."""
    since = rename(25, "new", "status")
    added = (Addition(below(15), "status", "new", stated="new"),)
    before = ColumnHistory(renames=(since,), additions=added)
    now = ColumnHistory(renames=(rename(20, "status", "old"), since), additions=added)
    assert now.clash(before, ("status", "old")) == ("old", "status", "status")
    assert now.clash(now, ("status", "old")) is None


def test_a_default_of_events_counts_too() -> None:
    firsts = {"2": below(20)}
    before = ColumnHistory({"status": Default(firsts, "new")})
    now = ColumnHistory({"status": Default({"2": below(5)})}, (rename(10, "status", "old"),))
    assert now.clash(before, COLUMNS) == ("old", "status", "status")


@pytest.mark.parametrize(
    ("before", "late"),
    [
        pytest.param((), rename(30, "status", "since"), id="of the column itself"),
        pytest.param((), rename(30, "status", "status__dropped"), id="its drop"),
        pytest.param((rename(10, "status", "old"),), rename(30, "status", "since"),
                     id="of the second column of a name"),
        pytest.param((rename(10, "status", "old"),), rename(30, "old", "since"),
                     id="of the first column of a name"),
    ],
)  # fmt: skip
def test_a_rename_in_order_needs_no_second_look(before: Renames, late: Rename) -> None:
    """The default goes with its column."""
    name = late.of("status")
    assert stated((*before, late), name).clash(stated(before), COLUMNS) is None


def test_an_earlier_addition_of_the_name_takes_a_default_back() -> None:
    """What had the column between the two additions may have the default as a value of its own."""
    second = Addition(below(40), "status", "new")
    before = ColumnHistory(additions=(second,))
    for default in ("new", "first", None):
        now = ColumnHistory(additions=(Addition(below(20), "status", default), second))
        assert now.clash(before, COLUMNS) == ("status", "status", "status")
        assert now.clash(now, COLUMNS) is None


def test_so_does_one_that_a_late_rename_makes_an_earlier_one() -> None:
    """`other` was added first, and has the name `status` by a rename that came late."""
    second = Addition(below(40), "status", "new")
    before = ColumnHistory(additions=(Addition(below(20), "other", "new"), second))
    first = Addition(below(20), "status", "new")
    now = ColumnHistory(renames=(rename(25, "other", "status"),), additions=(first, second))
    assert now.clash(before, ("status", "other")) == ("status", "status", "status")


def test_so_does_a_statement_after_a_default_of_events_if_names_were_used_again() -> None:
    before = ColumnHistory({"status": Default({"2": below(40)}, "new")}, (rename(10, "a", "b"),))
    now = replace(before, additions=(Addition(below(20), "status", "new"),))
    assert now.clash(before, COLUMNS) == ("status", "status", "status")
    assert now.clash(now, COLUMNS) is None


def test_a_column_added_and_dropped_again_and_again_in_order_needs_no_second_look() -> None:
    """All dropped columns of one name share `status__dropped`."""
    dropped = "status__dropped"
    first = Addition(below(20), dropped, "new")
    one, other = rename(30, "status", dropped), rename(50, "status", dropped)
    before = ColumnHistory(renames=(one,), additions=(first, Addition(below(40), "status", "new")))
    again = Addition(below(40), dropped, "new"), Addition(below(60), "status", "new")
    now = ColumnHistory(renames=(one, other), additions=(first, *again))
    assert now.clash(before, COLUMNS) is None


def test_a_described_default_keeps_the_tables_spelling_of_a_renamed_column() -> None:
    """The statement only changes the case, or spells the names in another one than the events."""
    described = Default({"2": below(5)}, "new")
    of_case = ColumnHistory({"status": described}, (rename(10, "status", "Status"),))
    assert of_case.current_defaults().keys() == {"status"}
    since = {"STATUS": described, "STATE": Default({"2": below(20)}, "new")}
    folded = ColumnHistory(since, (rename(10, "status", "state"),)).current_defaults()
    assert {name: default.since for name, default in folded.items()} == {"STATE": below(5)}
    added = (Addition(below(5), "STATE", "new"),)
    stated = ColumnHistory({"STATUS": described}, (rename(10, "status", "state"),), added)
    assert stated.current_defaults().keys() == {"STATE"}
