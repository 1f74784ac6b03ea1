"""Cases in which the merge once went wrong, each as small as possible."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from tests.reference import Change, row
from tests.spark.deliveries import shown
from tests.spark.dialects.debezium import DIALECT, PLACEHOLDER, event
from tests.spark.histories import TABLES, KeylessSource, meaning
from tests.spark.sandbox import Sandbox

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def lake(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Sandbox:
    """One lake for all cases; each has a database of its own in it."""
    return Sandbox(spark, tmp_path_factory.mktemp("merge"), DIALECT.pipeline("", TABLES))


def test_a_late_truncate_gives_deletes_their_rows_back(lake: Sandbox) -> None:
    """A delete from after the TRUNCATE has to take a row from after it, whatever came first."""
    source = KeylessSource("keyless")
    equal = {"x": 1, "text": "a"}
    for op in ("c", "t", "c", "c", "d"):
        source.write(op, **{"t": {}, "c": {"after": equal}, "d": {"before": equal}}[op])
    records = [event(change, "late") for change in source.log]
    lake.load_records([r for r in records if r["op"] != "t"])
    lake.load_records([r for r in records if r["op"] == "t"])
    assert shown(lake, "late", "keyless") == meaning(source.log, "keyless") == [row(equal)]


@pytest.mark.long
def test_a_late_truncate_lets_go_of_what_a_delete_before_it_had_taken(lake: Sandbox) -> None:
    """A delete of a row from before the capture had taken the next equal row."""
    equal = {"x": 1, "text": "a"}
    early, row_after = (
        Change("keyless", "d", (1, 3), before=row(equal)),
        Change("keyless", "c", (1, 5), after=row(equal)),
    )
    lake.load_records([event(change, "cut") for change in (early, row_after)])
    lake.load_records([event(Change("keyless", "t", (1, 4)), "cut")])
    assert shown(lake, "cut", "keyless") == [row(equal)]


@pytest.mark.long
def test_a_tie_is_settled_alike_in_one_batch_and_in_two(lake: Sandbox) -> None:
    """Different contents at one position: the same one wins, together or one after the other."""
    tied = [
        [Change("keyed", "c", (1, key), after=row({"id": key, "text": f"{half} {key}"}))
         for key in range(12)]
        for half in ("one", "other")
    ]  # fmt: skip
    lake.load_records([event(change, "together") for half in tied for change in half])
    for half in tied:
        lake.load_records([event(change, "apart") for change in half])
    assert shown(lake, "together", "keyed") == shown(lake, "apart", "keyed")


@pytest.mark.long
def test_a_late_truncate_takes_what_later_rows_were_completed_with(lake: Sandbox) -> None:
    """A value that an update left out is not taken over from before a TRUNCATE."""
    whole = Change("keyed", "c", (1, 1), after=row({"id": 1, "text": "old", "doc": "before"}))
    sent = {"id": 1, "text": "new", "doc": PLACEHOLDER}
    update = Change("keyed", "u", (1, 3), after=row(sent))
    lake.load_records([event(change, "emptied") for change in (whole, update)])
    lake.load_records([event(Change("keyed", "t", (1, 2)), "emptied")])
    (left,) = lake.rows("emptied_keyed")
    assert (left["text"], left["doc"]) == ("new", None)


def test_a_tie_depends_neither_on_batches_nor_on_which_column_came_first(lake: Sandbox) -> None:
    """The columns of a table stand in the order in which its batches brought them."""
    tied = [
        Change("keyed", "c", (1, 9 + key), after=row({"id": key, "a": f"{half}{key}", "b": other}))
        for key in range(12)
        for half, other in (("p", "s"), ("r", "q"))
    ]
    lake.load_records([event(Change("keyed", "c", (1, 1), after=row({"id": 99, "b": "x"})), "b_a")])
    for database, part in (("a_b", tied), ("b_a", tied[::2]), ("b_a", tied[1::2])):
        lake.load_records([event(change, database) for change in part])
    rows = {name: shown(lake, name, "keyed") for name in ("a_b", "b_a")}
    assert len(rows["a_b"]) == 12
    assert rows["a_b"] == [r for r in rows["b_a"] if ("id", 99) not in r]


BIG = {"id": 1, "text": "a", "doc": "big"}
UNSENT = frozenset({"doc"})
MOVES = {
    "row": [Change("partial", "c", (1, 1), after=row(BIG))],
    "moved": [
        Change("partial", "d", (1, 4), before=row(BIG)),
        Change("partial", "c", (1, 4), after=row(BIG | {"id": 2}), absent=UNSENT),
    ],
    "again": [
        Change("partial", "u", (1, 6), before=row(BIG | {"id": 2}), after=row(BIG | {"id": 3}),
               absent=UNSENT),
    ],
}  # fmt: skip


@pytest.mark.parametrize(
    "order",
    [
        pytest.param(("moved", "again", "row"), marks=pytest.mark.long),
        pytest.param(("row", "moved", "again"), marks=pytest.mark.long),
        pytest.param(("again", "row", "moved"), marks=pytest.mark.long),
    ],
    ids="-".join,
)
def test_a_row_that_gets_another_key_keeps_what_was_not_sent(
    lake: Sandbox, order: tuple[str, ...]
) -> None:
    """Only the old key's changes have the value, whichever batch brings them."""
    database = "moved_" + "_".join(order)
    for name in order:
        lake.load_records([event(change, database) for change in MOVES[name]])
    log = [change for changes in MOVES.values() for change in changes]
    assert shown(lake, database, "partial") == meaning(log, "partial")
    assert [(r["id"], r["doc"]) for r in lake.rows(f"{database}_partial")] == [(3, "big")]


@pytest.mark.long
def test_a_late_change_of_a_moved_row_is_found_beneath_a_newer_row_of_its_old_key(
    lake: Sandbox,
) -> None:
    """The batch's newest change of the old key applies; an older one is still news of the other."""
    late = [
        Change("partial", "u", (1, 2), after=row(BIG | {"doc": "late"})),
        Change("partial", "c", (1, 9), after=row(BIG | {"doc": "another"})),
    ]
    log = [*MOVES["row"], *MOVES["moved"]]
    lake.load_records([event(change, "reused") for change in log])
    lake.load_records([event(change, "reused") for change in late])
    assert shown(lake, "reused", "partial") == meaning([*log, *late], "partial")
    assert {r["id"]: r["doc"] for r in lake.rows("reused_partial")} == {1: "another", 2: "late"}


@pytest.mark.long
def test_a_second_delete_at_a_place_takes_back_what_a_move_gave(lake: Sandbox) -> None:
    """Nobody can tell any more which row went where."""
    other = Change("partial", "d", (1, 4), before=row(BIG | {"id": 8}))
    lake.load_records([event(c, "two") for c in (*MOVES["row"], *MOVES["moved"])])
    assert [r["doc"] for r in lake.rows("two_partial")] == ["big"]
    lake.load_records([event(other, "two")])
    assert [r["doc"] for r in lake.rows("two_partial")] == [None]


def test_of_a_late_change_of_a_key_the_old_half_may_be_all_that_applies(lake: Sandbox) -> None:
    """A newer row has the new key; that the old one is gone is news all the same."""
    old, new = {"id": 1, "text": "a"}, {"id": 2, "text": "a"}
    late = Change("keyed", "u", (1, 2), before=row(old), after=row(new))
    known = [
        Change("keyed", "c", (1, 1), after=row(old)),
        Change("keyed", "u", (1, 3), after=row(new | {"text": "b"})),
    ]
    for change in (*known, late):
        lake.load_records([event(change, "half")])
    assert shown(lake, "half", "keyed") == meaning([*known, late], "keyed")
