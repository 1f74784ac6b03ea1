"""moves: a row whose key changes keeps what the change did not carry, without a lake."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from itertools import count
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from spark_jobs.canonical import ALL_BUT, OP_DELETE
from spark_jobs.folding.floor import Floor, since_floor
from spark_jobs.folding.fold import fold_columns
from spark_jobs.folding.moves import connected_keys, moves, with_moved_values
from spark_jobs.folding.versions import ENDED_AT, versions
from spark_jobs.verifying.recompute import recompute, rows_of
from tests import reference
from tests.reference import Change
from tests.spark.histories import Step, drawn, of_table, play

pytestmark = pytest.mark.spark

KEY, DATA = ("n", "id"), ("n", "id", "text", "doc")
COLUMNS = "n int, id int, text string, doc string"
STORED = f"{COLUMNS}, _position string, _source_ts timestamp, _batch_id string"
CHANGES = (
    f"{STORED}, _op string, _absent array<string>, _counted boolean, _origin_file string, "
    "_origin_record bigint"
)
EVER = datetime(2026, 3, 2, tzinfo=UTC)
RECORDS = count()


def change(
    at: str, op: str, ident: int, *values: str | None, absent: Sequence[str] | None = None
) -> tuple[Any, ...]:
    """A change of one row, as the changelog has it."""
    text, doc = (*values, None, None)[:2]
    return (0, ident, text, doc, at, EVER, "batch", op, absent, True, "file", next(RECORDS))


def renamed(
    at: str, old: int, new: int, *values: str | None, absent: Sequence[str] | None = None
) -> list[tuple[Any, ...]]:
    """An update of one record that changes the key: the halves that it is decoded to."""
    gone = change(f"{at}.0", "delete", old)
    comes = change(f"{at}.1", "update", new, *values, absent=absent)
    return [(*gone[:9], False, *comes[10:]), comes]


def of_case(n: int, changes: Iterable[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """Changes with keys and places of their own, so that many cases are one table."""
    return [(n, *told[1:4], told[4].replace(".", f".{n:03}.", 1), *told[5:]) for told in changes]


def frame(spark: SparkSession, changes: Iterable[tuple[Any, ...]]) -> DataFrame:
    return spark.createDataFrame(list(changes), CHANGES).localCheckpoint()


def filled(log: DataFrame, truncates: DataFrame | None = None) -> DataFrame:
    return with_moved_values(log, moves(log, KEY), truncates, KEY, DATA)


UNSENT = ["doc"]
MOVED = [
    change("10.1", "insert", 1, "a", "big"),
    change("20.0", "delete", 1),
    change("20.1", "insert", 2, "b", absent=UNSENT),
]
AFTER_MOVED = [
    *renamed("30", 2, 3, absent=[ALL_BUT, "id", "n"]),
    *renamed("40", 3, 4, "d", absent=UNSENT),
    *renamed("50", 4, 5, absent=["text", "doc"]),
]
TWO = [change("10.1", "insert", 1, "a", "one"), change("11.1", "insert", 2, "b", "two")]
NUMBERED = [change("7.101.1", "insert", 1, "a", "one"), change("7.102.1", "insert", 2, "b", "two")]
THIRD = change("20.1", "insert", 3, "c", absent=UNSENT)
# Changes, and text and doc of the rows that are left, by id.
CASES: dict[str, tuple[list[tuple[Any, ...]], dict[int, tuple[str | None, str | None]]]] = {
    "one move": (MOVED, {2: ("b", "big")}),
    "a chain": ([*MOVED, *AFTER_MOVED[:2]], {3: ("b", "big")}),
    "a long chain": ([*MOVED, *AFTER_MOVED], {5: ("d", "big")}),
    "a swap": ([
        change("10.1", "insert", 1, "a", "one"), change("11.1", "insert", 2, "b", "two"),
        change("20.0", "delete", 1), change("20.1", "insert", 3, "a", absent=UNSENT),
        change("21.0", "delete", 2), change("21.1", "insert", 1, "b", absent=UNSENT),
        change("22.0", "delete", 3), change("22.1", "insert", 2, "a", absent=UNSENT),
    ], {1: ("b", "two"), 2: ("a", "one")}),
    "earlier and later rows of the old key": ([
        change("05.1", "insert", 1, "x", "earlier"), change("06.0", "delete", 1),
        change("10.1", "insert", 1, "a", absent=UNSENT), *MOVED[1:],
        change("30.1", "insert", 1, "y", "later"),
    ], {1: ("y", "later"), 2: ("b", None)}),
    "what the new key had is another row's": ([
        change("05.1", "insert", 2, "x", "not its own"),
        change("10.1", "update", 1, "a", absent=UNSENT), *MOVED[1:],
    ], {2: ("b", None)}),
    "of a row that nobody knows": ([
        change("05.1", "insert", 2, "x", "its own"), *MOVED[1:],
    ], {2: ("b", "its own")}),
    "told again later": ([
        *MOVED, change("30.0", "delete", 1), change("30.1", "update", 2, "c", absent=UNSENT),
    ], {2: ("c", "big")}),
    "where it went is told again": ([
        *MOVED, *AFTER_MOVED[:2],
        *renamed("32", 2, 3, "c", absent=UNSENT),
    ], {3: ("c", "big")}),
    "nor is it handed on": ([
        change("05.1", "insert", 2, "x", "not its own"),
        change("10.1", "update", 1, "a", absent=UNSENT), *MOVED[1:], *AFTER_MOVED[:2],
    ], {3: ("b", None)}),
    "back to a key that it had": ([
        *MOVED, *renamed("30", 2, 1, "c", absent=UNSENT),
    ], {1: ("c", "big")}),
    "everything twice": (MOVED * 2, {2: ("b", "big")}),
    "two rows go": ([*MOVED, change("20.0", "delete", 9)], {2: ("b", None)}),
    "two rows come": ([*MOVED, THIRD], {2: ("b", None), 3: ("c", None)}),
    "a delete beside another row's update": ([
        *TWO, change("20.0", "delete", 1), change("20.1", "update", 2, "c", absent=UNSENT),
    ], {2: ("c", "two")}),
    "a key's change beside other rows' changes": ([
        *TWO, change("12.1", "insert", 3, "x", "three"), change("20.0", "delete", 1),
        *renamed("20", 3, 4, "d", absent=UNSENT), change("20.1", "update", 2, absent=[ALL_BUT]),
        change("20.1", "insert", 5, "e", absent=UNSENT),
    ], {2: ("b", "two"), 4: ("d", "three"), 5: ("e", "one")}),
    "two changes of keys at one place": ([
        *TWO, *renamed("20", 1, 3, absent=UNSENT), *renamed("20", 2, 4, "d", absent=UNSENT),
        *renamed("30", 4, 6, "f", absent=UNSENT),
    ], {3: (None, "one"), 6: ("f", "two")}),
    "one change of a key, sent twice": ([
        *TWO, *renamed("20", 1, 3, "c", absent=UNSENT), *renamed("20", 1, 3, "c", absent=UNSENT),
    ], {2: ("b", "two"), 3: ("c", "one")}),
    "a half that tells its old key": ([
        change("7.101.1", "insert", 1, "a", "big"), change("7.103~.0", "delete", 1),
        *renamed("7.103~102", 1, 2, "b", absent=UNSENT),
    ], {2: ("b", "big")}),
    "halves with two numbers": ([
        change("7.101.1", "insert", 1, "a", "big"), change("7.102~.0", "delete", 1),
        change("7.103~102.1", "update", 2, "b", absent=UNSENT),
    ], {2: ("b", "big")}),
    "halves with one number": ([
        change("7.101.1", "insert", 1, "a", "big"), change("7.103~.0", "delete", 1),
        change("7.103~102.1", "update", 2, "b", absent=UNSENT),
    ], {2: ("b", "big")}),
    "halves that follow each other": ([
        *NUMBERED,
        change("7.103~.0", "delete", 1), change("7.103~102.1", "update", 3, absent=UNSENT),
        change("7.104~.0", "delete", 2), change("7.104~103.1", "update", 4, absent=UNSENT),
    ], {3: (None, "one"), 4: (None, "two")}),
    "a swap of halves with one number each": ([
        *NUMBERED,
        change("7.105~.0", "delete", 1), change("7.105~104.1", "update", 3, absent=[ALL_BUT]),
        change("7.106~.0", "delete", 2), change("7.106~105.1", "update", 1, absent=[ALL_BUT]),
        change("7.107~.0", "delete", 3), change("7.107~106.1", "update", 2, absent=[ALL_BUT]),
    ], {1: ("b", "two"), 2: ("a", "one")}),
}  # fmt: skip


def log_of(steps: list[list[Step]]) -> list[Change]:
    """A random history of a few keys that are used again and again."""
    return [c for source in play(steps, truncates=False) for c in source.log]


HISTORIES = {n: of_table(log_of(drawn(n)), "partial") for n in range(100, 140)}


def in_changelog(told: Change) -> list[tuple[Any, ...]]:
    """A change of the reference as changes of the changelog: halves where its key changes."""
    at = f"{told.place[0]}.{told.place[1]:03}"
    before, after = (dict(image or ()) for image in (told.before, told.after))
    old, new = (int(str(image.get("id", 0))) for image in (before, after))
    sent: Any = [None if c in told.absent else after.get(c) for c in ("text", "doc")]
    absent = sorted(told.absent) or None
    if not after:
        return [change(f"{at}.0", "delete", old)]
    if before and old != new:
        return renamed(at, old, new, *sent, absent=absent)
    op = "insert" if told.op == "c" else "update"
    return [change(f"{at}.1", op, new, *sent, absent=absent)]


@pytest.fixture(scope="module")
def log(spark: SparkSession) -> DataFrame:
    """All cases and histories as one changelog."""
    rows = [row for n, (changes, _) in enumerate(CASES.values()) for row in of_case(n, changes)]
    for n, history in HISTORIES.items():
        rows += of_case(n, [row for each in history for row in in_changelog(each)])
    return frame(spark, rows)


Rows = dict[int, list[tuple[Any, ...]]]


def by_case(rows: DataFrame) -> Rows:
    found: Rows = {}
    for row in rows.select(*DATA).collect():
        found.setdefault(row["n"], []).append((row["id"], row["text"], row["doc"]))
    return {n: sorted(told, key=repr) for n, told in found.items()}


@pytest.fixture(scope="module", params=["the merge", "the verifier"])
def left(request: pytest.FixtureRequest, log: DataFrame) -> Rows:
    """The rows that are left, by both ways."""
    if request.param == "the verifier":
        return by_case(rows_of(recompute(log, KEY, DATA, partial=True)))
    return by_case(fold_columns(filled(log), KEY, DATA).where(F.col("_op") != OP_DELETE))


@pytest.mark.parametrize("name", CASES)
def test_a_moved_row_keeps_what_was_not_sent(left: Rows, name: str) -> None:
    wanted = CASES[name][1]
    assert left[list(CASES).index(name)] == [(i, *values) for i, values in sorted(wanted.items())]


def test_random_histories_end_as_the_reference_says(left: Rows) -> None:
    for n, history in HISTORIES.items():
        rows = (dict(row) for row in reference.keyed(history, "id"))
        assert left.get(n, []) == sorted(map(shown, rows), key=repr), n


def shown(values: dict[str, Any]) -> tuple[Any, ...]:
    return (values["id"], values["text"], values["doc"])


def marks(spark: SparkSession, *positions: str) -> DataFrame:
    told = [(position, EVER) for position in positions]
    return spark.createDataFrame(told, "_position string, _source_ts timestamp")


@pytest.mark.long
def test_random_histories_have_the_reference_s_versions(
    spark: SparkSession, log: DataFrame
) -> None:
    none = marks(spark)
    found = by_case(versions(filled(log, none), none, KEY, DATA))
    for n, history in HISTORIES.items():
        wanted = [shown(version.values) for version in reference.versions(history, "id")]
        assert found[n] == sorted(wanted, key=repr), n


def test_a_truncate_ends_what_a_moved_row_was(spark: SparkSession) -> None:
    """In a history all of them count, not the newest alone."""
    truncates, moved = marks(spark, "15.1", "90.1"), frame(spark, MOVED)
    found = versions(filled(moved, truncates), truncates, KEY, DATA).where("id = 2").collect()
    assert [(row["doc"], row[ENDED_AT]) for row in found] == [(None, "90.1")]


def test_tied_keys_are_found_from_either_end(spark: SparkSession) -> None:
    log = frame(spark, [
        *MOVED, *AFTER_MOVED[:2], change("32.1", "insert", 7),
        change("31.0", "delete", 8), change("31.1", "insert", 9, absent=UNSENT),
    ])  # fmt: skip
    moved = moves(log, KEY)
    assert moved is not None
    for ident in (1, 3):
        keys = spark.createDataFrame([(0, ident), (0, 7)], "n int, id int")
        assert {row["id"] for row in connected_keys(keys, moved, KEY).collect()} == {1, 2, 3}


def test_no_delete_beside_a_partial_change_no_moves(spark: SparkSession) -> None:
    apart = [MOVED[0], change("19.0", "delete", 1), MOVED[2]]
    assert moves(frame(spark, apart), KEY) is None


# What is stored, each with its position, and what the moved row has then.
STANDING: list[tuple[list[tuple[int, str, str, str]], str | None]] = [
    ([(1, "a", "big", "03.1")], "big"),
    ([(1, "new", "not mine", "30.1"), (2, "b", "big", "20.1")], "big"),
    ([(1, "new", "not mine", "30.1")], None),
]


def test_a_stored_row_stands_for_what_is_forgotten(spark: SparkSession) -> None:
    """Of a row that got the old key later the columns say nothing of the one that moved."""
    known = [*MOVED[1:], change("30.1", "update", 1, "new", absent=UNSENT)]
    log = frame(spark, [row for n in range(len(STANDING)) for row in of_case(n, known)])
    rows = spark.createDataFrame(
        [(n, *row, EVER, "batch") for n, (stored, _) in enumerate(STANDING) for row in stored],
        STORED,
    )
    stood = since_floor(log, rows, log.select(*KEY).distinct(), Floor("05", KEY))
    completed = with_moved_values(stood, moves(log, KEY), None, KEY, DATA)
    found = fold_columns(completed, KEY, DATA).where("id = 2").orderBy("n").collect()
    assert [row["doc"] for row in found] == [wanted for _, wanted in STANDING]


# A later change of a key that both rows had, and the rows that are left.
AFTER_SWAP: list[tuple[list[tuple[Any, ...]], list[tuple[int, str, str]]]] = [
    ([change("30.1", "update", 1, "c", absent=UNSENT)], [(1, "c", "two"), (2, "a", "one")]),
    (renamed("30", 1, 5, "c", absent=UNSENT), [(2, "a", "one"), (5, "c", "two")]),
]


def test_stored_rows_that_were_swapped_stand_where_their_keys_are_used_again(
    spark: SparkSession,
) -> None:
    """What both had before the swap is forgotten; a later change of one brings both up."""
    swap = [folded for folded in CASES["a swap"][0] if folded[4] > "15"]
    cases = list(enumerate(AFTER_SWAP))
    log = frame(spark, [row for n, (later, _) in cases for row in of_case(n, [*swap, *later])])
    stored = [
        row
        for n, _ in cases
        for row in of_case(n, [(0, 1, "b", "two", "21.1"), (0, 2, "a", "one", "22.1")])
    ]
    rows = spark.createDataFrame([(*row, EVER, "batch") for row in stored], STORED)
    stood = since_floor(log, rows, log.select(*KEY).distinct(), Floor("15", KEY))
    folded = fold_columns(with_moved_values(stood, moves(log, KEY), None, KEY, DATA), KEY, DATA)
    left = by_case(folded.where(F.col("_op") != OP_DELETE))
    assert left == {n: wanted for n, (_, wanted) in cases}
