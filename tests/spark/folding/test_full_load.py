"""A second full load, declared for an epoch: it replaces rows, and what it lacks is gone."""

from __future__ import annotations

import random
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from sluice.errors import AuditFailedError
from sluice.operations import refolding, stages
from sluice.result import BatchResult, Counts
from spark_jobs.lake.cut import Cutter
from spark_jobs.verifying.changelogs import verify
from tests import reference
from tests.spark.deliveries import Delivery, written
from tests.spark.dialects.debezium import DIALECT
from tests.spark.histories import TABLES as PLAYED
from tests.spark.histories import as_rows, drawn, meaning, play
from tests.spark.sandbox import NAMESPACE, Sandbox, total

pytestmark = pytest.mark.spark

KEY = {"key": ["id"], "columns": {"id": "int"}}
TABLES: dict[str, dict[str, Any]] = {
    "orders": KEY | {"modes": ["current", "history"]},
    "notes": KEY | {"modes": ["soft_delete"]},
    "lines": {"key": [], "columns": {"id": "int"}},
}
DECLARED = 50
FULL_LOADS = [{"epoch": 1, "at": "1970-01-01T00:50:00Z"}]
Row = dict[str, Any]
Told = tuple[str, int, int, str, str | None]

# The kind of change, position, minute, key with the old value (None: none), and the new one.
BEFORE: list[Told] = [("c", 1000 + n, n, f"{n}", "old") for n in range(1, 5)]
LATE: list[Told] = [
    ("u", 2001, 11, "1 old", "late"), ("d", 2002, 12, "2 old", None), ("c", 2003, 13, "9", "late"),
]  # fmt: skip
LOAD: list[Told] = [("r", 1, 60, "1", "new"), ("r", 1, 60, "2", "new")]
REST: list[Told] = [
    ("r", 1, 60, "3", "new"), ("u", 5, 61, "2 new", "changed"), ("c", 6, 62, "5", "new"),
]  # fmt: skip
ROWS = [(1, "new"), (2, "changed"), (3, "new"), (5, "new")]


@pytest.fixture
def lake(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Sandbox:
    """Tables with a history, with soft deletes, without a key; drivers run in this process."""
    return Sandbox(spark, tmp_path, {"format": "debezium"}).driven(monkeypatch)


def event(table: str, told: Told) -> Row:
    op, lsn, minute, key, value = told
    ident, _, old = key.partition(" ")
    source = {
        "connector": "postgresql", "db": "d", "schema": "s", "table": table, "lsn": lsn,
        "ts_ms": minute * 60_000, "snapshot": "true" if op == "r" else "false",
    }  # fmt: skip
    before = {"id": int(ident), "v": old} if old else None
    after = None if value is None else {"id": int(ident), "v": value}
    return {"op": op, "before": before, "after": after, "source": source}


@pytest.mark.long
def test_second_full_load_is_one_truncate_among_the_events(lake: Sandbox) -> None:
    """Each batch of the epoch has its beginning, whichever comes first."""
    tables = {"orders": KEY | {"modes": ["current", "append"]}}
    last: list[Told] = [("c", 7, 63, "6", "new")]
    for number, changes in enumerate((LOAD, REST, last)):
        load(lake, f"{number}.jsonl", 1, changes, tables=tables)
    ops = [row["_op"] for row in lake.rows("orders__events", metadata=True)]
    assert ops.count("truncate") == 1
    assert lake.agrees()


def load(lake: Sandbox, name: str, epoch: int, changes: list[Told], **pipeline: Any) -> BatchResult:
    """Land the changes for every table and load them, as one batch of an epoch."""
    config = {"tables": TABLES, "full_loads": FULL_LOADS, "epoch": epoch, **pipeline}
    lake.configure(format="debezium", **config)
    lake.write(name, [event(table, one) for table in config["tables"] for one in changes])
    (result,), failure = stages.run(lake.context())
    assert failure is None
    assert total(result).balanced
    return result


def rows(lake: Sandbox, table: str) -> list[tuple[int, str]]:
    return sorted((row["id"], row["v"]) for row in lake.rows(table))


def spans(lake: Sandbox, table: str, since: str, until: str) -> list[tuple[Any, ...]]:
    """Every version that a table holds, with the minutes at which it began and ended."""
    found = lake.rows(table, metadata=True)
    return sorted(
        ((r["id"], r["v"], _minute(r[since]), _minute(r[until])) for r in found), key=repr
    )


def _minute(at: datetime | None) -> int | None:
    return None if at is None else round(at.timestamp() / 60)


def refuse_difference(lake: Sandbox) -> None:
    """All tables are what the full load and the changes since make of them."""
    assert rows(lake, "orders") == ROWS
    assert rows(lake, "lines") == ROWS
    assert spans(lake, "notes", "_source_ts", "_deleted_at") == [
        (1, "new", 60, None), (2, "changed", 61, None), (3, "new", 60, None),
        (4, "old", 4, DECLARED), (5, "new", 62, None), (9, "late", 13, DECLARED),
    ]  # fmt: skip
    assert spans(lake, "orders__history", "_valid_from", "_valid_to") == [
        (1, "late", 11, DECLARED), (1, "new", 60, None), (1, "old", 1, 11),
        (2, "changed", 61, None), (2, "new", 60, 61), (2, "old", 2, 12),
        (3, "new", 60, None), (3, "old", 3, DECLARED), (4, "old", 4, DECLARED),
        (5, "new", 62, None), (9, "late", 13, DECLARED),
    ]  # fmt: skip
    cutter = Cutter(lake.catalog, lake.context().ledger, NAMESPACE)
    found = verify(lake.spark, cutter, None)
    assert [table.agrees for table in found.tables] == [True] * len(TABLES), found


@pytest.mark.long
def test_a_full_load_over_two_batches_takes_the_place_of_what_was_before(lake: Sandbox) -> None:
    load(lake, "a.jsonl", 0, BEFORE)
    assert rows(lake, "orders") == [(n, "old") for n in range(1, 5)]
    load(lake, "b.jsonl", 1, LOAD)
    assert rows(lake, "orders") == rows(lake, "lines") == [(1, "new"), (2, "new")]
    late = load(lake, "c.jsonl", 0, LATE)
    assert total(late) == Counts(read=9, applied=3, late=6), "rows without a key are in no order"
    last = load(lake, "d.jsonl", 1, REST)
    orders = next(table for table in last.tables if table.target == "shop.orders")
    assert {table.name for table in orders.staged} == {"orders", "orders__history"}
    refuse_difference(lake)


@pytest.mark.long
def test_a_table_of_which_nothing_was_accepted_keeps_its_rows(lake: Sandbox) -> None:
    """A record that does not fit is no event yet; nor is another table's."""
    tables = {"orders": KEY, "quiet": KEY, "odd": KEY}
    load(lake, "a.jsonl", 0, BEFORE, tables=tables)
    load(lake, "b.jsonl", 1, LOAD, tables={"orders": KEY})
    lake.write("c.jsonl", [event("odd", LOAD[0]) | {"after": {"id": "one", "v": "new"}}])
    lake.configure(
        format="debezium", tables=tables, full_loads=FULL_LOADS, epoch=1, max_bad_share=1.0
    )
    stages.run(lake.context())
    assert len(lake.quarantined()) == 1
    assert rows(lake, "orders") == [(1, "new"), (2, "new")]
    assert rows(lake, "quiet") == rows(lake, "odd") == [(n, "old") for n in range(1, 5)]


def test_a_full_load_that_drops_more_than_the_table_may_lose_is_stopped(lake: Sandbox) -> None:
    tables = {"orders": KEY | {"max_row_swing": 0.5}}
    many: list[Told] = [("c", n, n, str(n), "old") for n in range(1, 102)]
    load(lake, "a.jsonl", 0, many, tables=tables)
    lake.configure(format="debezium", tables=tables, full_loads=FULL_LOADS, epoch=1)
    lake.write("b.jsonl", [event("orders", one) for one in LOAD])
    _, failure = stages.run(lake.context())
    assert isinstance(failure, AuditFailedError)
    assert "from 101 rows to 2" in str(failure)
    assert "Epoch 1 begins with a full load" in str(failure)
    assert len(rows(lake, "orders")) == 101


@pytest.mark.long
def test_older_epochs_stay_below_a_second_full_load_in_any_order(lake: Sandbox) -> None:
    """Newest first; then the batch that brought the load's beginning is undone, and comes again."""
    load(lake, "d.jsonl", 1, REST)
    load(lake, "c.jsonl", 0, LATE)
    load(lake, "a.jsonl", 0, BEFORE)
    first = load(lake, "b.jsonl", 1, LOAD)
    refuse_difference(lake)
    load(lake, "again.jsonl", 1, LOAD[::-1])
    refuse_difference(lake)
    refolding.undo_or_refold(lake.context(), first.batch_id)
    refuse_difference(lake)


@pytest.mark.long
def test_without_any_batch_of_the_epoch_the_rows_of_before_are_back(lake: Sandbox) -> None:
    load(lake, "a.jsonl", 0, BEFORE)
    batch = load(lake, "b.jsonl", 1, LOAD)
    load(lake, "c.jsonl", 0, LATE)
    refolding.undo_or_refold(lake.context(), batch.batch_id)
    kept = [(1, "late"), (3, "old"), (4, "old"), (9, "late")]
    assert rows(lake, "orders") == rows(lake, "lines") == kept
    assert spans(lake, "orders__history", "_valid_from", "_valid_to") == [
        (1, "late", 11, None), (1, "old", 1, 11), (2, "old", 2, 12), (3, "old", 3, None),
        (4, "old", 4, None), (9, "late", 13, None),
    ]  # fmt: skip


@pytest.mark.long
def test_an_epoch_that_comes_late_ends_what_was_before_it(lake: Sandbox) -> None:
    """By its own opening, though the table has had that of a later one."""
    twice = [*FULL_LOADS, {"epoch": 2, "at": "1970-01-01T01:40:00Z"}]
    given = {"tables": {"orders": TABLES["orders"]}, "full_loads": twice}
    load(lake, "a.jsonl", 0, BEFORE[:2], **given)
    load(lake, "c.jsonl", 2, [("r", 1, 120, "1", "newest")], **given)
    load(lake, "b.jsonl", 1, LOAD, **given)
    assert rows(lake, "orders") == [(1, "newest")]
    assert spans(lake, "orders__history", "_valid_from", "_valid_to") == [
        (1, "new", 60, 100), (1, "newest", 120, None), (1, "old", 1, DECLARED),
        (2, "new", 60, 100), (2, "old", 2, DECLARED),
    ]  # fmt: skip


@pytest.mark.long
@pytest.mark.parametrize("seed", [1, 2])
def test_rows_depend_on_the_set_of_events_of_all_epochs(lake: Sandbox, seed: int) -> None:
    """Three epochs, each another life of the tables; their batches come in no order.

    The second begins with a full load, the third does not, and has changes of one table only.
    """
    lives = [play([steps[:15] for steps in drawn(10 * seed + epoch)]) for epoch in range(3)]
    epochs = [[change for source in life for change in source.log] for life in lives]
    epochs[2] = [change for change in epochs[2] if change.table == "keyed"]
    turns = [
        (epoch, batch)
        for epoch, log in enumerate(epochs)
        for batch in Delivery(seed + epoch, 2, 9, False).split(log, DIALECT, "db")
    ]
    random.Random(seed).shuffle(turns)
    for epoch, batch in turns:
        lake.configure(
            **DIALECT.pipeline("", PLAYED) | {"table_name": "{table}"},
            epoch=epoch, full_loads=FULL_LOADS, on_position_reset="accept",
        )  # fmt: skip
        files = [(f"{epoch}/{name}", file) for name, file in batch.items() if file]
        lake.load(*(written(lake, DIALECT, name, file) for name, file in files))
    history = reference.over_epochs(epochs, {1})
    for table in PLAYED:
        assert as_rows(lake.rows(table)) == meaning(history, table), table


@pytest.mark.long
def test_an_epoch_that_is_not_declared_keeps_what_it_does_not_bring(lake: Sandbox) -> None:
    load(lake, "a.jsonl", 0, BEFORE, full_loads=[])
    load(lake, "b.jsonl", 1, LOAD, full_loads=[])
    kept = [(1, "new"), (2, "new"), (3, "old"), (4, "old")]
    assert rows(lake, "orders") == kept
