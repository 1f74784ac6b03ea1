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
from sluice.manifest import Reprocess
from sluice.operations.window import Window
from sluice_airflow import tasks
from sluice_airflow.requests import refuse_unknown_fields, rollback_request
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
    assert stages.of("rollback") == [(B7, False)]
    assert stages.of("release") == [(B7,)]
    assert stages.of("sign") == [(B7, {"rolled_back_by": USER, "released_by": USER})]


def test_a_rollback_that_is_cleared_undoes_nothing(stages: Stages, project: Path) -> None:
    """Batches that were published since its form was filled in would go too."""
    form = {"pipeline": "shop", "batch": "", "to": B6, "rebuild": False, "table": ""}
    context = {
        "params": {**form, "release": True, "dry_run": False},
        "ti": SimpleNamespace(try_number=2),
        "dag_run": SimpleNamespace(triggering_user_name=USER),
    }
    with pytest.raises(ConfigError, match="trigger the DAG again"):
        tasks.roll_back(str(project), context)
    assert stages.calls == []


def test_the_rollback_form_makes_a_target_again(stages: Stages, run: Runs) -> None:
    run("sluice_rollback", run_conf={"pipeline": "shop", "rebuild": True, "table": "orders"})
    assert stages.of("rollback") == [("rebuild", "orders", False, USER)]
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
        ("reprocess", {"pipeline": "shop", "zone": 1}, "no field 'zone'; there are: pipeline, "),
        ("reconcile", {"pipeline": "shop", "dry_run": True}, "no field 'dry_run'"),
        ("maintain", {"pipeline": ["shop"]}, "did you mean pipelines?"),
    ],
)
def test_a_key_that_no_field_has_is_refused_before_anything_is_done(
    stages: Stages, run: Runs, dags: dict[str, Any], dag: str, conf: dict[str, Any], message: str
) -> None:
    """Airflow ignores it: a dry run that is spelled otherwise would be none."""
    finished, _ = run(f"sluice_{dag}", run_conf=conf)
    assert finished.state == "failed"
    assert stages.calls == []
    with pytest.raises(ConfigError, match=re.escape(message)):
        refuse_unknown_fields({"dag": dags[f"sluice_{dag}"], "dag_run": SimpleNamespace(conf=conf)})


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
    assert stages.of("rollback") == [("after", B6, False)]
    assert stages.of("release") == [("b8",), ("b7",)]
    run("sluice_rollback", run_conf={**conf, "dry_run": True})
    assert stages.of("rollback")[1:] == [("after", B6, True)]
    assert len(stages.of("release")) == 2
    assert [call[0] for call in stages.of("sign")] == ["b8", "b7"]


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
    assert stages.of("rollback") == [("after", B6, False)]
    assert stages.of("release") == []


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
