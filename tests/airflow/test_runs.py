"""Runs of the real DAG, with the stages replaced: order, retries, colours of runs."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from sluice.errors import AuditFailedError, FileDeniedError, PublishRefusedError, TransientError
from sluice_airflow import advice, landing, submit, tasks
from tests.airflow.fake_stages import Runs, Stages

pytestmark = pytest.mark.airflow


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


def told(caplog: pytest.LogCaptureFixture) -> list[str]:
    """What the tasks themselves say in their logs; Airflow's own lines hide behind others."""
    own = {module.__name__ for module in (advice, landing, tasks)}
    return [entry.getMessage() for entry in caplog.records if entry.name in own]


def test_a_run_skips_when_nothing_landed(
    stages: Stages, run: Runs, caplog: pytest.LogCaptureFixture
) -> None:
    stages.batches = []
    finished, states = run()
    assert "shop: nothing to load (everything); no file matches" in told(caplog)
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


def test_a_load_that_takes_too_long_names_its_limit_and_is_not_tried_again(
    stages: Stages, run: Runs, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def takes_long(hook: Any, application: str) -> None:
        stages.note("load")
        time.sleep(60)

    stages.batches = ["b1"]
    monkeypatch.setattr(submit, "_submit", takes_long)
    finished, states = run(longest=timedelta(seconds=2))
    assert (finished.state, states["batch.load[0]"]) == ("failed", "failed")
    assert len(stages.of("load")) == 1
    assert "Stopped after 0:00:02: see spark.max_load_seconds" in caplog.text
    assert "What to do: nothing was published" in caplog.text


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


def test_a_dry_run_takes_nothing(
    stages: Stages, run: Runs, caplog: pytest.LogCaptureFixture
) -> None:
    finished, states = run(run_conf={"dry_run": True})
    assert told(caplog)[-1] == "dry run: 0 files, 0 bytes"
    assert states["land"] == "skipped"
    assert finished.state == "success"
    assert stages.of("land") == []


def test_manual_run_of_a_past_date_lands_only_files_until_that_date(
    stages: Stages, run: Runs
) -> None:
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
        assert [event.extra["snapshot_id"] for event in events] == ["2"]
        assert [event.asset.uri for event in events] == ["iceberg://lake/shop/orders"]


def test_without_the_connection_a_dry_run_of_maintenance_fails_too(
    stages: Stages, run: Runs, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """It does not reconcile first, where the connection is checked for all other drivers."""
    monkeypatch.delenv("AIRFLOW_CONN_SPARK_DEFAULT")
    finished, _ = run("sluice_maintain", run_conf={"dry_run": True})
    assert finished.state == "failed"
    assert "Airflow has no connection 'spark_default'" in caplog.text
    assert stages.calls == []


def test_without_the_connection_the_first_task_fails(
    stages: Stages, run: Runs, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("AIRFLOW_CONN_SPARK_DEFAULT")
    finished, states = run()
    assert finished.state == "failed"
    assert states["reconcile"] == "failed"
    assert stages.calls == []
