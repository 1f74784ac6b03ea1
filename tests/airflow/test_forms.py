"""What the forms of the DAGs ask for, in runs with the stages replaced."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk.exceptions import ParamValidationError

from sluice.errors import ConfigError
from sluice.ledger.details import UndoOrder
from sluice.manifest import Reprocess
from sluice.operations.window import Window
from sluice_airflow import tasks
from sluice_airflow.requests import refuse_late, refuse_unknown_fields, rollback_request
from tests.airflow.fake_stages import Runs, Stages

pytestmark = pytest.mark.airflow

USER = "dag_test"
B6, B7 = "20260301T06-6fbcb278d1fa", "f5fbc2f9b632"  # the latter's batch has no files


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


def test_the_rollback_form_undoes_a_batch(stages: Stages, run: Runs) -> None:
    conf = {"pipeline": "shop", "batch": B7, "release": True}
    finished, _ = run("sluice_rollback", run_conf=conf)
    assert finished.state == "success"
    assert stages.of("rollback") == [(B7, False, UndoOrder(USER, release=True))]
    assert stages.of("release") == [(B7,)]
    assert stages.of("sign") == [(B7, {"rolled_back_by": USER, "released_by": USER})]


def asked_for(ago: timedelta, tries: int = 1, **form: Any) -> dict[str, Any]:
    """The context of a rollback to B6 whose form was filled in `ago`."""
    empty = {"pipeline": "shop", "batch": "", "to": B6, "rebuild": False, "table": ""}
    return {
        "params": {**empty, "release": True, "dry_run": False, **form},
        "ti": SimpleNamespace(try_number=tries),
        "dag_run": SimpleNamespace(triggering_user_name=USER, run_after=datetime.now(UTC) - ago),
    }


@pytest.mark.parametrize(
    ("ago", "tries", "why"),
    [
        (timedelta(), 2, "this task was cleared or restarted"),
        (timedelta(hours=2), 1, "this run has waited since 20"),
    ],
)
def test_a_rollback_that_begins_long_after_it_was_asked_for_undoes_nothing(
    stages: Stages, project: Path, caplog: pytest.LogCaptureFixture,
    ago: timedelta, tries: int, why: str,
) -> None:  # fmt: skip
    """Batches that were published since its form was filled in would go too."""
    with pytest.raises(ConfigError, match=f"{why}.* trigger the DAG again"):
        tasks.roll_back(str(project), asked_for(ago, tries))
    assert stages.calls == []
    assert "What to do: trigger the DAG again" in caplog.text


@pytest.mark.parametrize(
    ("ago", "form"),
    [
        (timedelta(minutes=30), {}),
        (timedelta(hours=2), {"dry_run": True}),
        (timedelta(hours=2), {"to": "", "rebuild": True}),
    ],
)
def test_a_rollback_may_wait_a_little_and_longer_if_it_undoes_nothing(
    ago: timedelta, form: dict[str, Any]
) -> None:
    context = asked_for(ago, **form)
    refuse_late(context, rollback_request(context))


def test_the_rollback_form_makes_a_target_again(stages: Stages, run: Runs) -> None:
    run("sluice_rollback", run_conf={"pipeline": "shop", "rebuild": True, "table": "orders"})
    assert stages.of("rollback") == [("rebuild", "orders", USER)]
    assert stages.of("release") == []


@pytest.mark.parametrize("conf", [{"rebuild": True, "to": B6}, {"batch": B7, "table": "orders"}])
def test_the_rollback_form_refuses_what_does_not_go_together(
    stages: Stages, run: Runs, conf: dict[str, Any]
) -> None:
    finished, _ = run("sluice_rollback", run_conf={"pipeline": "shop", **conf})
    assert finished.state == "failed"
    assert stages.of("rollback") == []


@pytest.mark.parametrize(
    ("dag", "conf", "message"),
    [
        ("rollback", {"pipeline": "shop", "batch": B7, "dry-run": True}, "did you mean dry_run?"),
        ("shop", {"table": ["orders"]}, "did you mean tables?"),
        (
            "reprocess",
            {"pipeline": "shop", "zone": 1},
            "has 'zone', and sluice_reprocess has no such field; there are: pipeline",
        ),
        (
            "reconcile",
            {"pipeline": "shop", "dry_run": True},
            "has 'dry_run', and sluice_reconcile has no such field",
        ),
        ("maintain", {"pipeline": ["shop"]}, "did you mean pipelines?"),
    ],
)
def test_a_key_that_no_field_has_is_refused_before_anything_is_done(
    stages: Stages, run: Runs, dags: dict[str, Any], caplog: pytest.LogCaptureFixture,
    dag: str, conf: dict[str, Any], message: str,
) -> None:  # fmt: skip
    """Airflow ignores it: a dry run that is spelled otherwise would be none."""
    finished, _ = run(f"sluice_{dag}", run_conf=conf)
    assert finished.state == "failed"
    assert stages.calls == []
    assert "What to do: trigger the DAG again" in caplog.text
    with pytest.raises(ConfigError, match="^Nothing was done: .*" + re.escape(message)):
        refuse_unknown_fields({"dag": dags[f"sluice_{dag}"], "dag_run": SimpleNamespace(conf=conf)})


@pytest.mark.parametrize(
    ("dag", "conf"), [("shop", {"dry_run": True}), ("maintain", {"dry_run": True, "budget": 5})]
)
def test_a_conf_that_airflow_ignores_is_refused_before_anything_is_done(
    stages: Stages, run: Runs, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture,
    dag: str, conf: dict[str, Any],
) -> None:  # fmt: skip
    """A dry run would be a real one."""
    monkeypatch.setenv("AIRFLOW__CORE__DAG_RUN_CONF_OVERRIDES_PARAMS", "False")
    finished, _ = run(f"sluice_{dag}", run_conf=conf)
    assert finished.state == "failed"
    assert stages.calls == []
    assert f"Airflow ignores what the run's conf says of {', '.join(conf)}" in caplog.text


@pytest.mark.parametrize(
    "conf",
    [
        {"tables": ["nope"]},
        {"tables": ["nope"], "dry_run": True},
        {"window_start": "2026-01-01T02:00:00Z"},
    ],
)
def test_a_mistake_in_the_form_of_a_pipeline_is_red_and_repeating_it_is_not_advised(
    stages: Stages, run: Runs, caplog: pytest.LogCaptureFixture, conf: dict[str, Any]
) -> None:
    """A clear has the same form again."""
    finished, states = run(run_conf=conf)
    assert (finished.state, states["land"]) == ("failed", "failed")
    assert stages.of("land") == []
    assert "What to do: trigger the DAG again" in caplog.text


def test_a_mistake_in_the_rollback_form_names_the_forms_fields() -> None:
    form = {"batch": B7, "to": None, "rebuild": True, "table": "", "release": None, "dry_run": None}
    context = {"params": form, "dag_run": SimpleNamespace()}
    with pytest.raises(ConfigError, match=r"one of Batch .*got Batch and Rebuild$") as caught:
        rollback_request(context)
    assert "--" not in str(caught.value)
    with pytest.raises(ConfigError, match="Table goes with Rebuild; Batch undoes"):
        rollback_request({**context, "params": {**form, "rebuild": None, "table": "orders"}})


def test_the_rollback_form_undoes_all_after_a_batch(stages: Stages, run: Runs) -> None:
    conf = {"pipeline": "shop", "to": B6, "release": True}
    run("sluice_rollback", run_conf=conf)
    order = UndoOrder(USER, release=True)
    assert stages.of("rollback") == [("after", B6, False, order)]
    run("sluice_rollback", run_conf={**conf, "dry_run": True})
    assert stages.of("rollback")[1:] == [("after", B6, True, order)]


@pytest.mark.parametrize(
    "conf",
    [
        {"batch": f"{B7}'; --"},
        {"to": f"../{B7}"},
        {"batch": "x"},
        {"to": B7[:-1]},
        {"rebuild": True, "table": "t" * 401},
    ],
)
def test_the_rollback_form_takes_no_other_text(
    stages: Stages, run: Runs, conf: dict[str, Any]
) -> None:
    with pytest.raises(ParamValidationError):
        run("sluice_rollback", run_conf={"pipeline": "shop", **conf})
    assert stages.calls == []


def test_a_checkbox_that_is_null_is_off(stages: Stages, run: Runs) -> None:
    conf = {"pipeline": "shop", "to": B6, "release": None, "dry_run": None, "rebuild": None}
    run("sluice_rollback", run_conf=conf)
    assert stages.of("rollback") == [("after", B6, False, UndoOrder(USER))]


def test_the_reprocess_form_loads_and_publishes_its_batches(stages: Stages, run: Runs) -> None:
    stages.batches = ["r1"]
    conf = {"pipeline": "shop", "batch": B7, "reason": "mended", "accept_late": True}
    finished, states = run("sluice_reprocess", run_conf=conf)
    asked = Reprocess(reason="mended", accept_late=True)
    assert finished.state == "success"
    assert stages.of("again") == [("shop", B7, asked, f"(asked for by {USER})")]
    assert [call[0] for call in stages.of("load")] == ["r1"]
    assert stages.of("publish") == [("r1",)]
    assert states["batch.rollback[0]"] == "success"
