"""Columns that DDL added with a default to a table that was dropped, and to the one made since."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from itertools import permutations

import pytest

from sluice.config.pipeline import TableConfig
from sluice.ddl.defaults import AddedColumn
from sluice.ledger.column_log import ColumnStatement
from sluice.positions import KIND_AT
from spark_jobs.planning.additions import additions_of, with_stated_defaults
from spark_jobs.planning.column_history import ColumnHistory, read
from spark_jobs.planning.defaults import Default, DefaultChange, StatedDefault

TYPES = {"id": "int", "c": "int"}


def at(position: int) -> str:
    return f"0000.2.{position:04d}"


def added(position: int, default: str | None) -> ColumnStatement:
    column = AddedColumn("c", default)
    return ColumnStatement("shop.orders", at(position), ((None, "c"),), "", added=(column,))


def dropped(position: int) -> ColumnStatement:
    return ColumnStatement("shop.orders", at(position), (), "DROP TABLE orders", drops_table=True)


FIRST, DROPPED, SECOND = added(10, "1"), dropped(20), added(50, "2")


def required(stated: StatedDefault | None) -> StatedDefault:
    assert stated is not None
    return stated


def history(*statements: ColumnStatement) -> ColumnHistory:
    return ColumnHistory(additions=additions_of(statements, TableConfig(), TYPES, ()))


def filled_in(statements: Iterable[ColumnStatement], position: int) -> str | None:
    """Return the default of a row that lacks the column."""
    default = history(*statements).current_defaults()["c"]
    kind = at(position)[KIND_AT - 1 : KIND_AT]
    found = [
        one.stated.text
        for one in default.parts
        if one.stated and one.dropped_at <= at(position) < one.limits.get(kind, "")
    ]
    assert len(found) < 2
    return found[0] if found else None


@pytest.mark.parametrize(
    ("statements", "wanted"),
    [
        pytest.param([FIRST, DROPPED, SECOND], {5: "1", 15: None, 30: "2", 60: None}, id="both"),
        pytest.param([DROPPED, SECOND], {5: None, 15: None, 30: "2", 60: None}, id="the second"),
        pytest.param([FIRST, DROPPED], {5: "1", 15: None, 30: None}, id="the first"),
        pytest.param([FIRST, SECOND], {5: "1", 15: None, 30: None, 60: None}, id="not dropped"),
        pytest.param([FIRST, DROPPED, added(40, None), SECOND], {5: "1", 30: None, 45: None},
                     id="added without a default"),
        pytest.param([FIRST, DROPPED, SECOND, dropped(70), added(90, "3")],
                     {5: "1", 30: "2", 60: None, 80: "3", 95: None}, id="dropped twice"),
    ],
)  # fmt: skip
def test_the_first_addition_since_the_table_was_dropped_counts_for_its_rows(
    statements: list[ColumnStatement], wanted: dict[int, str | None]
) -> None:
    for order in permutations(statements):
        assert {position: filled_in(order, position) for position in wanted} == wanted


def test_a_default_that_events_describe_of_the_dropped_table_is_none_of_the_new_one() -> None:
    """Else it would be filled in where that of the statement cannot be read."""
    additions = additions_of([DROPPED, SECOND], TableConfig(), TYPES, ())
    of_old = with_stated_defaults({"c": Default({"2": at(10)}, "7")}, additions)["c"]
    assert of_old.text is None
    assert [(one.text, one.limits["2"]) for one in of_old.earlier] == [("7", at(10))]
    of_new = with_stated_defaults({"c": Default({"2": at(55)}, "7")}, additions)["c"]
    assert (of_new.text, of_new.earlier) == ("7", ())


def test_rows_that_have_the_default_of_an_addition_are_read_again_if_a_drop_comes_late() -> None:
    """What the dropped table had of that name may equal the default that was filled in."""
    stored = ("id", "c")
    assert history(DROPPED, SECOND).clash(history(SECOND), stored) == ("c", "c", "c")
    assert history(FIRST, DROPPED, SECOND).clash(history(SECOND), stored) == ("c", "c", "c")


@pytest.mark.parametrize(
    ("before", "late"),
    [
        pytest.param([FIRST], [DROPPED], id="the drop in order"),
        pytest.param([FIRST, DROPPED], [SECOND], id="the addition in order"),
        pytest.param([FIRST, SECOND], [DROPPED], id="the drop between two that are known"),
        pytest.param([DROPPED, SECOND], [FIRST], id="what was added to the dropped table"),
        pytest.param([FIRST], [DROPPED, SECOND], id="both in order"),
        pytest.param([SECOND], [dropped(70)], id="a drop above"),
    ],
)
def test_no_second_look_where_no_row_has_a_default_that_it_would_lose(
    before: list[ColumnStatement], late: list[ColumnStatement]
) -> None:
    assert history(*before, *late).clash(history(*before), ("id", "c")) is None


def test_an_earlier_addition_to_the_new_table_takes_a_default_back() -> None:
    known = [FIRST, DROPPED, SECOND]
    assert history(*known, added(40, "3")).clash(history(*known), ("id", "c")) == ("c", "c", "c")


def test_a_first_default_since_the_drop_above_everything_stored_changes_no_other() -> None:
    before, now = (history(*s).current_defaults()["c"] for s in ([FIRST], [FIRST, DROPPED, SECOND]))
    change = DefaultChange("c", "int", before, now)
    assert change.above(at(30))
    assert not change.above(at(50))
    assert change.between(at(30), at(60))
    wider = replace(now, stated=replace(required(now.stated), stored="bigint"), earlier=tuple(
        replace(one, stated=replace(required(one.stated), stored="bigint")) for one in now.earlier
    ))  # fmt: skip
    loaded = replace(now, earlier=tuple(
        replace(one, firsts={"2": at(55)}) for one in now.earlier
    ))  # fmt: skip
    for later in (wider, loaded):
        assert not DefaultChange("c", "int", before, later).between(at(30), at(40))
    assert DefaultChange("c", "int", before, loaded).above(at(30))
    other = history(added(5, "1"), DROPPED, SECOND).current_defaults()["c"]
    assert not DefaultChange("c", "int", before, other).above(at(30))


def test_what_is_stored_tells_where_the_table_was_dropped() -> None:
    known = history(FIRST, DROPPED, SECOND)
    assert read(known.text()) == known
    assert {one.dropped_at for one in known.additions} == {"", at(20)}
