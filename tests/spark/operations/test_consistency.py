"""`consistency: table`: what cannot be loaded of a batch waits, the other tables are published."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import fastavro
import pytest
from pyspark.sql import SparkSession

from sluice.errors import RollbackRefusedError, SluiceError, TablesLeftOutError
from sluice.ledger.states import FAILED, PUBLISHED, PUBLISHING, ROLLED_BACK
from sluice.operations import refolding, stages
from sluice.result import BatchResult, Counts
from tests.spark.avroevents import container, envelope, optional, source
from tests.spark.avroevents import event as avro_event
from tests.spark.sandbox import NAMESPACE, Sandbox, total

pytestmark = pytest.mark.spark

KEYED: dict[str, Any] = {"key": ["id"], "columns": {"id": "bigint"}}
NO_BAD = {"name": "no_bad_text", "sql": "SELECT id FROM {table} WHERE text = 'bad'"}
TABLES = {"s.orders": KEYED, "s.notes": KEYED | {"checks": [NO_BAD]}}
SOUND = TABLES | {"s.notes": KEYED}


@pytest.fixture
def lake(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Sandbox:
    """Two tables, each for itself; loads are driven as `spark-submit` would."""
    sandbox = Sandbox(spark, tmp_path, pipeline())

    monkeypatch.setattr("sluice.operations.load.submit", sandbox.submit)
    return sandbox


def pipeline(tables: dict[str, Any] | None = TABLES, consistency: str = "table") -> dict[str, Any]:
    listed = {} if tables is None else {"tables": tables}
    return {"format": "debezium", "consistency": consistency, **listed}


def event(lsn: int, table: str, ident: int, text: str) -> dict[str, Any]:
    source = {"connector": "postgresql", "db": "d", "schema": "s", "table": table, "lsn": lsn}
    return {"op": "u", "after": {"id": ident, "text": text}, "source": source, "ts_ms": 1}


def run(sandbox: Sandbox) -> tuple[list[BatchResult], SluiceError | None]:
    return stages.run(sandbox.context())


def texts(sandbox: Sandbox, table: str) -> dict[int, str]:
    return {row["id"]: row["text"] for row in sandbox.rows(table)}


def states_of(sandbox: Sandbox) -> dict[str, str]:
    return {row.batch_id: row.state for row in sandbox.context().ledger.batches.all()}


def left(sandbox: Sandbox, batch: BatchResult) -> str:
    """The batch that waits for the other one's table."""
    (share,) = set(states_of(sandbox)) - {batch.batch_id}
    return share


def test_one_table_waits_and_catches_up(lake: Sandbox) -> None:
    lake.write("a.jsonl", [event(10, "orders", 1, "a"), event(11, "notes", 7, "bad")])
    (batch,), failure = run(lake)
    assert isinstance(failure, TablesLeftOutError)
    assert "d.s.notes (1 record)" in str(failure)
    assert "fails check no_bad_text, so the table is not published" in str(failure)
    assert f"--batch {batch.batch_id}" not in str(failure)  # which is published
    assert total(batch) == Counts(read=1, applied=1)
    assert texts(lake, "orders") == {1: "a"}
    share = left(lake, batch)
    assert states_of(lake) == {batch.batch_id: PUBLISHED, share: FAILED}
    assert lake.agrees()

    lake.write("b.jsonl", [event(12, "orders", 1, "b"), event(13, "notes", 8, "good")])
    (newer,), failure = run(lake)
    assert "fails check no_bad_text" in str(failure)
    assert (texts(lake, "orders"), texts(lake, "notes")) == ({1: "b"}, {8: "good"})

    lake.configure(**pipeline(SOUND))
    (caught_up,), failure = run(lake)
    assert failure is None
    assert (caught_up.batch_id, total(caught_up)) == (share, Counts(read=2, applied=1, ignored=1))
    assert set(states_of(lake).values()) == {PUBLISHED}
    assert texts(lake, "notes") == {7: "bad", 8: "good"}
    assert lake.agrees()
    assert run(lake) == ([], None)
    assert newer.left_out == ()


def test_what_a_table_waits_for_may_come_with_the_next_batch(lake: Sandbox) -> None:
    """That is loaded first: the change that a check refused is late then."""
    lake.write("a.jsonl", [event(10, "orders", 1, "a"), event(11, "notes", 7, "bad")])
    (batch,), _ = run(lake)
    share = left(lake, batch)
    lake.write("b.jsonl", [event(12, "orders", 1, "b"), event(13, "notes", 7, "good")])
    (newer, caught_up), failure = run(lake)
    assert (failure, newer.left_out, caught_up.batch_id) == (None, (), share)
    assert total(caught_up) == Counts(read=2, late=1, ignored=1)
    assert texts(lake, "notes") == {7: "good"}
    assert lake.agrees()


def test_record_numbers_of_a_container_count_the_records_of_a_table_that_waits(
    lake: Sandbox,
) -> None:
    """In each part of the file that Spark reads on its own."""

    def record(lsn: int, table: str, op: str) -> dict[str, Any]:
        src = source("postgresql", db="d", schema="s", table=table, lsn=lsn)
        return avro_event(op, {"id": lsn, "text": "bad"}, src, before=None)

    waits, unknown, good = ("notes", "c"), ("orders", "x"), ("orders", "c")
    rows = [record(n, *of) for n, of in enumerate([waits, unknown, good, unknown] * 2, start=1)]
    schema = envelope({"id": {"type": "int"}, "text": optional("string")})
    file = container(lake.landing / "a.avro", schema, rows[:4])
    with (lake.landing / "a.avro").open("a+b") as sink:
        fastavro.writer(sink, schema, rows[4:])
    mark = 16  # the bytes that end a block, by which a reader finds the next
    lake.spark.conf.set("spark.sql.files.maxPartitionBytes", file.size - mark)
    (batch,), failure = run(lake)
    assert isinstance(failure, TablesLeftOutError)
    assert total(batch) == Counts(read=6, applied=2, quarantined=4)
    assert sorted(row["record"] for row in lake.quarantined()) == [2, 4, 6, 8]


def test_error_of_a_batch_without_any_table_names_all_tables(lake: Sandbox) -> None:
    """They begin where a line last begins with the name of an error."""
    checked = KEYED | {"checks": [NO_BAD]}
    lake.configure(**pipeline({"s.orders": checked, "s.notes": checked}))
    lake.write("a.jsonl", [event(10, "orders", 1, "bad"), event(11, "notes", 7, "bad")])
    results, failure = run(lake)
    assert results == []
    heading, *wrong = str(failure).splitlines()
    assert heading == "no table of the batch can be loaded:"
    assert sum("fails check no_bad_text" in line for line in wrong) == 2
    assert not [line for line in wrong if line.startswith("AuditFailedError")]


@pytest.mark.long
def test_a_table_that_no_plan_can_be_made_for_is_left_out(lake: Sandbox) -> None:
    lake.configure(**pipeline(None))
    keyed = {"id": 1, "text": "a"}
    source = {"connector": "postgresql", "db": "d", "schema": "s", "lsn": 5}
    orders = {"op": "r", "after": keyed, "source": source | {"table": "orders"}}
    lake.write("a.jsonl", [orders, event(11, "notes", 7, "x")])
    results, failure = run(lake)
    assert results == []  # neither has a key: of a batch without any table nothing is published
    assert failure is not None
    assert "no key is known for table d.s.orders" in str(failure)
    assert "no key is known for table d.s.notes" in str(failure)

    lake.configure(**pipeline({"s.orders": KEYED, "s.notes": {}}))
    (batch,), failure = run(lake)
    assert "no key is known for table d.s.notes" in str(failure)
    assert texts(lake, "orders") == {1: "a"}
    assert not lake.catalog.table_exists((NAMESPACE, "notes"))

    lake.configure(**pipeline(SOUND))
    (_,), failure = run(lake)
    assert failure is None
    assert texts(lake, "notes") == {7: "x"}
    assert batch.left_out[0].source == "d.s.notes"


def test_consistency_batch_publishes_no_table_if_one_fails(lake: Sandbox) -> None:
    lake.configure(**pipeline(consistency="batch"))
    lake.write("a.jsonl", [event(10, "orders", 1, "a"), event(11, "notes", 7, "bad")])
    results, failure = run(lake)
    assert results == []
    assert "fails check no_bad_text" in str(failure)
    assert list(states_of(lake).values()) == [FAILED]


@pytest.mark.long
def test_repeated_publication_leaves_out_the_same_tables(
    lake: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    def die(*_: object) -> None:
        raise KeyboardInterrupt

    lake.write("a.jsonl", [event(10, "orders", 1, "a"), event(11, "notes", 7, "bad")])
    with monkeypatch.context() as patched:
        patched.setattr("sluice.operations.publish.clean_up", die)
        with pytest.raises(KeyboardInterrupt):
            run(lake)
    assert sorted(states_of(lake).values()) == [FAILED, PUBLISHING]
    (dead,) = (b for b in lake.context().ledger.batches.all() if b.state == PUBLISHING)
    stages.publish(lake.context(), dead.manifest)  # as the next run's reconcile does

    lake.configure(**pipeline(SOUND))
    (caught_up,), failure = run(lake)
    assert failure is None
    assert total(caught_up) == Counts(read=2, applied=1, ignored=1)
    assert list(states_of(lake).values()) == [PUBLISHED, PUBLISHED]
    assert (texts(lake, "orders"), texts(lake, "notes")) == ({1: "a"}, {7: "bad"})


@pytest.mark.long
def test_undoing_a_batch_undoes_the_tables_that_were_left_out(lake: Sandbox) -> None:
    lake.write("a.jsonl", [event(10, "orders", 1, "a"), event(11, "notes", 7, "bad")])
    (batch,), _ = run(lake)
    share = left(lake, batch)
    refolding.undo_or_refold(lake.context(), batch.batch_id)
    assert run(lake) == ([], None)
    assert states_of(lake) == {batch.batch_id: ROLLED_BACK, share: ROLLED_BACK}

    stages.release(lake.context(), batch.batch_id)
    (again,), failure = run(lake)
    assert isinstance(failure, TablesLeftOutError)
    assert "d.s.notes (1 record)" in str(failure)
    assert states_of(lake) == {again.batch_id: PUBLISHED, share: FAILED}


@pytest.mark.long
def test_batch_is_undone_after_the_tables_that_were_left_out_of_it(lake: Sandbox) -> None:
    lake.write("a.jsonl", [event(10, "orders", 1, "a"), event(11, "notes", 7, "bad")])
    (batch,), _ = run(lake)
    lake.configure(**pipeline(SOUND))
    (caught_up,), _ = run(lake)
    with pytest.raises(RollbackRefusedError, match=f"{caught_up.batch_id} has what"):
        refolding.undo_or_refold(lake.context(), batch.batch_id)
    refolding.undo_or_refold(lake.context(), caught_up.batch_id)
    refolding.undo_or_refold(lake.context(), batch.batch_id)
    assert texts(lake, "notes") == texts(lake, "orders") == {}
