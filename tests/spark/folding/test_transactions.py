"""`on_open_transaction: hold`: a transaction is published whole, when its end has landed."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from bench import dts_records
from sluice.errors import RollbackRefusedError
from sluice.manifest import Reprocess
from sluice.operations import refolding, stages
from sluice.operations.held_files import release
from sluice.operations.open_transactions import REASON, holding_back
from sluice.operations.quarantined import unresolved
from sluice.operations.reprocess import reprocess
from sluice.operations.undo import undo_batch
from sluice.result import BatchResult, Counts
from spark_jobs.decoding import transactions
from spark_jobs.lake.tables import Lake
from spark_jobs.maintaining.context import MaintenanceContext
from spark_jobs.maintaining.retention import expire_transaction_ends
from tests.spark.dts_records import container
from tests.spark.retention import forget
from tests.spark.sandbox import Sandbox, total

pytestmark = pytest.mark.spark

KEYED: dict[str, Any] = {"key": ["id"], "columns": {"id": "bigint"}}
TABLES = {"s.orders": KEYED, "s.notes": KEYED}
HOLD: dict[str, Any] = {"format": "debezium", "tables": TABLES, "on_open_transaction": "hold"}


@pytest.fixture
def lake(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Sandbox:
    """Two tables; loads are driven as `spark-submit` would."""
    sandbox = Sandbox(spark, tmp_path, HOLD)

    monkeypatch.setattr("sluice.operations.load.submit", sandbox.submit)
    return sandbox


def change(lsn: int, tx: int, ident: int, text: str, table: str = "orders") -> dict[str, Any]:
    """As the PostgreSQL connector tells it: of one transaction each record has an id of its own."""
    source = {"connector": "postgresql", "db": "d", "schema": "s", "table": table, "lsn": lsn}
    row = {"id": ident, "text": text}
    part = {"id": f"{tx}:{lsn}", "total_order": 1, "data_collection_order": 1}
    return {"op": "u", "after": row, "source": source, "ts_ms": 1, "transaction": part}


def mark(tx: int, lsn: int, status: str = "END") -> dict[str, Any]:
    return {"status": status, "id": f"{tx}:{lsn}", "event_count": 2, "ts_ms": 1}


def run(sandbox: Sandbox) -> BatchResult:
    (result,), failure = stages.run(sandbox.context())
    assert failure is None
    assert total(result).balanced
    return result


def texts(sandbox: Sandbox, table: str = "orders") -> dict[int, str]:
    return {row["id"]: row["text"] for row in sandbox.rows(table)}


def test_a_transaction_is_published_whole_when_its_end_has_landed(lake: Sandbox) -> None:
    half = [change(50, 5, 1, "five"), change(51, 5, 7, "five", "notes")]
    more = change(59, 6, 8, "six", "notes")  # waits in the second batch too, in the first's file
    four = [mark(5, 50, "BEGIN"), change(40, 4, 3, "four"), mark(4, 41)]
    lake.write("a.jsonl", [*four, *half, more])
    first = run(lake)
    assert total(first) == Counts(read=6, applied=1, ignored=2, quarantined=3)
    assert texts(lake) == {3: "four"}
    (row, _, _) = lake.quarantined()
    assert (row["reason"], row["detail"]) == (REASON, "5")
    assert b'"transaction": {"id": "5:50"' in row["raw"]
    assert (row["file"].rsplit("/", 1)[-1], row["record"]) == ("a.jsonl", 4)

    lake.write("b.jsonl", [change(52, 5, 2, "five"), change(60, 6, 2, "six"), mark(5, 53)])
    second = run(lake)
    # The file of the first batch is read again: what it applied is a duplicate of itself.
    assert total(second) == Counts(read=9, applied=3, duplicate=1, ignored=3, quarantined=2)
    assert second.completed == (first.batch_id,)
    assert (texts(lake), texts(lake, "notes")) == ({1: "five", 2: "five", 3: "four"}, {7: "five"})
    assert [held.batch_id for held in unresolved(lake.context())] == [second.batch_id]
    assert lake.agrees()

    lake.write("c.jsonl", [mark(6, 61)])
    run(lake)
    assert texts(lake) == {1: "five", 2: "six", 3: "four"}
    assert texts(lake, "notes") == {7: "five", 8: "six"}
    assert unresolved(lake.context()) == []
    assert lake.agrees()


def test_an_end_may_land_before_its_events(lake: Sandbox) -> None:
    lake.write("b.jsonl", [mark(5, 53), change(10, 1, 3, "one"), mark(1, 11)])
    run(lake)
    lake.write("a.jsonl", [change(50, 5, 1, "five")])
    assert total(run(lake)) == Counts(read=1, applied=1)
    assert texts(lake) == {1: "five", 3: "one"}


@pytest.mark.long
def test_an_id_that_another_epoch_has_used_is_another_transaction(lake: Sandbox) -> None:
    lake.write("a.jsonl", [change(50, 5, 1, "five"), mark(5, 51)])
    run(lake)
    lake.configure(**HOLD, epoch=1)
    lake.write("b.jsonl", [change(2, 5, 1, "anew")])
    run(lake)
    assert texts(lake) == {1: "five"}
    lake.write("c.jsonl", [mark(5, 3)])
    run(lake)
    assert texts(lake) == {1: "anew"}


@pytest.mark.long
def test_undone_end_of_a_transaction_makes_its_events_wait_again(lake: Sandbox) -> None:
    lake.write("a.jsonl", [change(40, 4, 1, "four"), mark(4, 41), change(50, 5, 1, "five")])
    first = run(lake)
    lake.write("b.jsonl", [change(51, 5, 2, "five"), mark(5, 52)])
    second = run(lake)
    context = lake.context()
    with pytest.raises(RollbackRefusedError, match=second.batch_id):
        undo_batch(context, first.batch_id)
    undo_batch(context, second.batch_id)
    assert texts(lake) == {1: "four"}
    assert [held.batch_id for held in unresolved(context)] == [first.batch_id]
    stages.release(context, second.batch_id)
    run(lake)
    assert texts(lake) == {1: "five", 2: "five"}
    assert unresolved(context) == []
    assert lake.agrees()


@pytest.mark.long
def test_an_end_stays_as_long_as_later_events_are_published_by_it(lake: Sandbox) -> None:
    lake.write("end.jsonl", [mark(5, 53), change(10, 1, 3, "one"), mark(1, 11)])
    end = run(lake).batch_id
    lake.write("event.jsonl", [change(50, 5, 1, "five")])
    event = run(lake).batch_id
    assert texts(lake) == {3: "one", 1: "five"}
    for dry_run in (True, False):
        with pytest.raises(
            RollbackRefusedError, match=f"batch {event} has changes of transactions"
        ):
            refolding.undo_or_refold(lake.context(), end, dry_run)
    refolding.undo_or_refold(lake.context(), event)
    refolding.undo_or_refold(lake.context(), end)
    assert texts(lake) == {}
    release(lake.context(), event)
    run(lake)
    assert [one.transactions for one in holding_back(lake.context())] == [("5",)]
    release(lake.context(), end)
    run(lake)
    assert texts(lake) == {3: "one", 1: "five"}


@pytest.mark.long
def test_an_operator_may_let_an_open_transaction_through(lake: Sandbox) -> None:
    lake.configure(**HOLD, on_bad_record="fail")  # what waits is no bad record
    lake.write("a.jsonl", [change(40, 4, 1, "four"), mark(4, 41), change(50, 5, 2, "five")])
    run(lake)
    again, failure = reprocess(lake.context())
    assert failure is None
    assert texts(lake) == {1: "four"}
    assert total(again[0]) == Counts(read=3, duplicate=1, ignored=1, quarantined=1)
    (result,), failure = reprocess(lake.context(), request=Reprocess(accept_open=True))
    assert failure is None
    assert total(result) == Counts(read=3, applied=1, duplicate=1, ignored=1)
    assert texts(lake) == {1: "four", 2: "five"}


@pytest.mark.long
def test_bad_records_are_still_counted_beside_those_that_wait(lake: Sandbox) -> None:
    lake.configure(**HOLD, on_bad_record="fail")
    lake.write("a.jsonl", [change(40, 4, 1, "four"), mark(4, 41), change(50, 5, 2, "five")])
    run(lake)
    lake.write("b.jsonl", [mark(5, 51), "no json"])
    results, failure = stages.run(lake.context())
    assert results == []
    assert "1 of 5 records is bad" in str(failure)
    assert texts(lake) == {1: "four"}


def test_source_without_transactions_is_refused(lake: Sandbox) -> None:
    untold = change(40, 4, 1, "four") | {"transaction": None}
    lake.write("a.jsonl", [untold])
    results, failure = stages.run(lake.context())
    assert results == []
    assert "table d.s.orders: it has changes without a transaction id" in str(failure)


@pytest.mark.long
def test_delete_without_a_transaction_is_refused_and_a_snapshot_row_is_not(
    lake: Sandbox,
) -> None:
    untold = change(40, 4, 1, "four") | {"transaction": None}
    lake.write("a.jsonl", [untold | {"op": "r"}])
    run(lake)
    assert texts(lake) == {1: "four"}
    lake.write("b.jsonl", [untold | {"op": "d", "before": untold["after"], "after": None}])
    results, failure = stages.run(lake.context())
    assert results == []
    assert "it has changes without a transaction id" in str(failure)


@pytest.mark.long
def test_mongodb_has_changes_outside_of_transactions(lake: Sandbox) -> None:
    lake.configure(**HOLD | {"tables": {"orders": {"key": ["_id"]}}})
    place = {"connector": "mongodb", "db": "d", "collection": "orders", "ts_ms": 5, "ord": 1}
    document = '{"_id": 1, "text": "alone"}'
    lake.write("a.jsonl", [{"op": "u", "after": document, "source": place, "transaction": None}])
    run(lake)
    assert [row["text"] for row in lake.rows("orders")] == ["alone"]


@pytest.mark.long
def test_maintenance_forgets_old_ends(lake: Sandbox) -> None:
    lake.write("a.jsonl", [mark(5, 53), change(10, 1, 3, "one"), mark(1, 11)])
    run(lake)
    ctx, spark = lake.context(), lake.spark
    days = timedelta(days=ctx.pipeline.maintenance.changelog_days)
    told = []
    for age, dry_run in ((days / 2, False), (2 * days, True), (2 * days, False), (2 * days, False)):
        now = datetime.now(UTC) + age
        lake_of_p = Lake(spark, ctx.catalog, "p")
        upkeep = MaintenanceContext(
            spark, lake_of_p, ctx.ledger, ctx.files, ctx.pipeline, now, dry_run
        )
        told.append(expire_transaction_ends(upkeep, transactions.TABLE))
    assert told == ["", "1 batch", "1 batch", ""]
    lake.write("b.jsonl", [change(50, 5, 1, "five")])
    run(lake)
    assert texts(lake) == {3: "one"}


@pytest.mark.long
def test_rows_follow_from_the_events_and_ends_that_landed(lake: Sandbox) -> None:
    """Transactions cut anywhere, in any order, some sent twice; the last one never ends."""
    rng = random.Random(7)
    records, wanted = [], {}
    for tx in range(1, 9):
        for step in range(3):
            ident = rng.randrange(4)
            records.append(change(tx * 10 + step, tx, ident, f"{tx}.{step}"))
            wanted |= {ident: f"{tx}.{step}"} if tx < 8 else {}
        records += [mark(tx, tx * 10 + 5)] if tx < 8 else []
    records += rng.sample(records, 6)
    rng.shuffle(records)
    for at in range(4):
        lake.write(f"{at}.jsonl", records[at::4])
        run(lake)
    assert texts(lake) == wanted
    assert {tx for one in holding_back(lake.context()) for tx in one.transactions} == {"8"}
    assert lake.agrees()


def _maxwell(tx: int, at: int, ident: int, last: bool) -> dict[str, Any]:
    place = {"commit": True} if last else {"xoffset": at}
    row = {"data": {"id": ident, "text": f"{tx}"}, "primary_key_columns": ["id"]}
    about = {"database": "s", "table": "orders", "type": "insert", "ts": 1477053234 + tx}
    return about | row | place | {"xid": tx, "position": f"master.1:{tx * 10 + at}"}


def _shareplex(tx: int, at: int, ident: int, last: bool) -> list[dict[str, Any]]:
    meta = {"scn": str(100 + tx), "trans": f"7.0.{tx}", "seq": at + 1, "table": "s.orders"}
    row = {"meta": meta | {"op": "ins"}, "data": {"id": str(ident), "text": f"{tx}"}}
    return [row, {"meta": meta | {"op": "commit", "seq": at + 2}}] if last else [row]


def _connect(tx: int, at: int, ident: int, last: bool) -> list[dict[str, Any]]:
    """With schemas, and keys beside values; the end is a record of a topic of its own."""
    record = {"key": {"schema": {}, "payload": {"id": ident}}, "value": {
        "schema": {}, "payload": change(tx * 10 + at, tx, ident, f"{tx}")}}  # fmt: skip
    end = {"key": {"schema": {}, "payload": {"id": f"{tx}:{tx * 10 + 9}"}}, "value": {
        "schema": {}, "payload": mark(tx, tx * 10 + 9)}}  # fmt: skip
    return [record, end] if last else [record]


def _dts(tx: int, at: int, ident: int, last: bool) -> list[dict[str, Any]]:
    about: dict[str, Any] = {"tx": f"t{tx}", "object": "s.orders"}
    fields = [("id", 8), ("text", 253)]
    values = [dts_records.integer(ident), dts_records.text(f"{tx}")]
    row = dts_records.message("INSERT", tx * 10 + at, after=values, fields=fields, **about)
    end = dts_records.message("COMMIT", tx * 10 + 9, **about)
    return [row, end] if last else [row]


def _avro(folder: Path, name: str, records: list[Any]) -> None:
    container(folder / name, dts_records.NEW, records)


@pytest.mark.formats
def test_dts_ends_transactions_by_commits(lake: Sandbox) -> None:
    lake.configure(**HOLD | {"format": "dts_avro", "tables": {"s.orders": KEYED}})
    first, second = ([*_dts(t, 0, t * 10, False), *_dts(t, 1, t * 10 + 1, True)] for t in (1, 2))
    _avro(lake.landing, "a.avro", [*first, *second[:1]])
    run(lake)
    assert texts(lake) == {10: "1", 11: "1"}
    (row,) = lake.quarantined()
    assert (row["reason"], row["detail"]) == (REASON, "t2")
    assert b'"after":{"id":"20"' in row["raw"]  # a container's record has no text of its own
    _avro(lake.landing, "b.avro", second[1:])
    run(lake)
    assert texts(lake) == {10: "1", 11: "1", 20: "2", 21: "2"}


@pytest.mark.formats
@pytest.mark.parametrize(
    ("format_name", "tell"),
    [("maxwell", _maxwell), ("shareplex", _shareplex), ("debezium", _connect)],
)
def test_every_format_with_ends_of_transactions_holds_open_ones(
    lake: Sandbox, format_name: str, tell: Any
) -> None:
    lake.configure(**HOLD | {"format": format_name, "tables": {"s.orders": KEYED}})
    changes = [tell(tx, at, ident=tx * 10 + at, last=at == 1) for tx in (1, 2) for at in (0, 1)]
    records = [r if isinstance(r, list) else [r] for r in changes]
    lake.write("a.jsonl", [*records[0], *records[1], *records[2]])
    run(lake)
    assert texts(lake) == {10: "1", 11: "1"}
    assert [row["reason"] for row in lake.quarantined()] == [REASON]
    lake.write("b.jsonl", records[3])
    run(lake)
    assert texts(lake) == {10: "1", 11: "1", 20: "2", 21: "2"}
    assert unresolved(lake.context()) == []


@pytest.mark.long
@pytest.mark.parametrize(("late", "quarantined"), [(True, 0), (False, 1)])
def test_an_open_transaction_that_the_floor_has_passed(
    lake: Sandbox, late: bool, quarantined: int
) -> None:
    """Accepted as late too, it is published whole."""
    lake.write(
        "a.jsonl", [change(10, 1, 1, "first"), change(60, 2, 2, "x"), mark(1, 11), mark(2, 61)]
    )
    first = run(lake)
    lake.write("b.jsonl", [mark(5, 49, "BEGIN"), change(50, 5, 9, "one"), change(51, 5, 1, "two")])
    run(lake)
    forget(lake, first.batch_id)
    asked = Reprocess(accept_open=True, accept_late=late)
    (result,), failure = reprocess(lake.context(), request=asked)
    assert (failure, total(result).balanced) == (None, True)
    texts = {row["text"] for row in lake.rows("orders")}
    assert texts == ({"one", "two", "x"} if late else {"two", "x"})
    assert total(result).quarantined == quarantined
