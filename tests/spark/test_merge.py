"""Cases of the merge that once went wrong, each as small as it can be told."""

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


def test_a_late_truncate_takes_what_later_rows_were_completed_with(lake: Sandbox) -> None:
    """A value that an update left out is not taken over from before a TRUNCATE."""
    whole = Change("keyed", "c", (1, 1), after=row({"id": 1, "text": "old", "doc": "before"}))
    sent = {"id": 1, "text": "new", "doc": PLACEHOLDER}
    update = Change("keyed", "u", (1, 3), after=row(sent))
    lake.load_records([event(change, "emptied") for change in (whole, update)])
    lake.load_records([event(Change("keyed", "t", (1, 2)), "emptied")])
    (left,) = lake.rows("emptied_keyed")
    assert (left["text"], left["doc"]) == ("new", None)


def test_a_tie_does_not_depend_on_which_column_came_first(lake: Sandbox) -> None:
    """The columns of a table stand in the order in which its batches brought them."""
    tied = [
        Change("keyed", "c", (1, 9 + key), after=row({"id": key, "a": f"{half}{key}", "b": other}))
        for key in range(12)
        for half, other in (("p", "q"), ("r", "s"))
    ]
    lake.load_records([event(Change("keyed", "c", (1, 1), after=row({"id": 99, "b": "x"})), "b_a")])
    for database in ("a_b", "b_a"):
        lake.load_records([event(change, database) for change in tied])
    rows = {name: shown(lake, name, "keyed") for name in ("a_b", "b_a")}
    assert rows["a_b"] == [r for r in rows["b_a"] if ("id", 99) not in r]
