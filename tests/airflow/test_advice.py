"""What the tasks' logs advise beside errors, and for batches that an earlier run abandoned."""

from __future__ import annotations

import logging
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowTaskTimeout

from sluice.errors import SluiceError, TerminalError, TransientError
from sluice.ledger.details import HALF_PUBLISHED
from sluice.ledger.states import FAILED, LANDED, PUBLISHING, ROLLED_BACK
from sluice.manifest import Manifest, Rebuild, Reprocess
from sluice.operations import stages
from sluice_airflow import advice, landing, submit, tasks
from sluice_airflow.advice import advised
from sluice_airflow.requests import RIGHT_FORM
from sluice_airflow.tasks import clean_up
from tests.airflow.one_batch import FILE, MANIFEST, one_batch


@pytest.mark.parametrize(
    ("manifest", "advice"),
    [
        (Manifest("shop", "b", ()), "a later run loads it again"),
        (Manifest("shop", "b", (), tables=("public.t",)), "sluice run shop loads it; or clear"),
        (Manifest("shop", "b", (), reprocess=Reprocess()), "sluice run shop loads it; or clear"),
        (
            Manifest("shop", "b", (), rebuild=Rebuild(("t",), at="")),
            "sluice run shop loads it, or the",
        ),
    ],
)
def test_reconcile_says_what_goes_on_with_an_abandoned_batch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture,
    manifest: Manifest, advice: str,
) -> None:  # fmt: skip
    """No later run of the DAG selects a batch that claims no files."""
    one_batch(tmp_path, LANDED)
    key = stages.open_context(tmp_path, "shop").files.write_manifest(manifest)
    monkeypatch.setattr(stages, "reconcile", lambda ctx: [key])
    with caplog.at_level(logging.INFO):
        assert tasks.reconcile(str(tmp_path), "shop") == [key]
    assert f"batch b is not published; {advice}" in caplog.text


@pytest.mark.parametrize(
    ("error", "kind"),
    [(PermissionError("denied"), TerminalError), (ConnectionResetError("reset"), TransientError)],
)
def test_an_error_of_a_store_says_whether_the_task_is_tried_again(
    error: Exception, kind: type[Exception]
) -> None:
    """Airflow's rules of retries know the errors of Sluice alone."""
    with pytest.raises(kind, match=str(error)), advised("reconcile", "shop"):
        raise error


def advice_of(caplog: pytest.LogCaptureFixture) -> str:
    (message,) = (line for line in caplog.messages if line.startswith("What to do"))
    return message


@pytest.mark.parametrize(
    ("error", "try_number", "again"),
    [
        (TransientError("away"), 2, True),
        (ValueError("odd"), 2, True),
        (TransientError("away"), 3, False),
        (TerminalError("wrong"), 1, False),
        (AirflowTaskTimeout("long"), 1, False),
    ],
)
def test_a_task_that_airflow_tries_again_is_not_to_be_cleared_yet(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture,
    error: BaseException, try_number: int, again: bool,
) -> None:  # fmt: skip
    ti = SimpleNamespace(try_number=try_number, max_tries=2)
    task = SimpleNamespace(execution_timeout=None)
    monkeypatch.setattr(advice, "get_current_context", lambda: {"ti": ti, "task": task})
    with pytest.raises(type(error)), advised("load", "shop"):
        raise error
    told = advice_of(caplog).startswith("What to do: nothing yet, Airflow tries it again by itself")
    assert told == again
    assert "Clear this task to load the same manifest again" in advice_of(caplog)


def test_a_reprocess_of_an_unknown_batch_is_not_advised_to_be_cleared(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A task that is cleared has the same form again."""
    one_batch(tmp_path, LANDED)
    form = {"pipeline": "shop", "batch": "20260302T10-8e7fc880f19c", "reason": "",
            "accept_late": False, "accept_open": False}  # fmt: skip
    context = {"params": form, "dag_run": SimpleNamespace(triggering_user_name="")}
    with pytest.raises(TerminalError, match="no batch"):
        tasks.land_quarantined(str(tmp_path), context)
    assert RIGHT_FORM in advice_of(caplog)


@pytest.mark.parametrize(
    ("state", "half", "words"),
    [
        (PUBLISHING, False, "some tables may have the batch"),
        (FAILED, True, "some tables may have the batch"),
        (FAILED, False, "{}"),
    ],
)
@pytest.mark.parametrize(
    ("task", "of_others"),
    [
        ("load", "nothing was published"),
        ("publish", "a table published already stays so"),
        ("batch.rollback", "main was not moved"),
    ],
)
def test_advice_for_a_half_published_batch_does_not_say_that_no_table_has_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture,
    task: str, of_others: str, state: str, half: bool, words: str,
) -> None:  # fmt: skip
    def fails(*_: Any, **__: Any) -> Any:
        raise TransientError("the store is away")

    ctx = one_batch(tmp_path, state)
    if half:
        ctx.ledger.batches.record("b", state, replace_details={HALF_PUBLISHED: True})
    monkeypatch.setattr(stages, "reconcile", fails)
    monkeypatch.setattr(stages, "give_up", fails)
    monkeypatch.setattr(stages, "publish", fails)
    monkeypatch.setattr(submit, "_is_small", fails)
    run = SimpleNamespace(xcom_pull=lambda task_ids: [])
    load = submit.LoadOperator(task_id="load", project_dir=str(tmp_path), manifest=MANIFEST)
    does = {
        "load": lambda: load.execute({"ti": run}),
        "publish": lambda: tasks.publish(str(tmp_path), MANIFEST, {}),
        "batch.rollback": lambda: clean_up(str(tmp_path), MANIFEST),
    }
    with pytest.raises(TransientError):
        does[task]()
    assert words.format(of_others) in advice_of(caplog)


def test_publishing_what_was_rolled_back_is_not_advised_to_be_cleared(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Whoever clears its load and what follows sees a green load, and this error."""
    one_batch(tmp_path, ROLLED_BACK).files.write_manifest(Manifest("shop", "b", (FILE,)))
    with pytest.raises(TerminalError, match="sluice release shop --batch b, then run again"):
        tasks.publish(str(tmp_path), MANIFEST, {})
    assert "clearing this task only repeats it" in advice_of(caplog)


@pytest.mark.parametrize(
    ("kind", "words"),
    [("FilesLeftOut", "Give Sluice the right to read"), ("FilesUnread", "Make room, if")],
)
def test_advice_for_files_that_are_not_read_is_that_for_their_cause(
    caplog: pytest.LogCaptureFixture, kind: str, words: str
) -> None:
    left = SimpleNamespace(xcom_pull=lambda task_ids, key: "told" if key == kind else None)
    with pytest.raises(SluiceError, match="told"):
        landing.refuse_denied("shop", {"ti": left})
    assert words in advice_of(caplog)
