"""The tasks' own decisions: which batches a run takes over, and after which driver
errors it retries."""

from __future__ import annotations

import json
import logging
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk import Asset
from airflow.sdk.exceptions import AirflowSkipException

from sluice.environment import ENV_SPARK_MASTER
from sluice.errors import ConfigError, TerminalError, TransientError
from sluice.faults import Point
from sluice.ledger.batches import Batches
from sluice.ledger.details import HALF_PUBLISHED, SHARE_OF, TABLES
from sluice.ledger.states import FAILED, LANDED, LOADED, LOADING, PUBLISHED, PUBLISHING, ROLLED_BACK
from sluice.manifest import Manifest
from sluice.operations import stages
from sluice.operations.held_files import release
from sluice.operations.selection import Selection
from sluice.operations.unreadable_files import UnreadableFiles
from sluice.operations.window import Window
from sluice.result import StagedTable
from sluice_airflow import landing, submit, tasks
from sluice_airflow.advice import Advice
from sluice_airflow.assets import asset_uri
from sluice_airflow.connection import spark_master
from sluice_airflow.landing import STALE, abandoned_batches, land_selection, selection_of
from sluice_airflow.tasks import clean_up
from tests.airflow.one_batch import FILE, MANIFEST, NOW, claim, ledger_at, one_batch
from tests.all_readable import land, land_tables
from tests.unit import fake_loads
from tests.unit.projects import open_shop
from tests.unit.undo_lake import Killed, killed_at, state

OLD = NOW - 2 * STALE
FIVE = datetime(2026, 1, 1, 5, tzinfo=UTC)
SIX = FIVE + timedelta(hours=1)
AT_FIVE = Selection(window=Window(FIVE, SIX))
AT_SIX = Selection(window=Window(SIX, SIX + timedelta(hours=1)))
EVERYTHING = Selection()


@pytest.mark.parametrize(
    ("state", "at", "chosen", "again", "taken"),
    [
        (LANDED, OLD, EVERYTHING, False, True),
        (LANDED, NOW, EVERYTHING, False, False),
        (LANDED, NOW, EVERYTHING, True, True),
        (LOADING, OLD, AT_FIVE, False, True),
        (LANDED, OLD, AT_SIX, False, False),
        (LANDED, OLD, Selection(until=FIVE), False, False),
        (FAILED, NOW, AT_FIVE, False, True),
        (FAILED, NOW, Selection(files=("a",)), False, True),
        (FAILED, NOW, Selection(files=("z",)), False, False),
        (FAILED, NOW, EVERYTHING, False, False),
        (PUBLISHING, OLD, EVERYTHING, True, False),
    ],
)
def test_run_takes_over_abandoned_batches_by_state_and_lease(
    tmp_path: Path, state: str, at: datetime, chosen: Selection, again: bool, taken: bool
) -> None:
    found = abandoned_batches(one_batch(tmp_path, state, at), chosen, again)
    assert found == ([MANIFEST] if taken else [])


@pytest.mark.parametrize(
    ("state", "chosen", "told"),
    [(FAILED, EVERYTHING, True), (FAILED, AT_SIX, False), (LANDED, EVERYTHING, False)],
)
def test_a_run_says_when_one_takes_over_what_failed_a_moment_ago(
    tmp_path: Path, state: str, chosen: Selection, told: bool
) -> None:
    """Whoever mended the cause and runs the DAG again sees a green run."""
    why = landing.nothing_to_load(one_batch(tmp_path, state), chosen)
    advice = (
        "to load what failed: clear its task load, or sluice run shop; "
        f"a run from {NOW + STALE:%Y-%m-%dT%H:%MZ} on takes it over"
    )
    assert why.endswith(advice) == told


@pytest.mark.parametrize(
    ("chosen", "taken"), [(EVERYTHING, True), (AT_FIVE, True), (AT_SIX, False)]
)
def test_a_run_takes_over_what_another_batch_left_out(
    tmp_path: Path, chosen: Selection, taken: bool
) -> None:
    """It claims no file: its manifest tells the hour."""
    ctx = open_shop(tmp_path)
    key = ctx.files.write_manifest(Manifest("shop", "b", (FILE,)))
    ledger_at(ctx, OLD).batches.record("b", FAILED, manifest=key, replace_details={SHARE_OF: "a"})
    assert abandoned_batches(ctx, chosen, False) == ([key] if taken else [])


def test_a_run_tries_one_share_of_a_table_and_all_once_one_is_published(tmp_path: Path) -> None:
    """Each fails in a driver of its own, for what mostly holds for all of them."""
    ctx, minutes = open_shop(tmp_path), count()
    keys = {b: ctx.files.write_manifest(Manifest("shop", b, (FILE,))) for b in "abcd"}

    def record(batch: str, state: str) -> None:
        ledger = ledger_at(ctx, OLD + timedelta(minutes=next(minutes)))
        of = {SHARE_OF: "x", TABLES: ["orders" if batch == "d" else "notes"]}
        ledger.batches.record(batch, state, manifest=keys[batch], replace_details=of)

    def found(chosen: Selection = EVERYTHING) -> list[str]:
        return [key.split("/")[-2] for key in abandoned_batches(ctx, chosen, False)]

    for batch in keys:
        record(batch, FAILED)
    assert (found(), found(AT_FIVE)) == (["a", "d"], [*keys])
    record("a", FAILED)
    assert found() == ["b", "d"]
    record("b", PUBLISHED)
    assert found() == ["c", "d", "a"]
    record("c", FAILED)
    record("a", FAILED)
    assert found() == ["d", "c"]


@pytest.mark.parametrize(
    ("at", "chosen", "taken"),
    [(OLD, AT_SIX, True), (OLD, EVERYTHING, True), (NOW, EVERYTHING, False)],
)
def test_any_run_completes_what_is_half_published(
    tmp_path: Path, at: datetime, chosen: Selection, taken: bool
) -> None:
    """A rebuild, say, which has no files: beside it nobody loads anything."""
    ctx = open_shop(tmp_path)
    ledger_at(ctx, at).batches.record(
        "b", FAILED, manifest=MANIFEST, replace_details={HALF_PUBLISHED: True}
    )
    assert abandoned_batches(ctx, chosen, False) == ([MANIFEST] if taken else [])


def test_a_manual_run_that_waited_for_its_task_still_takes_everything() -> None:
    """It is as old as its triggering: what waits in a queue is no run of the past."""
    hour = OLD.replace(minute=0, second=0, microsecond=0)
    run = SimpleNamespace(
        data_interval_start=hour - timedelta(hours=1),
        data_interval_end=hour,
        run_type="manual",
        logical_date=OLD,
        run_after=OLD + timedelta(seconds=1),
    )
    assert selection_of({"dag_run": run, "params": {}}, "@hourly") == EVERYTHING


def test_a_batch_that_somebody_holds_is_left_alone(tmp_path: Path) -> None:
    assert (
        abandoned_batches(one_batch(tmp_path, LOADING, OLD, lapsed=False), EVERYTHING, True) == []
    )


def test_released_files_of_a_land_that_died_are_loaded_by_its_next_try(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It died before it recorded their batch, which the ledger has as rolled back until then."""
    ctx = open_shop(tmp_path, fake_loads.PIPELINE)
    fake_loads.write(ctx, "orders/a.csv")
    batch = fake_loads.load(ctx)
    fake_loads.undo(ctx.ledger, batch)
    release(ctx, batch)
    with monkeypatch.context() as patch:
        patch.setattr("sluice.operations.claim.reach", killed_at(Point.LAND_CLAIMED))
        with pytest.raises(Killed):
            land(ctx)
    (key,) = land_selection(ctx, EVERYTHING, True, UnreadableFiles())
    assert (tasks.loaded_as(ctx, key, Advice("load")), state(ctx, batch)) == ("", LANDED)


def test_a_dry_run_for_a_table_lists_the_files_that_its_run_reads(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Loaded ones too, and none that changed lately or is held."""
    caplog.set_level(logging.INFO)
    context = open_shop(tmp_path, fake_loads.PIPELINE)
    fake_loads.write(context, "orders/held.csv", "id\n2\n")
    fake_loads.undo(context.ledger, fake_loads.load(context))
    fake_loads.write(context, "orders/loaded.csv")
    fake_loads.load(context)
    fake_loads.write(context, "orders/young.csv", "id\n3\n")
    pipeline = fake_loads.PIPELINE.replace("url: landing", "url: landing, quiet_seconds: 3600")
    quiet, only = open_shop(tmp_path, pipeline), Selection(tables=("orders",))
    assert landing.dry_run(quiet, only).startswith("dry run: 1 file,")
    listed = [m for m in caplog.messages if m.startswith("would take ")]
    (key,) = land_tables(quiet, only)
    read = [file.key for file in quiet.files.read_manifest(key).files]
    assert ([line.split()[2] for line in listed], read) == (["orders/loaded.csv"],) * 2


def test_a_file_that_changed_since_it_was_loaded_is_a_warning_of_the_log(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The run is green; of a file that was not complete the rest is missing for good."""
    fake_loads.write(ctx := open_shop(tmp_path, fake_loads.PIPELINE), "orders/a.csv")
    fake_loads.load(ctx)
    (tmp_path / "landing" / "orders" / "a.csv").write_text("id\n1\n2\n3\n")
    land_selection(tasks.open_context(str(tmp_path), "shop"), EVERYTHING, False, UnreadableFiles())
    (line,) = (one for one in caplog.records if "has changed" in one.message)
    assert line.levelno == logging.WARNING


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
    tmp_path: Path, state: str, lapsed: bool, told: str
) -> None:
    ctx = one_batch(tmp_path, state, lapsed=lapsed)
    assert tasks.loaded_as(ctx, MANIFEST, Advice("load")) == told


def test_batches_behind_a_loading_one_are_kept_waiting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ctx, renewed, really = open_shop(tmp_path), list[list[str]](), Batches.keep_waiting
    earlier = ledger_at(ctx, OLD)
    keys = [ctx.files.write_manifest(Manifest("shop", batch, ())) for batch in "abc"]
    for batch, key in zip("abc", keys, strict=True):
        claim(earlier, batch, replace(FILE, key=batch))
        earlier.batches.record(batch, LANDED, manifest=key)
    assert sorted(abandoned_batches(ctx, EVERYTHING, False)) == keys

    def keep_waiting(ledger: Batches, batches: list[str]) -> None:
        renewed.append(batches)
        if len(renewed) == 2:
            raise TransientError("the catalog is away")
        really(ledger, batches)

    def loads(*_: Any) -> None:
        until = time.monotonic() + 60
        while len(renewed) < 4 and time.monotonic() < until:
            time.sleep(0.01)

    monkeypatch.setattr(Batches, "keep_waiting", keep_waiting)
    monkeypatch.setattr(submit, "WAITING_EVERY_SECONDS", 0.01)
    monkeypatch.setattr(submit, "_run", loads)
    run = SimpleNamespace(xcom_pull=lambda task_ids: keys)
    load = submit.LoadOperator(task_id="load", project_dir=str(tmp_path), manifest=keys[1])
    load.execute({"ti": run})
    assert renewed[3] == ["a", "b", "c"]
    assert abandoned_batches(ctx, EVERYTHING, False) == []


def test_a_driver_runs_beside_its_task_or_not_at_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Elsewhere it would have no secrets; the first task says so, before files are claimed."""
    cluster = {"conn_type": "spark", "host": "spark://m:7077", "extra": {"deploy-mode": "cluster"}}
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", json.dumps(cluster))
    open_shop(tmp_path)
    with pytest.raises(ConfigError, match="'spark_default' has deploy-mode 'cluster'"):
        tasks.reconcile(str(tmp_path), "shop")


def test_airflows_own_default_connection_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A new database may have it: without YARN every driver would be tried three times."""
    yarn = {"conn_type": "spark", "host": "yarn", "extra": {"queue": "root.default"}}
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", json.dumps(yarn))
    open_shop(tmp_path)
    with pytest.raises(ConfigError, match="'spark_default' has the master yarn"):
        tasks.reconcile(str(tmp_path), "shop")
    monkeypatch.setenv("HADOOP_CONF_DIR", "/etc/hadoop/conf")
    assert spark_master() == "yarn"


def load_of(root: Path, monkeypatch: pytest.MonkeyPatch, script: str) -> submit.LoadOperator:
    """A load whose driver is a shell's script."""
    driver = root / "spark-submit"
    driver.write_text(f"#!/bin/sh\n{script}\n")
    driver.chmod(0o755)
    monkeypatch.setattr(submit, "driver_environment", lambda: {"PATH": f"{root}:/usr/bin:/bin"})
    return submit.LoadOperator(task_id="load", project_dir=str(root), manifest=MANIFEST)


def test_a_load_that_is_stopped_ends_its_driver(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By a person or a limit of time; else it would go on beside the next attempt."""
    ctx, begun, until = open_shop(tmp_path), tmp_path / "begun", time.monotonic() + 30
    load = load_of(tmp_path, monkeypatch, f"touch {begun}\nexec sleep 60")
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(submit._run, load, ctx.project)
        while not begun.exists() and time.monotonic() < until:
            time.sleep(0.01)
        load.on_kill()
        with pytest.raises(TransientError, match="ended with code -9"):
            running.result(timeout=30)


def test_an_error_of_many_lines_keeps_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The hook of the provider keeps the last 20."""
    ctx = open_shop(tmp_path)
    script = "echo 'PlanError: no key'\nseq -f '- t%g' 25\nexit 1"
    load = load_of(tmp_path, monkeypatch, script)
    with pytest.raises(TerminalError) as raised:
        submit._run(load, ctx.project)
    tables = [f"- t{number}" for number in range(1, 26)]
    assert str(raised.value).splitlines() == [
        "the Spark driver ended with code 1: PlanError: no key", *tables,
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("table", "uri"),
    [
        ("orders", "iceberg://lake/shop/orders"),
        ("ORDERS#HIST", "iceberg://lake/shop/ORDERS%23HIST"),
        ("ORDERS?x", "iceberg://lake/shop/ORDERS%3Fx"),
        ("a/b", "iceberg://lake/shop/a%2Fb"),
    ],
)
def test_every_table_is_an_asset_of_its_own(table: str, uri: str) -> None:
    """Airflow passes over what follows a # or a ?."""
    staged = StagedTable("shop", table, "branch", 1, 2, 0)
    assert Asset(name=staged.full_name, uri=asset_uri(staged)).uri == uri


def test_teardown_reconciles_on_the_connections_spark_master(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(ENV_SPARK_MASTER, "spark://elsewhere:7077")
    one_batch(tmp_path, PUBLISHING)
    monkeypatch.setattr(stages, "reconcile", lambda ctx: [ctx.project.spark.master])
    assert clean_up(str(tmp_path), MANIFEST) == ["local[2]"]


def test_land_that_runs_again_reconciles_on_the_connections_spark_master(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(ENV_SPARK_MASTER, "spark://elsewhere:7077")
    open_shop(tmp_path)
    masters = list[str]()
    monkeypatch.setattr(stages, "reconcile", lambda ctx: masters.append(ctx.project.spark.master))
    run = SimpleNamespace(
        data_interval_start=None, data_interval_end=None,
        run_type="manual", logical_date=None, run_after=NOW,
    )  # fmt: skip
    again = {"params": {}, "dag_run": run, "ti": SimpleNamespace(try_number=2)}
    with pytest.raises(AirflowSkipException):
        landing.land(str(tmp_path), "shop", again)
    assert masters == ["local[2]"]


def test_names_of_a_form_are_one_line_of_the_log() -> None:
    chosen = Selection(tables=("x\n2026-11-29 ERROR all rows lost \x1b[2J",))
    assert landing.describe(chosen).isprintable()


def test_a_tasks_log_has_no_line_for_each_table_that_is_opened(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    ctx = one_batch(tmp_path, LANDED)
    caplog.clear()
    with caplog.at_level(logging.INFO):
        tasks.loaded_as(ctx, MANIFEST, Advice("load"))
    assert "FileIO" not in caplog.text
