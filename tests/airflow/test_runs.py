"""Runs of the real DAG, with the stages replaced: order, retries, colours of runs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from types import ModuleType
from typing import Any

import pytest
from airflow.sdk.exceptions import ParamValidationError

from sluice.errors import AuditFailedError, FileDeniedError, PublishRefusedError, TransientError
from sluice.ledger.rows import BatchRow
from sluice.manifest import Reprocess
from sluice.operations import rollback
from sluice.operations.selection import Selection
from sluice.operations.unreadable_files import UnreadableFiles
from sluice.operations.window import Window
from sluice.result import BatchResult, Counts, StagedTable, TableResult
from sluice_airflow import submit, tasks

pytestmark = pytest.mark.airflow

MANIFEST = "shop/{}/manifest.json"
USER = "dag_test"
Runs = Callable[..., tuple[Any, dict[str, str]]]


@dataclass
class Stages:
    """Replaces `operations.stages`: records the calls, and fails where the test says so."""

    batches: list[str] = field(default_factory=lambda: ["b1", "b2"])
    calls: list[tuple[Any, ...]] = field(default_factory=list)
    failures: dict[str, list[Exception]] = field(default_factory=dict)
    state: str = "loading"
    denied: dict[str, FileDeniedError | TransientError] = field(default_factory=dict)

    def note(self, *call: Any) -> None:
        self.calls.append(call)
        if waiting := self.failures.get(":".join(map(str, call[:2]))):
            raise waiting.pop(0)

    def of(self, stage: str) -> list[tuple[Any, ...]]:
        return [call[1:] for call in self.calls if call[0] == stage]


@pytest.fixture
def stages(monkeypatch: pytest.MonkeyPatch) -> Stages:
    fake = Stages()
    module: Any = ModuleType("stages")
    module.open_context = lambda folder, pipeline, say: fake_context(fake, pipeline)
    module.reconcile = lambda ctx: fake.note("reconcile", ctx.pipeline.name) or []
    module.land = lambda ctx, asked, unreadable, changed: landed(
        fake, unreadable, *told(asked), *(["changed"] if changed else [])
    )
    module.land_tables = lambda ctx, tables, asked, unreadable: landed(
        fake, unreadable, tables, *told(asked)
    )
    module.publish = lambda ctx, manifest: published(fake, manifest)
    module.give_up = lambda ctx, batch: undone(fake, batch, False)
    module.published_after = lambda ctx, batch: ["b8", "b7"]
    module.release = lambda ctx, batch: fake.note("release", batch) or 3
    again: Any = ModuleType("reprocess")
    again.land_quarantined = lambda ctx, *given, signature: landed_again(
        fake, ctx.pipeline.name, *given, signature
    )
    refolding: Any = ModuleType("refolding")
    refolding.undo_or_refold = lambda ctx, batch, dry_run: for_good(fake, batch, dry_run)
    refolding.undo_or_refold_after = lambda ctx, batch, dry_run: for_good(
        fake, "after", batch, dry_run
    )
    refolding.rebuild = lambda ctx, *asked: for_good(fake, "rebuild", *asked)
    refolding.named_targets = lambda ctx, table: []
    for name, stand_in in (("stages", module), ("reprocess", again)):
        monkeypatch.setattr(tasks, name, stand_in)
    for name, stand_in in (("undo", module), ("refolding", refolding)):
        monkeypatch.setattr(rollback, name, stand_in)
    for name in ("candidates", "landed"):
        monkeypatch.setattr(tasks, name, lambda *_: [])
    monkeypatch.setattr(submit, "_submit", lambda hook, application: loaded(fake, hook))
    monkeypatch.setattr(submit, "_is_small", lambda project, manifest: True)
    return fake


def fake_context(fake: Stages, pipeline: str) -> Any:
    context: Any = ModuleType("context")
    context.pipeline = ModuleType("pipeline")
    context.pipeline.name = pipeline
    context.ledger = ModuleType("ledger")
    context.ledger.unfinished = list
    context.ledger.batches = ModuleType("batches")
    context.ledger.batches.get = lambda b: row(fake)
    context.ledger.batches.all = list
    context.ledger.batches.record = lambda b, state, **asked: signed(fake, b, **asked)
    return context


def row(fake: Stages) -> BatchRow:
    return BatchRow("shop", "b7", "a1", fake.state)


def signed(fake: Stages, batch: str, add_details: Any, expected: Callable[..., bool]) -> None:
    if expected(row(fake)):
        fake.note("sign", batch, add_details)


def told(asked: Selection) -> tuple[Any, ...]:
    return asked.window, asked.until, list(asked.files) or None


def landed(fake: Stages, unreadable: UnreadableFiles, *given: Any) -> list[str]:
    fake.note("land", *given)
    unreadable.errors.update(fake.denied)
    return [MANIFEST.format(batch) for batch in fake.batches]


def landed_again(fake: Stages, *given: Any) -> list[str]:
    fake.note("again", *given)
    return [MANIFEST.format(batch) for batch in fake.batches]


def undone(fake: Stages, *given: Any) -> list[str]:
    fake.note("rollback", *given)
    return ["moved"]


def for_good(fake: Stages, *given: Any) -> list[str]:
    fake.state = "rolled_back"
    return undone(fake, *given)


def loaded(fake: Stages, hook: Any) -> None:
    fake.note("load", hook._application_args[3].split("/")[1], hook._env_vars)


def published(fake: Stages, manifest: str) -> BatchResult:
    batch = manifest.split("/")[1]
    fake.note("publish", batch)
    fake.state = "published"
    staged = (
        StagedTable("shop", "orders", "x", 1, 2, 0),
        StagedTable("shop__cdc", "orders__changes", "x", 3, 4, 0),
    )
    table = TableResult("public.orders", "shop.orders", Counts(read=1, applied=1), staged)
    return BatchResult("shop", batch, "a1", (table,))


@pytest.fixture
def run(parsed: Callable[[], dict[str, Any]], states: Callable[[Any], dict[str, str]]) -> Runs:
    """Run a DAG in this process (which keeps the parameters given); no waiting between tries."""

    def once(name: str = "sluice_shop", **given: Any) -> tuple[Any, dict[str, str]]:
        dag = parsed()[name]
        for task in dag.tasks:
            task.retry_delay = timedelta(0)
            task.retry_exponential_backoff = 0
        given.setdefault("logical_date", None)
        finished = dag.test(**given)
        return finished, states(finished)

    return once


def test_every_batch_is_loaded_then_published(stages: Stages, run: Runs) -> None:
    finished, states = run()
    assert finished.state == "success"
    assert states["batch.publish[0]"] == states["batch.publish[1]"] == "success"
    assert stages.of("land") == [(None, None, None)]
    assert [call[0] for call in stages.calls][:2] == ["reconcile", "land"]
    assert sorted(call[0] for call in stages.of("load")) == ["b1", "b2"]
    assert sorted(stages.of("publish")) == [("b1",), ("b2",)]
    assert stages.of("rollback") == []


def test_more_batches_than_airflow_maps_over_are_left_to_later_runs(
    stages: Stages, run: Runs, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AIRFLOW__CORE__MAX_MAP_LENGTH", "2")
    stages.batches = ["b3", "b1", "b2"]
    finished, _ = run()
    assert finished.state == "success"
    assert sorted(stages.of("publish")) == [("b1",), ("b2",)]


def test_the_driver_gets_the_connections_master_and_sluice_on_its_path(
    stages: Stages, run: Runs
) -> None:
    stages.batches = ["b1"]
    run()
    environment = stages.of("load")[0][1]
    assert environment["SLUICE_SPARK_MASTER"] == "local[2]"
    assert environment["PYTHONPATH"].split(":")[1].endswith("/include")


def test_a_run_skips_when_nothing_landed(stages: Stages, run: Runs) -> None:
    stages.batches = []
    finished, states = run()
    assert finished.state == "success"
    assert states["land"] == "skipped"
    assert stages.of("load") == []


@pytest.mark.parametrize("kind", [FileDeniedError, TransientError])
def test_a_file_that_cannot_be_read_makes_the_run_red_and_stops_no_batch(
    stages: Stages,
    run: Runs,
    caplog: pytest.LogCaptureFixture,
    kind: type[FileDeniedError | TransientError],
) -> None:
    stages.denied = {"z.jsonl": kind("s3://landing/z.jsonl: told")}
    finished, states = run()
    assert finished.state == "failed"
    assert states["land"] == "success"
    assert states["batch.publish[0]"] == states["batch.publish[1]"] == "success"
    assert states["denied"] == "failed"
    assert "s3://landing/z.jsonl: told" in caplog.text


def test_a_run_for_files_none_of_which_can_be_read_fails_at_once(stages: Stages, run: Runs) -> None:
    stages.batches, stages.denied = [], {"z.jsonl": FileDeniedError("s3://landing/z.jsonl: told")}
    finished, states = run()
    assert finished.state == "failed"
    assert states["land"] == "failed"
    assert len(stages.of("land")) == 1


def test_a_failed_load_is_a_failed_run_that_published_nothing(stages: Stages, run: Runs) -> None:
    stages.batches = ["b1"]
    stages.failures["load:b1"] = [AuditFailedError("count does not add up")]
    finished, states = run()
    assert finished.state == "failed"
    assert states["batch.load[0]"] == "failed"
    assert states["batch.rollback[0]"] == "success"
    assert stages.of("publish") == []
    assert stages.of("rollback") == [("b1", False)]
    assert len(stages.of("load")) == 1


def test_one_failed_batch_neither_stops_the_other_nor_hides(stages: Stages, run: Runs) -> None:
    stages.failures["load:b1"] = [AuditFailedError("count does not add up")]
    finished, states = run()
    assert finished.state == "failed"
    assert states["batch.publish[1]"] == "success"
    assert stages.of("publish") == [("b2",)]


def test_a_transient_error_is_tried_again(stages: Stages, run: Runs) -> None:
    stages.batches = ["b1"]
    stages.failures["load:b1"] = [TransientError("the driver was killed")]
    finished, _ = run()
    assert finished.state == "success"
    assert len(stages.of("load")) == 2


def test_a_refused_publish_is_tried_again(stages: Stages, run: Runs) -> None:
    stages.batches = ["b1"]
    stages.failures["publish:b1"] = [PublishRefusedError("main moved")]
    finished, _ = run()
    assert finished.state == "success"
    assert len(stages.of("publish")) == 2


def test_a_failed_publish_is_a_failed_run(stages: Stages, run: Runs) -> None:
    stages.batches = ["b1"]
    stages.failures["publish:b1"] = [AuditFailedError("no")]
    finished, states = run()
    assert finished.state == "failed"
    assert states["batch.publish[0]"] == "failed"


def test_an_interrupted_publication_is_completed_not_dropped(stages: Stages, run: Runs) -> None:
    stages.batches = ["b1"]
    stages.state = "publishing"
    stages.failures["publish:b1"] = [AuditFailedError("half way")]
    finished, _ = run()
    assert finished.state == "failed"
    assert len(stages.of("reconcile")) == 2
    assert stages.of("rollback") == []


def test_the_form_names_window_or_files(stages: Stages, run: Runs) -> None:
    window = {"window_start": "2026-01-01T02:00:00Z", "window_end": "2026-01-01T03:00:00Z"}
    run(run_conf=window)
    two = datetime(2026, 1, 1, 2, tzinfo=UTC)
    assert stages.of("land")[0][0] == Window(two, two + timedelta(hours=1))
    run(run_conf={"files": ["a.jsonl"]})
    assert stages.of("land")[1] == (None, None, ["a.jsonl"])


def test_the_form_names_tables(stages: Stages, run: Runs) -> None:
    run(run_conf={"tables": ["orders"], "files": ["a.jsonl"]})
    assert stages.of("land") == [(("orders",), None, None, ["a.jsonl"])]


def test_the_form_asks_for_changed_files(stages: Stages, run: Runs) -> None:
    run(run_conf={"changed": True})
    assert stages.of("land")[0][-1] == "changed"


def test_a_dry_run_takes_nothing(stages: Stages, run: Runs) -> None:
    finished, states = run(run_conf={"dry_run": True})
    assert states["land"] == "skipped"
    assert finished.state == "success"
    assert stages.of("land") == []


def test_a_past_manual_run_takes_what_was_there_then(stages: Stages, run: Runs) -> None:
    run(logical_date=datetime(2026, 1, 1, 5, tzinfo=UTC))
    assert stages.of("land") == [(None, datetime(2026, 1, 1, 5, tzinfo=UTC), None)]


def test_a_published_table_is_an_asset_event_with_its_snapshots(stages: Stages, run: Runs) -> None:
    from airflow.models.asset import AssetEvent
    from airflow.utils.session import create_session
    from sqlalchemy import select

    stages.batches = ["asset1"]
    run()
    with create_session() as session:
        events = [e for e in session.scalars(select(AssetEvent)) if e.extra["batch_id"] == "asset1"]
        assert [event.extra["snapshot_id"] for event in events] == [2]
        assert [event.asset.uri for event in events] == ["iceberg://lake/shop/orders"]


def test_without_the_connection_the_first_task_fails(
    stages: Stages, run: Runs, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("AIRFLOW_CONN_SPARK_DEFAULT")
    finished, states = run()
    assert finished.state == "failed"
    assert states["reconcile"] == "failed"
    assert stages.calls == []


def test_the_rollback_form_undoes_a_batch(stages: Stages, run: Runs) -> None:
    conf = {"pipeline": "shop", "batch": "b7", "release": True}
    finished, _ = run("sluice_rollback", run_conf=conf)
    assert finished.state == "success"
    assert stages.of("rollback") == [("b7", False)]
    assert stages.of("release") == [("b7",)]
    assert stages.of("sign") == [("b7", {"rolled_back_by": USER, "released_by": USER})]


def test_the_rollback_form_makes_a_target_again(stages: Stages, run: Runs) -> None:
    run("sluice_rollback", run_conf={"pipeline": "shop", "rebuild": True, "table": "orders"})
    assert stages.of("rollback") == [("rebuild", "orders", False, USER)]
    assert stages.of("release") == []


@pytest.mark.parametrize("conf", [{"rebuild": True, "to": "b"}, {"batch": "b", "table": "orders"}])
def test_the_rollback_form_refuses_what_does_not_go_together(
    stages: Stages, run: Runs, conf: dict[str, Any]
) -> None:
    finished, _ = run("sluice_rollback", run_conf={"pipeline": "shop", **conf})
    assert finished.state == "failed"
    assert stages.of("rollback") == []


def test_the_rollback_form_undoes_all_after_a_batch(stages: Stages, run: Runs) -> None:
    conf = {"pipeline": "shop", "to": "b6", "release": True}
    run("sluice_rollback", run_conf=conf)
    assert stages.of("rollback") == [("after", "b6", False)]
    assert stages.of("release") == [("b8",), ("b7",)]
    run("sluice_rollback", run_conf={**conf, "dry_run": True})
    assert stages.of("rollback")[1:] == [("after", "b6", True)]
    assert len(stages.of("release")) == 2
    assert [call[0] for call in stages.of("sign")] == ["b8", "b7"]


@pytest.mark.parametrize(
    "conf",
    [
        {"batch": "b7'; --"},
        {"to": "../b7"},
        {"batch": "b" * 65},
        {"rebuild": True, "table": "t" * 401},
    ],
)
def test_the_rollback_form_takes_no_other_text(
    stages: Stages, run: Runs, conf: dict[str, Any]
) -> None:
    with pytest.raises(ParamValidationError):
        run("sluice_rollback", run_conf={"pipeline": "shop", **conf})
    assert stages.calls == []


def test_the_reprocess_form_loads_and_publishes_its_batches(stages: Stages, run: Runs) -> None:
    stages.batches = ["r1"]
    conf = {"pipeline": "shop", "batch": "b7", "reason": "mended", "accept_late": True}
    finished, states = run("sluice_reprocess", run_conf=conf)
    asked = Reprocess(reason="mended", accept_late=True)
    assert finished.state == "success"
    assert stages.of("again") == [("shop", "b7", asked, f"(asked for by {USER})")]
    assert [call[0] for call in stages.of("load")] == ["r1"]
    assert stages.of("publish") == [("r1",)]
    assert states["batch.rollback[0]"] == "success"
