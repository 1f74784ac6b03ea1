"""The command line: what it refuses, and how it tells what it cannot reach."""

from __future__ import annotations

import errno
import json
import re
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import IO

import pytest
from pyiceberg.exceptions import CommitFailedException, CommitStateUnknownException
from typer.testing import CliRunner, Result

from sluice import __version__, cli
from sluice.catalog import retries
from sluice.cli import app
from sluice.cli_options import moment
from sluice.errors import ConfigError, TransientError, VerifyFailedError
from sluice.ledger.claims import ClaimRequest
from sluice.ledger.ledger import Ledger
from sluice.ledger.states import FAILED
from sluice.manifest import BATCH_ID_PATTERN, SourceFile, as_batch_id, name_batch
from sluice.objects import store
from sluice.operations import stages
from sluice.operations.context import open_context
from sluice.operations.window import as_utc
from sluice.output import verify_report
from sluice.verification import MISSING, Comparison, TableReport, Verification
from tests.unit.clocks import Clock

PROJECT = "lake: {catalog: {type: jdbc, uri: '%s'}, warehouse: warehouse}\n"
PIPELINE = "name: shop\nnamespace: shop\nformat: debezium\nlanding: {url: landing}\n"
SQLITE = "sqlite:///lake.db"


def project(folder: Path, catalog: str = SQLITE) -> Path:
    for name in ("pipelines", "landing"):
        (folder / name).mkdir()
    (folder / "sluice.yaml").write_text(PROJECT % catalog)
    (folder / "pipelines" / "shop.yaml").write_text(PIPELINE)
    return folder


def sluice(folder: Path, *arguments: str) -> Result:
    return CliRunner().invoke(app, [*arguments, "--project", str(folder)])


def test_an_empty_window_is_refused(tmp_path: Path) -> None:
    window = ("--from", "2026-03-02T10:00:00", "--to", "2026-03-02T09:00:00")
    done = sluice(project(tmp_path), "run", "shop", *window)
    assert done.exit_code == 2
    assert "is not before --to" in done.stderr


@pytest.mark.parametrize("option", ["--from", "--to", "--watermark"])
def test_a_time_that_is_none_says_what_is_expected(tmp_path: Path, option: str) -> None:
    command = ["verify", "shop", "--source", "jdbc:postgresql://db/x"] if "w" in option else []
    done = sluice(project(tmp_path), *(command or ["run", "shop"]), option, "yesterday")
    assert done.exit_code == 2
    told = " ".join(done.stderr.replace("│", " ").split())
    assert "expected a time such as 2026-03-02T09:00 (UTC), got 'yesterday'" in told


@pytest.mark.parametrize(
    "time", ["2026-03-02T09:00", "2026-03-02 09:00:00", "2026-03-02T11:00+02:00"]
)
def test_a_time_is_in_utc_unless_it_has_a_zone(time: str) -> None:
    assert as_utc(moment(time)) == datetime(2026, 3, 2, 9, tzinfo=UTC)


@pytest.mark.parametrize(
    "command",
    [
        ("rollback", "shop", "--batch"),
        ("rollback", "shop", "--to"),
        ("release", "shop", "--batch"),
        ("reprocess", "shop", "--batch"),
    ],
)
@pytest.mark.parametrize("batch", ["../b1", "b'1", "b" * 65, "b1\n"])
def test_invalid_batch_id_is_refused(tmp_path: Path, command: tuple[str, ...], batch: str) -> None:
    done = sluice(project(tmp_path), *command, batch)
    assert done.exit_code == 2
    assert "expected a batch as `sluice status` lists it" in done.stderr


def test_every_name_of_a_batch_is_one() -> None:
    file = SourceFile(key="a", url="file:///a", size=1, hour="20260301T05")
    for files in ((file,), ()):
        assert as_batch_id(name_batch("shop", files)) == name_batch("shop", files)
        assert re.fullmatch(BATCH_ID_PATTERN, name_batch("shop", files))
    assert as_batch_id("") == ""
    for other in ("x", "20260301T05-", "20260301T05-6FBCB278D1FA", "-6fbcb278d1fa", "6" * 64):
        assert not re.fullmatch(BATCH_ID_PATTERN, other), other


def test_a_batch_that_is_undone_says_how_its_files_come_back(tmp_path: Path) -> None:
    ctx = open_context(project(tmp_path), "shop")
    ctx.ledger.files.claim(
        ClaimRequest((SourceFile("a.jsonl", "file:///a.jsonl", 1),), lambda _: "b1")
    )
    ctx.ledger.batches.record("b1", FAILED, attempt="a1")
    assert sluice(tmp_path, "rollback", "shop", "--batch", "b1").exit_code == 0
    done = sluice(tmp_path, "status").stdout
    release = f"sluice release --project {tmp_path} shop --batch b1"
    assert f"b1 is undone; 1 file held: {release}" in done


def test_window_without_files_is_reported(tmp_path: Path) -> None:
    done = sluice(project(tmp_path), "run", "shop", "--from", "2026-03-02T09:00:00")
    assert done.exit_code == 0
    assert "has an hour in the window that was asked for (UTC)" in done.stdout


def test_run_and_plan_say_why_nothing_is_loaded(tmp_path: Path) -> None:
    folder = project(tmp_path)
    found = sluice(folder, "run", "shop")
    assert f"no file in {tmp_path}/landing matches **/*; the folder is empty" in found.stdout
    assert "shop: nothing to load; no file in" in sluice(folder, "plan", "shop").stdout
    assert "nothing to load" not in sluice(folder, "plan", "shop", "--json").stdout
    (folder / "landing").rmdir()
    missing = sluice(folder, "run", "shop")
    assert missing.exit_code == 1
    assert f"pipeline shop: its landing folder {tmp_path}/landing does not exist" in missing.stderr


@pytest.mark.parametrize(
    ("files", "told"),
    [
        (["dt=2026-03-02/a.jsonl"], "1 other file is there, such as dt=2026-03-02/a.jsonl"),
        (["b.csv", "a.jsonl"], "2 other files are there, such as a.jsonl"),
        (["_a.json"], "the folder is empty (names that begin with . or _ are skipped)"),
    ],
)
def test_files_that_the_pattern_does_not_match_are_told(
    tmp_path: Path, files: list[str], told: str
) -> None:
    folder = project(tmp_path)
    (folder / "pipelines" / "shop.yaml").write_text(
        PIPELINE.replace("landing}", 'landing, pattern: "**/*.json"}')
    )
    for name in files:
        (folder / "landing" / name).parent.mkdir(exist_ok=True)
        (folder / "landing" / name).write_text("{}")
    assert told in sluice(folder, "run", "shop").stdout


@pytest.mark.parametrize("command", ["run", "plan"])
def test_a_landing_folder_that_is_a_file_is_a_mistake_of_the_configuration(
    tmp_path: Path, command: str
) -> None:
    folder = project(tmp_path)
    (folder / "landing").rmdir()
    (folder / "landing").write_text("{}")
    told = sluice(folder, command, "shop")
    assert told.exit_code == 1
    told_of = f"pipeline shop: its landing folder {tmp_path}/landing is a file, expected a folder"
    assert told_of in told.stderr


def test_a_pipeline_without_batches_says_how_they_come(tmp_path: Path) -> None:
    done = sluice(project(tmp_path), "status").stdout
    assert (
        done == f"shop: no batch yet; to load what landed: sluice run --project {tmp_path} shop\n"
    )
    ctx = open_context(tmp_path, "shop")
    for name in ("shop", "former"):
        Ledger(ctx.catalog).of(name).batches.record("b1", FAILED)
    none = sluice(tmp_path, "status", "--limit", "0")
    assert "no batch yet" not in none.stdout
    assert none.stderr.startswith("in this lake, but of no file here: former (renamed, removed")
    assert json.loads(sluice(tmp_path, "status", "--json").stdout)[0]["batch_id"] == "b1"


def test_fewer_batches_than_none_are_refused(tmp_path: Path) -> None:
    assert sluice(project(tmp_path), "status", "--limit", "-3").exit_code == 2


@pytest.mark.parametrize("form", [(), ("--json",)])
def test_pipelines_that_cannot_be_shown_are_named_and_the_others_shown(
    tmp_path: Path, form: tuple[str, ...]
) -> None:
    folder = project(tmp_path)
    (folder / "pipelines" / "bad.yaml").write_text("name: bad\nformat: nosuch\nkey: 1\n")
    done = sluice(folder, "status", *form)
    assert done.exit_code == ConfigError.exit_code
    first, second, *more, last = done.stderr.splitlines()
    assert last.startswith("nothing was ever loaded by this catalog")
    for line in (first, second, *more):
        assert line.startswith(f"a pipeline does not run, since a file of it is wrong: {folder}/p")
    assert done.stdout.strip()
    assert sluice(folder, "status", "shop").exit_code == 0


def test_a_wrong_script_hides_no_batches(tmp_path: Path) -> None:
    folder = project(tmp_path)
    (folder / "a.sql").write_text("CREATE TABLE t (")
    with (folder / "pipelines" / "shop.yaml").open("a") as file:
        file.write("ddl: {files: [a.sql], dialect: mysql}\n")
    done = sluice(folder, "status", "shop")
    assert (done.exit_code, done.stdout.split(":")[0]) == (0, "shop")
    done = sluice(folder, "status")
    assert (done.exit_code, done.stdout.split(":")[0]) == (ConfigError.exit_code, "shop")
    assert f"wrong: {folder}/a.sql" in done.stderr


def test_ambiguous_table_name_is_refused(tmp_path: Path) -> None:
    folder = project(tmp_path)
    with (folder / "pipelines" / "shop.yaml").open("a") as file:
        file.write('table_name: "{schema}_{table}"\ntables: {a.orders: , b.orders: }\n')
    done = sluice(folder, "run", "shop", "--table", "orders")
    assert done.exit_code == 2
    assert "'orders' may be a.orders or b.orders: name it in full" in done.stderr


def test_verify_knows_the_tables_without_a_driver(tmp_path: Path) -> None:
    done = sluice(project(tmp_path), "verify", "shop", "--table", "nosuch")
    assert done.exit_code == 1
    assert "pipeline shop has no table nosuch; it has: none" in done.stderr


def test_a_page_that_cannot_be_written_is_refused_before_the_driver_starts(tmp_path: Path) -> None:
    folder = project(tmp_path)
    for page in (tmp_path / "none" / "report.html", tmp_path):
        done = sluice(folder, "verify", "shop", "--html", str(page))
        assert (done.exit_code, "--html" in done.output) == (ConfigError.exit_code, True)


def verified(differing: int) -> Verification:
    kinds = {MISSING: differing} if differing else {}
    rows = Comparison("shop.orders", None, 2, 2 - differing, differing, kinds)
    return Verification("shop", "", 1, (TableReport("shop.orders", ("id",), rows, None),))


def test_verify_reports_differences_if_the_page_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cli, "verify_stage", lambda *_: verified(differing=1))
    monkeypatch.setattr(verify_report, "as_html", lambda _: 1 / 0)
    done = sluice(project(tmp_path), "verify", "shop", "--html", str(tmp_path / "a.html"))
    assert (done.exit_code, "shop.orders" in done.output) == (VerifyFailedError.exit_code, True)


@pytest.mark.parametrize("differing", [0, 1])
def test_verify_reports_a_page_that_cannot_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, differing: int
) -> None:
    monkeypatch.setattr(cli, "verify_stage", lambda *_: verified(differing))
    done = sluice(project(tmp_path), "verify", "shop", "--html", "/dev/full")
    assert "verify: /dev/full is not written: OSError: [Errno 28] No space left" in done.stderr
    code = VerifyFailedError.exit_code if differing else TransientError.exit_code
    assert done.exit_code == code


def test_a_page_is_written_whole_or_stays_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = tmp_path / "a.html"
    linked = tmp_path / "b.html"
    linked.symlink_to(page)
    folder = project(tmp_path)
    monkeypatch.setattr(cli, "verify_stage", lambda *_: verified(differing=0))
    assert sluice(folder, "verify", "shop", "--html", str(linked)).exit_code == 0
    before = page.read_text()
    assert "shop.orders" in before

    def half(file: IO[bytes], content: IO[bytes]) -> None:
        file.write(content.read()[:9])
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(store, "_fill", half)
    assert sluice(folder, "verify", "shop", "--html", str(page)).exit_code != 0
    assert page.read_text() == before
    assert linked.is_symlink()


def test_unknown_output_format_is_a_usage_error(tmp_path: Path) -> None:
    done = sluice(project(tmp_path), "sql", "SELECT 1", "--format", "xml")
    assert done.exit_code == 2
    assert "'xml' is not one of" in done.stderr


def test_files_that_are_not_there_are_named(tmp_path: Path) -> None:
    asked = ("--file", "a.jsonl", "--file", "b.jsonl")
    done = sluice(project(tmp_path), "run", "shop", *asked)
    assert done.exit_code == 1
    assert "pipeline shop: 'a.jsonl', 'b.jsonl' are not among the files of" in done.stderr


def test_a_long_landing_folder_is_on_one_line(tmp_path: Path) -> None:
    folder = project(tmp_path)
    long = "/".join(["a" * 50] * 5)
    (folder / "pipelines" / "shop.yaml").write_text(
        PIPELINE.replace("url: landing", f"url: {long}")
    )
    assert f"  shop: debezium from {folder}/{long} into shop\n" in sluice(folder, "validate").stdout


def test_a_project_without_pipelines_says_where_it_looked(tmp_path: Path) -> None:
    folder = project(tmp_path)
    assert "no pipeline" not in sluice(folder, "validate").stdout
    (folder / "pipelines" / "shop.yaml").rename(folder / "shop.json")
    assert f"no pipeline in {folder}/pipelines" in sluice(folder, "validate").stdout
    (folder / "pipelines").rmdir()
    assert f"{folder}/pipelines does not exist" in sluice(folder, "validate").stdout


def test_a_pipeline_in_a_folder_that_is_not_read_is_named(tmp_path: Path) -> None:
    folder = project(tmp_path)
    for name in ("sub/x.yaml", "OTHER.YAML", ".y.yaml", ".git/y.yaml"):
        path = folder / "pipelines" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text("name: x\n")
    told = sluice(folder, "validate")
    assert (told.exit_code, ": 1 pipeline\n" in told.stdout) == (0, True)
    assert f"not read: {folder}/pipelines/sub/x.yaml (its place" in told.stdout
    assert "y.yaml" not in told.stdout
    assert f"  tables in {folder}/warehouse, by the catalog sqlite:///{folder}/" in told.stdout
    listed = json.loads(sluice(folder, "validate", "--json").stdout)
    assert listed["not_read"] == [f"{folder}/pipelines/{x}" for x in ("OTHER.YAML", "sub/x.yaml")]


def test_version() -> None:
    assert CliRunner().invoke(app, ["--version"]).stdout == f"sluice {__version__}\n"


def test_closed_pipe_is_no_error(tmp_path: Path) -> None:
    """`| head` closes the pipe long before all is written."""
    command = [
        str(Path(sys.executable).with_name("sluice")),
        "sql",
        "SELECT range n FROM range(300000)",
    ]
    asked = subprocess.Popen(
        [*command, "--format", "csv", "--project", str(project(tmp_path))],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    with asked:
        assert asked.stdout is not None
        assert asked.stderr is not None
        assert asked.stdout.readline() == b"n\n"
        asked.stdout.close()
        assert asked.stderr.read() == b""
    assert asked.returncode == 0


def test_a_catalog_that_is_down_is_one_line_and_to_be_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retries, "time", Clock())
    project(tmp_path, "postgresql://127.0.0.1:1/lake")
    done = sluice(tmp_path, "status")
    assert done.exit_code == 75
    assert "OperationalError" in done.stderr
    assert "Traceback" not in done.output


def test_unusable_catalog_file_is_a_terminal_error(tmp_path: Path) -> None:
    folder = project(tmp_path, f"sqlite:///{tmp_path}/a.db")
    (tmp_path / "a.db").write_text("no database, but a text of more than sixteen bytes")
    done = sluice(folder, "status")
    assert done.exit_code == 1
    assert "check lake.catalog.uri, or SLUICE_CATALOG_URI, and the rights to it" in done.stderr


@pytest.mark.parametrize(
    "error",
    [CommitFailedException("branch main has changed"), CommitStateUnknownException("no answer")],
)
def test_a_commit_that_failed_is_one_line_and_to_be_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    def fails(*_: object) -> None:
        raise error

    monkeypatch.setattr(stages, "reconcile", fails)
    done = sluice(project(tmp_path), "reconcile", "shop")
    assert done.exit_code == 75
    assert f"{type(error).__name__}: {error}" in done.stderr


@pytest.mark.parametrize("text", ["a table called [/x]", "columns [id#1, b]"])
def test_a_text_that_looks_like_markup_is_shown_as_it_is(tmp_path: Path, text: str) -> None:
    context = open_context(project(tmp_path), "shop")
    Ledger(context.catalog).ensure()
    context.ledger.batches.record("b1", FAILED, replace_details={"error": text})
    done = sluice(tmp_path, "status")
    assert done.exit_code == 0
    assert text.split()[-1] in " ".join(done.stdout.split())
    assert json.loads(sluice(tmp_path, "status", "--json").stdout)[0]["error"] == text


def test_a_rollback_is_asked_for_one_thing(tmp_path: Path) -> None:
    done = sluice(project(tmp_path), "rollback", "shop", "--to", "b1", "--rebuild")
    assert done.exit_code == 2
    assert "rollback: give one of --batch" in done.stderr
