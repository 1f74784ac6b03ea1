"""Columns that leave the target when the source drops them: which, and whose values are where."""

from __future__ import annotations

import json
from itertools import permutations

import pytest

from sluice.column_renames import NOWHERE, Rename, dropped_since, in_order, name_at
from sluice.config.pipeline import TableConfig
from sluice.errors import PlanError, TransientError
from sluice.ledger.column_log import ColumnStatement
from sluice.types.columns import STRING
from spark_jobs.planning.column_history import ColumnHistory, read
from spark_jobs.planning.defaults import Default
from spark_jobs.planning.dropped import may_go, refuse_fixed
from spark_jobs.planning.key_names import without_key
from spark_jobs.planning.plan import TablePlan
from spark_jobs.planning.planned_column import PlannedColumn
from spark_jobs.planning.rename_clashes import clash
from spark_jobs.planning.renames import moves_of_rows, reused_names, wanted
from spark_jobs.planning.renames_known import known_renames, renames_from
from spark_jobs.planning.stale_plan import refuse_other_names
from spark_jobs.planning.table_summary import Source, TableSummary

KEEPING = TableConfig()
DROPPING = TableConfig(on_dropped_column="drop")
COLUMNS = ("id", "Size", "grams", "size__dropped")


def below(position: int) -> str:
    return f"0000.2.{position:04d}"


def stated(position: int, *columns: tuple[str | None, str | None]) -> ColumnStatement:
    return ColumnStatement("shop.orders", below(position), columns, "")


DROP = stated(10, ("size", None))
ADD = stated(20, (None, "size"))
TAKEN = stated(20, ("grams", "size"))
GIVEN = stated(20, ("size", "grams"))


@pytest.mark.parametrize(
    ("statements", "gone"),
    [
        ([DROP], True),
        ([DROP, ADD], False),
        ([DROP, ADD, stated(30, ("SIZE", None))], True),
        ([stated(5, (None, "size")), DROP], True),
        ([DROP, TAKEN], False),
        ([DROP, GIVEN], True),
        ([stated(10, ("size", None), (None, "size"))], False),
        ([DROP, stated(10, (None, "size"))], False),
        ([ADD], False),
        ([], False),
    ],
)
def test_the_last_statement_about_a_name_counts_in_whatever_order_they_come(
    statements: list[ColumnStatement], gone: bool
) -> None:
    for order in permutations(statements):
        assert may_go(order, DROPPING, COLUMNS, ()) == ("Size",) * gone


def test_a_column_that_kept_the_values_before_the_setting_goes_with_it() -> None:
    kept, gone = (renames_from([DROP, ADD], of) for of in (TableConfig(), DROPPING))
    aside = dropped_since(kept, gone)
    assert may_go([DROP, ADD], DROPPING, COLUMNS, aside) == ("size__dropped",)
    both = in_order(kept, gone)
    assert dropped_since(both, both) == dropped_since(kept, kept) == frozenset()
    assert name_at(both, "size", below(9)) == NOWHERE
    assert clash(kept, both, COLUMNS, {}, ()) is None


@pytest.mark.parametrize(
    "config", [TableConfig(), TableConfig(on_dropped_column="drop", sources=["orders_*"])]
)
def test_no_column_goes_where_they_are_kept(config: TableConfig) -> None:
    assert may_go([DROP], config, COLUMNS, ()) == ()
    assert renames_from([DROP], config) == ()


def test_a_dropped_columns_values_are_nowhere_whatever_is_known_of_a_later_one() -> None:
    alone, added = renames_from([DROP], DROPPING), renames_from([ADD, DROP], DROPPING)
    assert alone == added == (Rename(below(10), (("size", NOWHERE),)),)
    assert name_at(alone, "Size", below(9)) == NOWHERE
    assert name_at(alone, "Size", below(10)) == "Size"
    assert wanted(alone, COLUMNS) == {}
    assert reused_names(alone) == {"size"}


def test_rows_from_below_the_drop_have_no_value() -> None:
    types = {"id": "int", "Size": "int", "_position": "string"}
    moved = moves_of_rows((), renames_from([DROP], DROPPING), types, "", (), ())
    assert moved == {"Size": f"CASE WHEN _position < '{below(10)}' THEN CAST(NULL AS int) "
                             "ELSE `Size` END"}  # fmt: skip


def test_a_partial_row_from_below_the_drop_lacks_what_else_it_lacked() -> None:
    types = {"Size": "int", "grams": "int", "_position": "string", "_absent": "array<string>"}
    for statement, then in (
        (DROP, "filter(_absent, name -> name NOT IN ('Size'))"),
        (stated(10, ("size", None), ("grams", "weight")),
         "transform(filter(_absent, name -> name NOT IN ('Size')), "
         "name -> CASE name WHEN 'grams' THEN 'weight' ELSE name END)"),
    ):  # fmt: skip
        now = renames_from([statement], DROPPING)
        moved = moves_of_rows((), now, types | {"weight": "int"}, "", (), ())
        assert moved["_absent"] == (
            f"CASE WHEN _position < '{below(10)}' THEN {then} ELSE `_absent` END"
        )


def test_a_rename_told_after_the_drop_of_a_later_column_needs_the_changes() -> None:
    """Stored rows no longer have the value of `grams`, which was called `size` at first."""
    drop, earlier = renames_from([DROP], DROPPING), stated(5, ("size", "grams"))
    now = renames_from([DROP, earlier], DROPPING)
    assert clash(drop, now, COLUMNS, {}, ()) == ("Size", "grams", "Size")
    assert clash(drop, now, ("id", "Size"), {}, ()) is None
    assert clash(drop, renames_from([DROP, TAKEN], DROPPING), COLUMNS, {}, ()) is None
    two = renames_from([DROP, stated(7, ("grams", None))], DROPPING)
    assert clash(drop, two, COLUMNS, {}, ()) is None


def test_a_default_goes_with_its_column() -> None:
    of_events = {"size": Default({"2": below(3)}, "7")}
    renames = renames_from([DROP], DROPPING)
    history = ColumnHistory(of_events, renames, lacking=())
    assert history.current_defaults() == {}
    left = history.without(("Size",))
    assert (left.lacking, left.left) == ((), ("Size",))
    assert left.absent == {"size"}
    assert read(left.text()) == left
    assert history.without(()) is history
    back = left.known(of_events, renames, (), ["id", "SIZE"])
    assert (back.left, back.arrived(left)) == ((), frozenset())


def test_of_columns_that_a_table_lacks_those_that_left_have_been_there() -> None:
    """Rows of which the history does not say which have left, from before it did, have lost those
    that were dropped."""
    renames = renames_from([DROP, stated(5, ("weight", "grams"))], DROPPING)
    never = ColumnHistory({}, renames, lacking=("size", "weight"))
    text = never.text() or ""
    assert read(text) == never
    former = {n: value for n, value in json.loads(text).items() if n != "\r"}
    found = read(json.dumps(former))
    assert (found.lacking, found.left) == (("weight",), ("size",))


def test_what_identifies_or_lays_out_rows_does_not_go() -> None:
    renames = renames_from([DROP, stated(20, ("Id", None))], DROPPING)
    assert without_key(renames, ["id"]) == renames[:1]
    with pytest.raises(PlanError, match=r"orders: the source dropped columns \['id'\]"):
        refuse_fixed("orders", renames, {"id", "day"})
    refuse_fixed("orders", renames, {"day"})


SHIFT = stated(10, ("b", "c"), ("a", "b"), ("size", None))
SWAP = stated(10, ("a", "b"), ("b", "a"), ("size", None))
ANEW = stated(10, ("z", None), ("size", None), (None, "size"))
NAMES = ("id", "a", "b", "c", "z", "size", "size__dropped")
PLAN = TablePlan(
    Source("", "", "orders"), "shop", "orders",
    tuple(PlannedColumn(name, STRING, {}) for name in NAMES),
    ("id",), KEEPING, TableSummary(Source("", "", "orders"), records=1), declared=(),
)  # fmt: skip


@pytest.mark.parametrize(
    ("first", "later", "then", "former"),
    [
        pytest.param([SHIFT], [SHIFT, ADD], KEEPING, "size__dropped", id="the name is used again"),
        pytest.param([SHIFT], [SHIFT], DROPPING, NOWHERE, id="dropped columns leave since"),
        pytest.param([SHIFT, ADD], [SHIFT, ADD], DROPPING, NOWHERE, id="both"),
        pytest.param([SWAP], [SWAP, ADD], KEEPING, "size__dropped", id="a swap"),
        pytest.param([SWAP, ADD], [SWAP, ADD], DROPPING, NOWHERE, id="a swap, and leave since"),
        pytest.param([ANEW], [ANEW], DROPPING, NOWHERE, id="nothing else is renamed"),
    ],
)
def test_a_statement_renames_once_however_its_drop_was_read_before(
    first: list[ColumnStatement], later: list[ColumnStatement], then: TableConfig, former: str
) -> None:
    before = known_renames(PLAN, renames_from(first, KEEPING), ())
    stated_now = renames_from(later, then)
    now = known_renames(PLAN, stated_now, before)
    assert now == known_renames(PLAN, stated_now, ()) == known_renames(PLAN, stated_now, now)
    assert name_at(now, "size", below(9)) == former
    assert clash(before, now, NAMES, {}, ()) is None
    refuse_other_names(PLAN, "batch", before, now, stated_now)


def test_a_column_that_is_added_again_in_the_statement_that_drops_it_keeps_nothing() -> None:
    before = known_renames(PLAN, renames_from([ANEW], KEEPING), ())
    now = known_renames(PLAN, renames_from([ANEW], DROPPING), before)
    assert dropped_since(before, now) == {"size__dropped"}


def test_what_went_nowhere_stays_there_when_columns_are_kept_again() -> None:
    gone = known_renames(PLAN, renames_from([SHIFT], DROPPING), ())
    kept = renames_from([SHIFT, ADD], KEEPING)
    assert known_renames(PLAN, kept, gone) == gone
    refuse_other_names(PLAN, "batch", gone, gone, kept)


def test_a_plan_without_a_rename_that_stored_rows_have_is_stale() -> None:
    kept = renames_from([SHIFT], KEEPING)
    with pytest.raises(TransientError, match="columns were renamed"):
        refuse_other_names(PLAN, "batch", kept, (), ())
    with pytest.raises(TransientError, match="columns were renamed"):
        refuse_other_names(PLAN, "batch", (), (), kept)
