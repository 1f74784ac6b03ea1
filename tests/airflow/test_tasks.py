"""The tasks' own decisions: whose batch a run takes over, which driver's end is worth a retry."""

from __future__ import annotations

import os
import time
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest

from sluice.errors import TerminalError, TransientError
from sluice.ledger.rows import (
    FAILED,
    LANDED,
    LOADED,
    LOADING,
    PUBLISHED,
    PUBLISHING,
    ROLLED_BACK,
    BatchRow,
    FileRow,
)
from sluice.manifest import Manifest, SourceFile
from sluice.operations import stages
from sluice.operations.window import Window
from sluice_airflow import queued, submit, tasks
from sluice_airflow.selection import RunSelection
from sluice_airflow.tasks import STALE, clean_up, selection_of, taken_over

NOW = datetime.now(UTC)
OLD = NOW - 2 * STALE
FIVE = datetime(2026, 1, 1, 5, tzinfo=UTC)
SIX = FIVE + timedelta(hours=1)
AT_FIVE = RunSelection(window=Window(FIVE, SIX))
AT_SIX = RunSelection(window=Window(SIX, SIX + timedelta(hours=1)))
EVERYTHING = RunSelection()


def context(state: str, at: datetime, lapsed: bool = True) -> Any:
    """A pipeline with one unfinished batch: `b`, of a file `a` of five o'clock."""
    row = BatchRow("shop", "b", "", state, at=at, manifest="shop/b/manifest.json")
    file = FileRow("shop", "a", 1, "", "", "", None, "20260101T05", "b", "claimed")
    ledger = SimpleNamespace(
        unfinished=lambda: [row],
        lease=SimpleNamespace(has_lapsed=lambda row: lapsed),
        files=SimpleNamespace(of_batch=lambda batch: [file]),
    )
    landing = SimpleNamespace(url="/landing", on_s3=False)
    return SimpleNamespace(ledger=ledger, pipeline=SimpleNamespace(name="shop", landing=landing))


@pytest.mark.parametrize(
    ("state", "at", "chosen", "again", "taken"),
    [
        (LANDED, OLD, EVERYTHING, False, True),
        (LANDED, NOW, EVERYTHING, False, False),
        (LANDED, NOW, EVERYTHING, True, True),
        (LOADING, OLD, AT_FIVE, False, True),
        (LANDED, OLD, AT_SIX, False, False),
        (LANDED, OLD, RunSelection(until=FIVE), False, False),
        (FAILED, NOW, AT_FIVE, False, True),
        (FAILED, NOW, RunSelection(files=("a",)), False, True),
        (FAILED, NOW, RunSelection(files=("z",)), False, False),
        (FAILED, NOW, EVERYTHING, False, False),
        (PUBLISHING, OLD, EVERYTHING, True, False),
    ],
)
def test_what_a_run_takes_over(
    state: str, at: datetime, chosen: RunSelection, again: bool, taken: bool
) -> None:
    found = taken_over(context(state, at), chosen, again)
    assert found == (["shop/b/manifest.json"] if taken else [])


@pytest.mark.parametrize(
    ("chosen", "taken"), [(EVERYTHING, True), (AT_FIVE, True), (AT_SIX, False)]
)
def test_a_run_takes_over_what_another_batch_left_out(chosen: RunSelection, taken: bool) -> None:
    """It claims no file: its manifest tells the hour."""
    shared: Any = context(FAILED, OLD)
    row = replace(shared.ledger.unfinished()[0], detail='{"share_of": "a"}')
    manifest = Manifest("shop", "b", (SourceFile("a", "file:///a", 1, hour="20260101T05"),))
    shared.ledger.unfinished = lambda: [row]
    shared.files = SimpleNamespace(read_manifest=lambda key: manifest)
    assert taken_over(shared, chosen, False) == (["shop/b/manifest.json"] if taken else [])


@pytest.mark.parametrize(
    ("at", "chosen", "taken"),
    [(OLD, AT_SIX, True), (OLD, EVERYTHING, True), (NOW, EVERYTHING, False)],
)
def test_any_run_completes_what_is_half_published(
    at: datetime, chosen: RunSelection, taken: bool
) -> None:
    """A rebuild, say, which has no files: beside it nobody loads anything."""
    half: Any = context(FAILED, at)
    row = replace(half.ledger.unfinished()[0], detail='{"half_published": true}')
    half.ledger.unfinished = lambda: [row]
    half.ledger.files.of_batch = lambda batch: []
    assert taken_over(half, chosen, False) == (["shop/b/manifest.json"] if taken else [])


def test_a_manual_run_that_waited_for_its_task_still_takes_everything() -> None:
    """It is as old as its triggering: what waits in a queue is no run of the past."""
    run = SimpleNamespace(
        data_interval_start=FIVE,
        data_interval_end=FIVE + timedelta(hours=1),
        run_type="manual",
        logical_date=OLD,
        run_after=OLD + timedelta(seconds=1),
    )
    assert selection_of({"dag_run": run, "params": {}}) == EVERYTHING


def test_a_batch_that_somebody_holds_is_left_alone() -> None:
    assert taken_over(context(LOADING, OLD, lapsed=False), EVERYTHING, True) == []


@pytest.mark.parametrize(
    ("state", "lapsed", "told"),
    [
        (LANDED, True, ""),
        (FAILED, True, ""),
        (LOADING, False, ""),
        (LOADED, False, LOADED),
        (LOADED, True, ""),
        (PUBLISHING, False, PUBLISHING),
        (PUBLISHING, True, ""),
        (PUBLISHED, True, PUBLISHED),
        (ROLLED_BACK, True, ROLLED_BACK),
    ],
)
def test_a_batch_that_another_run_is_about_to_publish_is_not_loaded_again(
    monkeypatch: pytest.MonkeyPatch, state: str, lapsed: bool, told: str
) -> None:
    row = BatchRow("shop", "b", "a1", state)
    ledger = SimpleNamespace(
        batches=SimpleNamespace(get=lambda batch: row),
        lease=SimpleNamespace(has_lapsed=lambda row: lapsed),
    )
    monkeypatch.setattr(tasks, "open_context", lambda *_: SimpleNamespace(ledger=ledger))
    assert tasks.loaded_as("/project", "shop", "shop/b/manifest.json") == told


def test_while_one_batch_is_loaded_those_behind_it_are_told_to_wait(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    told: list[list[str]] = []

    def keep_waiting(batches: list[str]) -> None:
        told.append(batches)
        if len(told) == 2:
            raise TransientError("the catalog is away")

    ledger = SimpleNamespace(batches=SimpleNamespace(keep_waiting=keep_waiting))
    monkeypatch.setattr(queued, "open_context", lambda *_: SimpleNamespace(ledger=ledger))
    monkeypatch.setattr(queued, "EVERY_SECONDS", 0.01)
    monkeypatch.setattr(tasks, "loaded_as", lambda *_: "")
    monkeypatch.setattr(submit, "_is_small", lambda *_: True)

    def loads(*_: Any) -> None:
        until = time.monotonic() + 10
        while len(told) < 4 and time.monotonic() < until:
            time.sleep(0.01)

    monkeypatch.setattr(submit, "_run", loads)
    run = SimpleNamespace(xcom_pull=lambda task_ids: [f"shop/{b}/manifest.json" for b in "abc"])
    load = submit.LoadOperator(task_id="load", project="/p", manifest="shop/b/manifest.json")
    load.execute({"ti": run})
    assert len(told) >= 4
    assert told[0] == ["a", "b", "c"]


@pytest.mark.parametrize(
    ("code", "text", "kind"),
    [
        (1, "AuditFailedError: the counts do not add up", TerminalError),
        (1, "FileDeniedError: s3://landing/a.jsonl: AccessDenied", TerminalError),
        (1, "TablesLeftOutError: batch b is published without: orders", TerminalError),
        (1, "py4j.protocol.Py4JNetworkError: gone", TransientError),
        (2, "usage: load_batch.py", TerminalError),
        (75, "LeaseHeldError: batch b has it", TransientError),
        (75, "on without t: PlanError: no key\nTransientError: no answer", TransientError),
        (75, "CatalogAwayError: no answer in 90 s", TransientError),
        (-9, "", TransientError),
        (1, "goes on without t: PlanError: no key\nat java", TransientError),
        (137, "goes on without t: PlanError: no key", TransientError),
        (137, "PlanError: no key", TransientError),
    ],
)
def test_the_drivers_word_decides_on_a_retry(code: int, text: str, kind: type) -> None:
    hook: Any = SimpleNamespace(_submit_sp=SimpleNamespace(returncode=code))
    assert isinstance(submit._typed(hook, text), kind)


@pytest.mark.parametrize("words", ["AuditFailedError: 3 of 3 are bad", "FileDeniedError: a.jsonl"])
def test_the_error_is_the_drivers_last_words(words: str) -> None:
    hook: Any = SimpleNamespace(_submit_sp=SimpleNamespace(returncode=1))
    text = f"Cannot execute: spark-submit\n26/11/21 INFO Executor\n{words}\n"
    assert str(submit._typed(hook, text)) == f"the Spark driver ended with code 1: {words}"


def test_what_a_teardown_completes_goes_to_the_connections_master(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("SLUICE_SPARK_MASTER", "spark://elsewhere:7077")
    row = BatchRow("shop", "b", "a1", PUBLISHING)

    def opened(*_: str) -> Any:
        ledger = SimpleNamespace(batches=SimpleNamespace(get=lambda batch: row))
        return SimpleNamespace(ledger=ledger, master=os.environ["SLUICE_SPARK_MASTER"])

    monkeypatch.setattr(tasks, "open_context", opened)
    monkeypatch.setattr(stages, "reconcile", lambda ctx: [ctx.master])
    assert clean_up("/project", "shop", "shop/b/manifest.json") == ["local[2]"]
