"""A driver around its work: what it looks at, and what it takes back where it failed."""

from __future__ import annotations

import errno
import threading
from pathlib import Path
from typing import Any, Never
from unittest.mock import MagicMock

import pyarrow as pa
import pytest
from py4j.protocol import Py4JJavaError
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import NestedField, StringType

from sluice.errors import LeaseHeldError, TerminalError
from sluice.ledger.changelogs import files_of
from sluice.ledger.leases import Lease, this_holder
from sluice.ledger.refusals import fence_lapsed
from sluice.ledger.rows import BatchRow
from sluice.ledger.states import FAILED, LANDED, LOADED, LOADING, PUBLISHED, PUBLISHING, ROLLED_BACK
from sluice.manifest import Manifest
from sluice.names import BATCH_ID, PROP_PIPELINE
from sluice.operations.context import Context
from sluice.operations.reconcile import reconcile
from sluice.operations.undo import undo_batch
from sluice.result import BatchResult
from spark_jobs import attempt_lease as hold_module
from spark_jobs import driver as driver_module
from spark_jobs.driver import Driver
from spark_jobs.driver_messages import emit
from tests.all_readable import land
from tests.unit.clocks import fails_once
from tests.unit.fake_driver import driver_of
from tests.unit.projects import open_shop

pytestmark = pytest.mark.catalog


class StackOfTheJvmError(Py4JJavaError):  # type: ignore[misc]
    """What py4j makes of an exception of the JVM."""

    def __init__(self, message: str) -> None:
        self.java_exception, self._message = None, message

    def __str__(self) -> str:
        expected = (
            f"java.io.IOException: {self._message}\n\tat org.example.Some.read(Some.java:49)\n"
        )
        return f"An error occurred while calling o1.load.\n: {expected}"


class NewColumns:
    """A lake to which the driver added a column."""

    def restore_schemas(self) -> list[str]:
        return ["shop.orders"]


@pytest.fixture
def context(tmp_path: Path) -> Context:
    return open_shop(tmp_path)


@pytest.mark.parametrize(
    ("batch", "state", "attempt", "alive", "restored"),
    [
        ("b1", LOADING, "mine", True, True),
        ("b1", LOADING, "later", True, False),
        ("b1", LOADED, "later", True, False),
        ("b1", LOADING, "later", False, True),
        ("b1", LANDED, "", True, True),
        ("b1", LANDED, "later", True, False),
        ("b2", LOADING, "its own", True, False),
        ("b2", LOADING, "its own", False, True),
        ("b2", LOADED, "its own", False, False),
        ("b2", PUBLISHING, "its own", False, False),
        ("b2", PUBLISHED, "its own", False, False),
    ],
)
def test_new_columns_are_taken_back_only_without_another_load(
    context: Context, batch: str, state: str, attempt: str, alive: bool, restored: bool
) -> None:
    driver: Any = driver_of(context, Manifest("shop", "b1", ()))
    driver.lease.attempt, driver.session = "mine", MagicMock()
    context.ledger.batches.record("b0", PUBLISHED, attempt="its own")
    driver._job()
    driver.lake = NewColumns()
    lease = Lease("elsewhere:1", 60 if alive else -1)
    context.ledger.batches.record(batch, state, attempt=attempt, lease=lease)
    assert bool(driver._restore_schemas()) == restored


def test_messages_of_a_driver_are_notes_of_its_result(
    context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody sees the standard error of one that ends well."""
    _, manifest = landed(context)

    def work(driver: Driver, _: bool) -> BatchResult:
        thread = threading.Thread(target=emit, args=("shop.orders: it was renamed",))
        thread.start()
        thread.join()
        emit("shop.orders: it was renamed")
        emit("TerminalError: told\nas an error", "\n")
        context.ledger.lease.acquire(
            manifest.batch_id, driver.lease.attempt, Lease(this_holder(), 60)
        )
        return BatchResult(
            "shop",
            manifest.batch_id,
            driver.lease.attempt,
            (),
            notes=("look", "shop.orders: it was renamed"),
        )

    monkeypatch.setattr(Driver, "_work", work)
    driver = driver_of(context, manifest)
    driver.run()
    emit("nobody listens any more")
    kept = context.files.read_result("shop", manifest.batch_id, driver.lease.attempt)
    assert kept.notes == ("look", "shop.orders: it was renamed")


@pytest.mark.parametrize("replaced", ["before", "while"])
def test_a_driver_looks_at_its_files_before_it_reads_and_after(
    context: Context, monkeypatch: pytest.MonkeyPatch, replaced: str
) -> None:
    path = context.project.root / "landing" / "a.jsonl"
    path.write_text('{"a": 1}\n')
    (key,) = land(context)
    manifest = context.files.read_manifest(key)

    def work(driver: Driver, _: bool) -> BatchResult:
        assert replaced == "while"
        path.write_text('{"a": 2}\n')
        return BatchResult("shop", manifest.batch_id, driver.lease.attempt, ())

    if replaced == "before":
        path.unlink()
    monkeypatch.setattr(Driver, "_work", work)
    with pytest.raises(TerminalError, match=r"a\.jsonl (is gone|has other bytes)"):
        driver_of(context, manifest).run()
    row = context.ledger.batches.get(manifest.batch_id)
    assert row is not None
    assert row.state == FAILED


def test_ledger_keeps_the_error_without_a_stack_trace(
    context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`sluice status` shows it: no stack of the JVM, and whether to try again."""

    def work(driver: Driver, _: bool) -> Never:
        raise StackOfTheJvmError("the store is away")

    monkeypatch.setattr(Driver, "_work", work)
    _, manifest = landed(context)
    with pytest.raises(StackOfTheJvmError):
        driver_of(context, manifest).run()
    row = context.ledger.batches.get(manifest.batch_id)
    assert row is not None
    assert row.details["error"] == (
        "TransientError: StackOfTheJvmError: java.io.IOException: the store is away"
    )


def test_a_table_is_left_out_once(context: Context, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where it is to blame without its records too, the batch ends instead of trying for ever."""
    tried: list[dict[str, str]] = []

    def load(driver: Driver, _: bool) -> BatchResult:
        tried.append(dict(driver._left_out))
        raise TerminalError("its key").of_tables({"s.notes": "its key"})

    monkeypatch.setattr(Driver, "_load", load)
    driver = driver_of(context, Manifest("shop", "b1", ()))
    driver.pipeline = driver.pipeline.model_copy(update={"consistency": "table"})
    with pytest.raises(TerminalError, match="its key"):
        driver._work(False)
    assert tried == [{}, {"s.notes": "its key"}]


def test_copies_are_looked_for_when_they_can_be_read(
    context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Until the Spark session is there, somebody may remove what was seen."""
    done: list[str] = []

    def copies(_: Context, manifest: Manifest, prefix: str) -> Manifest:
        done.append("copies")
        raise TerminalError("as far as this test goes")

    monkeypatch.setattr(driver_module, "with_staged_files", copies)
    driver = driver_of(context, Manifest("shop", "b1", ()))
    monkeypatch.setattr(driver, "session", lambda: done.append("session"))
    with pytest.raises(TerminalError, match="as far"):
        driver._load(False)
    assert done == ["session", "copies"]


def landed(context: Context) -> tuple[str, Manifest]:
    (context.project.root / "landing" / "a.jsonl").write_text('{"a": 1}\n')
    (key,) = land(context)
    return key, context.files.read_manifest(key)


@pytest.mark.parametrize("before", [LANDED, FAILED])
def test_a_batch_that_is_being_decoded_is_not_abandoned(
    context: Context, monkeypatch: pytest.MonkeyPatch, before: str
) -> None:
    """The pipeline's lease is taken when the tables are written; the batch is taken at once."""
    _, manifest = landed(context)
    context.ledger.batches.record(manifest.batch_id, before)
    scratch = f"shop/{manifest.batch_id}/decoded-kept/part-0.parquet"
    vacant = context.catalog
    vacant.create_namespace("shop")
    vacant.create_table(("shop", "new"), Schema(), properties={PROP_PIPELINE: "shop"})

    def work(driver: Driver, _: bool) -> BatchResult:
        driver.lease._renew_once()
        context.files.store.put(scratch, b"rows")
        assert reconcile(context) == []
        assert context.files.store.get(scratch) == b"rows"
        assert vacant.table_exists(("shop", "new"))
        raise TerminalError("as far as this test goes")

    monkeypatch.setattr(Driver, "_work", work)
    with pytest.raises(TerminalError, match="as far"):
        driver_of(context, manifest).run()
    assert reconcile(context) != []
    assert not vacant.table_exists(("shop", "new"))


def test_of_concurrent_runs_one_takes_up_an_abandoned_batch(context: Context) -> None:
    key, manifest = landed(context)
    scratch = f"shop/{manifest.batch_id}/decoded-theirs/part-0.parquet"

    def another_is_faster(_: Manifest) -> bool:
        context.ledger.batches.record(manifest.batch_id, LANDED, lease=Lease("h2:1:1", 60))
        context.files.store.put(scratch, b"rows")
        return True

    assert reconcile(context, another_is_faster) == []
    assert context.files.store.get(scratch) == b"rows"
    context.ledger.batches.record(manifest.batch_id, FAILED)
    assert reconcile(context, lambda _: True) == [key]
    row = context.ledger.batches.get(manifest.batch_id)
    assert row is not None
    assert (row.state, row.holder) == (LANDED, this_holder())
    assert reconcile(context, lambda _: True) == []


def test_reconcile_drops_the_table_that_a_failed_batch_made(context: Context) -> None:
    _, manifest = landed(context)
    context.ledger.batches.record(manifest.batch_id, FAILED)
    context.catalog.create_namespace("shop")
    context.catalog.create_table(("shop", "new"), Schema(), properties={PROP_PIPELINE: "shop"})
    assert reconcile(context, lambda _: True) != []
    assert not context.catalog.table_exists(("shop", "new"))


def test_a_driver_that_comes_too_late_stops_before_it_reads(context: Context) -> None:
    _, manifest = landed(context)
    undo_batch(context, manifest.batch_id)
    with pytest.raises(LeaseHeldError, match=r"is rolled_back; attempt .* stops here"):
        driver_of(context, manifest).run()
    row = context.ledger.batches.get(manifest.batch_id)
    assert row is not None
    assert row.state == ROLLED_BACK


def test_failure_keeps_the_other_details_of_the_batch(context: Context) -> None:
    """Whose share it is, say: without that no later run of the DAG takes it."""
    context.ledger.batches.record(
        "b1", FAILED, replace_details={"share_of": "b0", "error": "before"}
    )
    driver = driver_of(context, Manifest("shop", "b1", ()))
    driver._fail(TerminalError("now"))
    row = context.ledger.batches.get("b1")
    assert row is not None
    assert row.details["share_of"] == "b0"
    assert row.details["error"] == "TerminalError: now"


def test_one_error_of_the_store_does_not_end_the_renewing(
    context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hold_module, "_POLL_SECONDS", 0.01)
    driver = driver_of(context, Manifest("shop", "b1", ()))
    driver.lease.lease_seconds = 0.01
    renewed = threading.Event()
    monkeypatch.setattr(driver.lease, "_renew_once", fails_once(OSError("SLOW_DOWN"), renewed.set))
    with driver.lease.renewing(driver._stop_work):
        assert renewed.wait(10)


class Jobs:
    """A lake's Spark with a job that takes until somebody ends it."""

    def __init__(self) -> None:
        self.spark = self.sparkContext = self
        self.ended = threading.Event()

    def cancelAllJobs(self) -> None:
        self.ended.set()

    def restore_schemas(self) -> list[str]:
        return []


@pytest.mark.parametrize("state", [LANDED, PUBLISHED, ROLLED_BACK])
def test_a_driver_whose_batch_is_another_s_ends(
    context: Context, monkeypatch: pytest.MonkeyPatch, state: str
) -> None:
    """It is asked for while it decodes, before it needs the pipeline's lease."""
    _, manifest = landed(context)
    monkeypatch.setattr(hold_module, "_POLL_SECONDS", 0.01)
    jobs: Any = Jobs()

    def work(driver: Driver, _: bool) -> Never:
        driver.lake = jobs
        context.ledger.batches.record(manifest.batch_id, state, attempt="later")
        driver.lease.lease_seconds = 0.01
        assert jobs.ended.wait(10)
        raise RuntimeError("SPARK_JOB_CANCELLED")

    monkeypatch.setattr(Driver, "_work", work)
    with pytest.raises(LeaseHeldError, match="was taken over or undone"):
        driver_of(context, manifest).run()
    row = context.ledger.batches.get(manifest.batch_id)
    assert row is not None
    assert (row.attempt, row.state) == ("later", state)


@pytest.mark.parametrize(("state", "left"), [(ROLLED_BACK, 0), (PUBLISHED, 1), (FAILED, 1)])
def test_no_changes_of_a_batch_that_was_rolled_back_stay(
    context: Context, state: str, left: int
) -> None:
    """The driver that wakes up while it writes them commits them after the rollback."""
    name = ("shop__cdc", "orders__changes")
    schema = Schema(NestedField(1, BATCH_ID, StringType(), required=False))
    by_batch = PartitionSpec(PartitionField(1, 1000, IdentityTransform(), BATCH_ID))
    context.catalog.create_namespace("shop__cdc")
    log = context.catalog.create_table(name, schema, partition_spec=by_batch)
    log.append(pa.table({BATCH_ID: ["b1", "b2"]}))
    driver = driver_of(context, Manifest("shop", "b1", ()))
    context.ledger.batches.record("b1", state, attempt="later")
    driver._fail(LeaseHeldError("taken over"))
    log = context.catalog.load_table(name)
    assert [len(files_of(log, batch)) for batch in ("b1", "b2")] == [left, 1]


def test_renewing_keeps_a_batch_that_has_just_begun_to_load(context: Context) -> None:
    """The lease is taken between the look whether it is, and the renewing of the other."""
    driver = driver_of(context, Manifest("shop", "b1", ()))
    context.ledger.batches.record("b1", LOADING, attempt=driver.lease.attempt)
    driver.lease._renew_once()
    row = context.ledger.batches.get("b1")
    assert row is not None
    assert (row.state, row.attempt) == (LOADING, driver.lease.attempt)


def test_a_batch_whose_dead_attempt_was_overtaken_is_still_the_next_ones(context: Context) -> None:
    """The next attempt decodes without the lease, so that there is nothing that it could lose."""
    dead = BatchRow("shop", "b1", "dead", LOADING, holder="h:1:1")
    driver = driver_of(context, Manifest("shop", "b1", ()))
    driver.lease.predecessor = "dead"
    (row,) = fence_lapsed([dead], "b2")
    context.ledger.batches.record("b1", LOADING, attempt=row.attempt)
    driver.lease.require_current()
    driver.lease._held.set()
    with pytest.raises(LeaseHeldError, match="taken over"):
        driver.lease.require_current()


def test_scratch_that_cannot_be_removed_does_not_fail_the_load(
    context: Context, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse(*_: object) -> Never:
        raise OSError(errno.ENOTEMPTY, "Directory not empty")

    driver = driver_of(context, Manifest("shop", "b1", ()))
    monkeypatch.setattr(driver.files, "delete_scratch", refuse)
    driver._forget_scratch()
    assert "is left to maintenance" in capsys.readouterr().err
