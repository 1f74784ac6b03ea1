"""reprocess: what was quarantined decodes again, at its own place, and is resolved once."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from sluice.errors import RollbackRefusedError, TerminalError
from sluice.manifest import Reprocess
from sluice.operations import stages
from sluice.operations.quarantined import resolutions, unresolved
from sluice.operations.reprocess import land_quarantined, reprocess
from sluice.operations.undo import undo_batch
from sluice.result import BatchResult, Counts
from tests.spark.sandbox import Sandbox, total

pytestmark = pytest.mark.spark

NARROW = {"s.orders": {"key": ["id"], "columns": {"id": "bigint", "amount": "decimal(4,2)"}}}
WIDE = {"s.orders": {"key": ["id"], "columns": {"id": "bigint", "amount": "decimal(10,2)"}}}
Row = dict[str, Any]


@pytest.fixture
def lake(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Sandbox:
    """A pipeline whose hint is too narrow for some amounts; drivers run in this process."""
    return Sandbox(spark, tmp_path, {"format": "debezium", "tables": NARROW}).driven(monkeypatch)


def event(lsn: int, ident: int, amount: str) -> Row:
    source = {"connector": "postgresql", "db": "d", "schema": "s", "table": "orders", "lsn": lsn}
    return {"op": "u", "after": {"id": ident, "amount": amount}, "source": source, "ts_ms": 1}


def widen(sandbox: Sandbox) -> None:
    sandbox.configure(format="debezium", tables=WIDE)


def run(sandbox: Sandbox) -> BatchResult:
    """Load what has landed, as `sluice run` does."""
    return _only(*stages.run(sandbox.context()))


def again(sandbox: Sandbox, batch_id: str = "", reason: str = "") -> BatchResult:
    return _only(*reprocess(sandbox.context(), batch_id, Reprocess(reason=reason)))


def _only(results: list[BatchResult], failure: Exception | None) -> BatchResult:
    if failure is not None:
        raise failure
    (result,) = results
    assert total(result).balanced
    return result


def amounts(sandbox: Sandbox, table: str = "orders") -> dict[int, str]:
    return {row["id"]: str(row["amount"]) for row in sandbox.rows(table)}


def waiting(sandbox: Sandbox) -> dict[str, int]:
    return {held.batch_id: held.records for held in unresolved(sandbox.context())}


def resolved(sandbox: Sandbox) -> dict[str, str]:
    return resolutions(sandbox.context().ledger.batches.all())


@pytest.mark.long
def test_records_of_an_older_epoch_stay_below_the_newer_one(lake: Sandbox) -> None:
    lake.write("a.jsonl", [event(50, 1, "100.25"), event(51, 2, "1.00"), event(52, 3, "100.50")])
    first = run(lake)
    assert waiting(lake) == {first.batch_id: 2}

    lake.configure(format="debezium", tables=WIDE, epoch=1)
    lake.write("b.jsonl", [event(10, 1, "7.00"), event(11, 2, "8.00")])
    run(lake)
    repeated = again(lake)
    assert repeated.epoch == 0
    assert total(repeated) == Counts(read=3, applied=1, duplicate=0, late=2)
    assert amounts(lake) == {1: "7.00", 2: "8.00", 3: "100.50"}


def test_reprocess_applies_the_misfits_and_counts_the_rest_as_duplicates(lake: Sandbox) -> None:
    lake.write("a.jsonl", [event(10, 1, "1.50"), event(11, 2, "100.25")])
    lake.write("b.jsonl", [event(12, 3, "3.00")])
    first = run(lake)
    assert total(first) == Counts(read=3, applied=2, quarantined=1)
    assert waiting(lake) == {first.batch_id: 1}

    widen(lake)
    second = again(lake, reason="amounts above 99")
    assert second.batch_id != first.batch_id
    assert total(second) == Counts(read=2, applied=1, duplicate=1)  # b.jsonl is not read again
    assert amounts(lake) == {1: "1.50", 2: "100.25", 3: "3.00"}
    assert resolved(lake) == {first.batch_id: second.batch_id}
    row = lake.context().ledger.batches.get(second.batch_id)
    assert row is not None
    assert row.details["reason"] == "amounts above 99"
    assert reprocess(lake.context()) == ([], None)
    assert reprocess(lake.context(), first.batch_id) == ([], None)


@pytest.mark.long
def test_records_that_still_do_not_fit_wait_under_the_new_batch(lake: Sandbox) -> None:
    lake.write("a.jsonl", [event(10, 1, "100.25"), "no JSON at all"])
    first = run(lake)
    widen(lake)
    second = again(lake)
    assert total(second) == Counts(read=2, applied=1, quarantined=1)
    assert waiting(lake) == {second.batch_id: 1}
    third = again(lake)
    assert len({first.batch_id, second.batch_id, third.batch_id}) == 3
    assert resolved(lake) == {first.batch_id: second.batch_id, second.batch_id: third.batch_id}


@pytest.mark.long
def test_a_newer_event_that_came_meanwhile_stays(lake: Sandbox) -> None:
    lake.write("a.jsonl", [event(10, 1, "100.25")])
    run(lake)
    lake.write("b.jsonl", [event(20, 1, "2.00")])
    run(lake)
    widen(lake)
    assert total(again(lake)) == Counts(read=1, late=1)
    assert amounts(lake) == {1: "2.00"}


@pytest.mark.long
def test_a_crash_before_the_end_of_publish_is_completed_once(
    lake: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake.write("a.jsonl", [event(10, 1, "1.50"), event(11, 2, "100.25")])
    first = run(lake)
    widen(lake)
    context = lake.context()
    (key,) = land_quarantined(context)
    stages.load(context, key)
    with monkeypatch.context() as crash:
        crash.setattr(type(context.ledger.files), "mark", _crash)
        with pytest.raises(_Crash):
            stages.publish(context, key)
    assert amounts(lake) == {1: "1.50", 2: "100.25"}
    assert waiting(lake) == {first.batch_id: 1}  # the tables have it, the ledger does not say so

    monkeypatch.setattr(
        type(context.ledger.lease), "has_lapsed", lambda *_: True
    )  # the holder is gone
    assert reprocess(lake.context()) == ([], None)
    assert resolved(lake) == {first.batch_id: context.files.read_manifest(key).batch_id}
    assert amounts(lake) == {1: "1.50", 2: "100.25"}


class _Crash(BaseException):
    """The process is killed here."""


def _crash(*_: object) -> None:
    raise _Crash


@pytest.mark.long
def test_an_unfinished_reprocess_gives_way_to_one_of_the_mended_files(lake: Sandbox) -> None:
    lake.write("a.jsonl", [event(10, 1, "100.25")])
    first = run(lake)
    (left,) = land_quarantined(lake.context())
    widen(lake)
    second = again(lake)
    assert amounts(lake) == {1: "100.25"}
    assert resolved(lake) == {first.batch_id: second.batch_id}
    assert lake.context().ledger.unfinished() == []
    assert lake.context().files.read_manifest(left).reprocess is not None


@pytest.mark.long
def test_rollback_of_a_reprocess_leaves_files_loaded_and_records_waiting(lake: Sandbox) -> None:
    lake.write("a.jsonl", [event(10, 1, "1.50"), event(11, 2, "100.25")])
    first = run(lake)
    widen(lake)
    second = again(lake)
    with pytest.raises(RollbackRefusedError, match=second.batch_id):
        undo_batch(lake.context(), first.batch_id)

    undo_batch(lake.context(), second.batch_id)
    assert amounts(lake) == {1: "1.50"}
    assert waiting(lake) == {first.batch_id: 1}
    states = {f.state for f in lake.context().ledger.files.known().values()}
    assert states == {"loaded"}
    assert stages.run(lake.context()) == ([], None)
    assert again(lake).batch_id == second.batch_id
    assert amounts(lake) == {1: "1.50", 2: "100.25"}


@pytest.mark.long
def test_a_batch_is_not_undone_under_a_reprocess_that_changed_no_table(lake: Sandbox) -> None:
    """The reprocess wrote nothing after it, and yet its changelog repeats the batch's changes."""
    lake.write("a.jsonl", [event(10, 1, "1.50"), "no JSON at all"])
    first = run(lake)
    second = again(lake)
    assert total(second) == Counts(read=2, duplicate=1, quarantined=1)
    with pytest.raises(RollbackRefusedError, match=second.batch_id):
        undo_batch(lake.context(), first.batch_id)
    assert amounts(lake) == {1: "1.50"}


@pytest.mark.long
def test_one_batch_whose_file_is_there_with_the_bytes_that_were_loaded(lake: Sandbox) -> None:
    lake.write("a.jsonl", [event(10, 1, "100.25")])
    first = run(lake)
    lake.write("b.jsonl", [event(11, 2, "200.25"), event(12, 3, "300.25")])
    second = run(lake)
    path = lake.landing / "a.jsonl"
    content = path.read_bytes()
    for damage in (path.unlink, lambda: path.write_bytes(content + b"\n")):
        damage()
        with pytest.raises(TerminalError, match=r"a\.jsonl"):
            reprocess(lake.context(), first.batch_id)
        assert lake.context().ledger.unfinished() == []
    path.write_bytes(content)

    # Not more is bad than a published batch held already, whatever the limit says now.
    lake.configure(format="debezium", tables=NARROW, on_bad_record="fail")
    third = again(lake, first.batch_id)
    assert total(third) == Counts(read=1, quarantined=1)
    assert waiting(lake) == {second.batch_id: 2, third.batch_id: 1}
    undo_batch(lake.context(), third.batch_id)
    with pytest.raises(TerminalError, match="rolled_back"):
        reprocess(lake.context(), third.batch_id)


@pytest.mark.long
def test_arrival_puts_a_record_between_its_neighbours(lake: Sandbox) -> None:
    """Files without an order: `z` before `b2`'s and after `b1`'s, whatever Spark reads beside."""
    hint = {"key": ["id"], "columns": {"id": "bigint", "amount": "decimal(4,2)"}}
    lake.configure(format="maxwell", format_options={"order": "arrival"}, tables={"s.o": hint})
    lake.write("b1.jsonl", [_row(1, "1.00"), _row(2, "1.00"), _row(3, "1.00")])
    lake.write("b2.jsonl", [_row(1, "2.00"), _row(1, "100.25"), _row(2, "100.25"), _row(2, "2.00")])
    run(lake)
    lake.write("b3.jsonl", [_row(3, "3.00")])
    run(lake)
    wider = {**hint, "columns": {"id": "bigint", "amount": "decimal(10,2)"}}
    lake.configure(format="maxwell", format_options={"order": "arrival"}, tables={"s.o": wider})
    again(lake)
    assert amounts(lake, "o") == {1: "100.25", 2: "2.00", 3: "3.00"}


@pytest.mark.long
def test_rows_known_by_their_place_alone_are_refused(lake: Sandbox) -> None:
    hint = {"key": [], "columns": {"id": "bigint", "amount": "decimal(4,2)"}}
    lake.configure(format="maxwell", format_options={"order": "arrival"}, tables={"s.o": hint})
    lake.write("a.jsonl", [_row(1, "1.00"), _row(1, "100.25")])
    run(lake)
    results, failure = reprocess(lake.context())
    assert results == []
    assert "neither a key nor an order" in str(failure)
    assert amounts(lake, "o") == {1: "1.00"}


@pytest.mark.long
def test_rows_in_part_whose_order_is_their_place_are_refused(lake: Sandbox) -> None:
    """The second reading would begin with rows of which the first one has moved the values away."""
    hint = {"key": ["id"], "columns": {"id": "bigint", "amount": "decimal(4,2)"}}
    options = {"order": "arrival", "row_image": "partial"}
    lake.configure(format="maxwell", format_options=options, tables={"s.o": hint})
    update = {"database": "s", "table": "o", "type": "update", "ts": 1}
    moved = json.dumps(update | {"data": {"id": 2}, "old": {"id": 1}})
    lake.write("a.jsonl", [_row(1, "1.00"), _row(3, "100.25"), moved])
    run(lake)
    assert amounts(lake, "o") == {2: "1.00"}
    results, failure = reprocess(lake.context())
    assert results == []
    assert "no order, and rows that are logged in part" in str(failure)
    assert amounts(lake, "o") == {2: "1.00"}


@pytest.mark.long
def test_rows_without_a_key_that_have_an_order_count_once(lake: Sandbox) -> None:
    tables = {"s.orders": {**NARROW["s.orders"], "key": []}}
    lake.configure(format="debezium", tables=tables)
    lake.write("a.jsonl", [{**event(10 + n, 1, a), "op": "c"} for n, a in enumerate(["1", "100"])])
    run(lake)
    lake.configure(format="debezium", tables={"s.orders": {**WIDE["s.orders"], "key": []}})
    assert total(again(lake)) == Counts(read=2, applied=1, duplicate=1)
    assert sorted(str(row["amount"]) for row in lake.rows("orders")) == ["1.00", "100.00"]


@pytest.mark.parametrize("key", [[], ["amount"]])
@pytest.mark.parametrize("misfit", ["old", pytest.param("new", marks=pytest.mark.long)])
def test_an_update_fits_as_a_whole_or_not_at_all(
    lake: Sandbox, key: list[str], misfit: str
) -> None:
    """Neither half of what waits is applied, and none of it is missing when it is read again."""
    old, new = ("100", "1") if misfit == "old" else ("1", "100")
    narrow, wide = ({"s.orders": t["s.orders"] | {"key": key}} for t in (NARROW, WIDE))
    lake.configure(format="debezium", tables=narrow)
    update = event(20, 7, new) | {"before": {"id": 7, "amount": old}}
    lake.write("a.jsonl", [event(10, 7, old) | {"op": "c"}, update])
    run(lake)
    assert [row["id"] for row in lake.rows("orders")] == ([] if misfit == "old" else [7])
    details = [row["detail"] for row in lake.quarantined()]
    expected = "amount: '100' does not fit decimal(4,2)"
    assert details == [expected] * (2 if misfit == "old" else 1)
    lake.configure(format="debezium", tables=wide)
    again(lake)
    assert [str(row["amount"]) for row in lake.rows("orders")] == [f"{new}.00"]
    assert lake.agrees()


def _row(ident: int, amount: str) -> str:
    data = {"id": ident, "amount": amount}
    return json.dumps({"database": "s", "table": "o", "type": "insert", "ts": 1, "data": data})
