"""The command that starts a driver, with and without a quick start of its JVM."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest

from sluice.catalog.retries import CatalogAwayError
from sluice.config.project import Project, load_sound
from sluice.errors import SluiceError, TerminalError, TransientError
from sluice.manifest import Manifest, SourceFile
from sluice.spark_submit import child_process, startup
from sluice.spark_submit import submit as submit_module
from sluice.spark_submit.child_process import run_child
from sluice.spark_submit.submit import (
    JAVA_OPTIONS,
    LOAD_BATCH,
    driver_environment,
    driver_error,
    is_small,
    spark_conf,
    submit,
    submit_command,
)


@pytest.fixture
def project(tmp_path: Path) -> Project:
    (tmp_path / "sluice.yaml").write_text(
        "lake:\n"
        '  catalog: {type: jdbc, uri: "sqlite:///catalog.db"}\n'
        "  warehouse: warehouse\n"
        "spark: {master: 'local[2]', conf: {spark.driver.extraJavaOptions: -Dgiven=1}}\n"
    )
    return load_sound(tmp_path)


@pytest.fixture
def recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An archive where the set-up would have recorded it."""
    archive = tmp_path / "classes.jsa"
    archive.touch()
    monkeypatch.setattr(startup, "ARCHIVE", archive)
    monkeypatch.setattr(startup, "NO_CONF", tmp_path)
    monkeypatch.setattr(startup, "defaults_file", lambda: archive)
    monkeypatch.delenv("SPARK_CONF_DIR", raising=False)
    return archive


def test_a_recorded_archive_is_used_beside_the_projects_own_options(
    project: Project, recorded: Path
) -> None:
    options = spark_conf(project, small=False)[JAVA_OPTIONS]
    assert options.startswith("-Dgiven=1 ")
    assert f"-XX:SharedArchiveFile={recorded}" in options
    assert submit_command(project, LOAD_BATCH)[1:3] == ["--properties-file", str(recorded)]
    assert driver_environment()["SPARK_CONF_DIR"] == str(recorded.parent)


def test_spark_starts_without_an_archive(project: Project, recorded: Path) -> None:
    recorded.unlink()
    assert spark_conf(project, small=False)[JAVA_OPTIONS] == "-Dgiven=1"
    assert "--properties-file" not in submit_command(project, LOAD_BATCH)
    assert "SPARK_CONF_DIR" not in driver_environment()


@pytest.mark.usefixtures("recorded")
def test_spark_settings_of_ones_own_stay_in_force(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SPARK_CONF_DIR", "/etc/spark")
    assert spark_conf(project, small=False)[JAVA_OPTIONS] == "-Dgiven=1"
    assert driver_environment()["SPARK_CONF_DIR"] == "/etc/spark"


def test_a_conf_folder_of_ones_own_keeps_the_jars_and_java_of_the_set_up(
    project: Project, recorded: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    recorded.write_text(
        "# the set-up's\nspark.driver.extraClassPath  /j/*\nspark.executor.extraClassPath  /j/*\n"
    )
    (tmp_path / "spark-env.sh").write_text("export JAVA_HOME='/usr/lib/jvm/17'\n")
    monkeypatch.setattr(startup, "_spark_conf", lambda: tmp_path)
    own = tmp_path / "own"
    own.mkdir()
    (own / "spark-defaults.conf").write_text(
        "spark.y\nspark.executor.extraClassPath=/k/*\n#spark.x 1\n"
    )
    monkeypatch.setenv("SPARK_CONF_DIR", str(own))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    conf = spark_conf(project, small=False)
    assert conf["spark.driver.extraClassPath"] == "/j/*"
    assert "spark.executor.extraClassPath" not in conf
    assert driver_environment()["JAVA_HOME"] == "/usr/lib/jvm/17"


def test_another_spark_of_the_environment_is_not_started(
    project: Project, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Nor one that another Python finds, or finds none: PYSPARK_PYTHON is for executors."""
    for name in ("own", "foreign"):
        script = tmp_path / name / "bin" / "spark-class"
        script.parent.mkdir(parents=True)
        script.write_text(f'#!/bin/sh\necho "{name}: $*"\n')
        script.chmod(0o755)
    monkeypatch.setattr(startup, "spark_home", lambda: tmp_path / "own")
    monkeypatch.setenv("SPARK_HOME", str(tmp_path / "foreign"))
    monkeypatch.setenv("PYSPARK_PYTHON", "/bin/false")
    monkeypatch.setenv("PYSPARK_DRIVER_PYTHON", "/bin/false")
    started = submit(project, LOAD_BATCH)
    assert started.startswith("own: ")
    assert f"--conf spark.pyspark.driver.python={sys.executable} " in started


@pytest.mark.parametrize("given", ["C", "POSIX", "xx_YY.UTF-8", ""])
def test_the_drivers_jvm_finds_files_by_names_in_any_script(
    monkeypatch: pytest.MonkeyPatch, given: str
) -> None:
    """In the locale C, or one that is not installed, it takes every byte above ASCII for `?`, and
    finds no such file."""
    monkeypatch.setenv("LC_ALL", given)
    assert driver_environment()["LC_ALL"] == "C.UTF-8"


def runs(monkeypatch: pytest.MonkeyPatch, script: str) -> None:
    """Put a shell script where spark-submit is expected."""
    command = ["/bin/sh", "-c", script]
    monkeypatch.setattr(submit_module, "submit_command", lambda *_, **__: command)


def test_a_drivers_last_line_is_its_result(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs(monkeypatch, """echo noise; echo words >&2; echo '{"a": 1}'""")
    assert submit(project, LOAD_BATCH) == '{"a": 1}'


@pytest.mark.parametrize(
    ("script", "kind"),
    [
        ("exit 75", TransientError),
        ("kill -9 $$", TransientError),
        ("kill -6 $$", TransientError),
        ("exit 134", TransientError),
        ("exit 139", TransientError),
        ("exit 1", TerminalError),
        ("exit 2", TerminalError),
    ],
)
def test_exit_of_a_driver_decides_on_a_retry(
    project: Project, monkeypatch: pytest.MonkeyPatch, script: str, kind: type[SluiceError]
) -> None:
    runs(monkeypatch, f"echo at java; echo 'PlanError: no key of orders' >&2; {script}")
    with pytest.raises(kind, match="PlanError: no key of orders") as caught:
        submit(project, LOAD_BATCH)
    assert type(caught.value) is kind


@pytest.mark.parametrize(
    ("name", "code", "kind"),
    [("FileDeniedError", 1, TerminalError), ("CatalogAwayError", 75, TransientError)],
)
def test_error_of_a_driver_is_its_last_named_error(
    project: Project, monkeypatch: pytest.MonkeyPatch, name: str, code: int, kind: type[SluiceError]
) -> None:
    first = "echo 'TransientError: at first' >&2"
    last = f"echo 'at java' >&2; echo '{name}: a' >&2; echo ' of b'; exit {code}"
    runs(monkeypatch, f"{first}; {last}")
    with pytest.raises(kind, match=f"ended with code {code}: {name}: a\n of b$"):
        submit(project, LOAD_BATCH)


@pytest.mark.parametrize(
    ("code", "text", "kind"),
    [
        (1, "AuditFailedError: the counts do not add up", TerminalError),
        (1, "FileDeniedError: s3://landing/a.jsonl: AccessDenied", TerminalError),
        (1, "TablesLeftOutError: batch b is published without: orders", TerminalError),
        (1, "py4j.protocol.Py4JNetworkError: gone", TransientError),
        (2, "usage: load_batch.py", TerminalError),
        (127, "spark-submit: command not found", TerminalError),
        (75, "LeaseHeldError: batch b has it", TransientError),
        (75, "on without t: PlanError: no key\nTransientError: no answer", TransientError),
        (75, f"{CatalogAwayError.__name__}: no answer in 90 s", TransientError),
        (75, "PlanError: no key\nthe lease is lost", TransientError),
        (-9, "", TransientError),
        (1, "goes on without t: PlanError: no key\nat java", TransientError),
        (137, "goes on without t: PlanError: no key", TransientError),
        (137, "PlanError: no key", TransientError),
    ],
)
def test_a_driver_is_tried_again_unless_it_ends_with_an_error_that_lasts(
    code: int, text: str, kind: type[SluiceError]
) -> None:
    error = driver_error(code, text)
    assert type(error) is kind
    assert f"ended with code {code}" in str(error)
    assert text.rpartition("\n")[2] in str(error)


def test_a_driver_without_a_named_error_is_reported_by_its_last_lines() -> None:
    lines = [f"line {number}" for number in range(100)]
    assert str(driver_error(1, "\n".join(lines))) == (
        "the Spark driver ended with code 1: " + "\n".join(lines[-20:])
    )


def test_a_driver_that_does_not_end_is_stopped_with_all_that_it_started(
    project: Project, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    runs(monkeypatch, f"trap '' TERM; sleep 600 & echo $! > {tmp_path}/pid; echo last words; wait")
    monkeypatch.setattr(child_process, "_GRACE_SECONDS", 0.5)
    hasty = project.model_copy(
        update={"spark": project.spark.model_copy(update={"max_load_seconds": 1})}
    )
    with pytest.raises(TransientError, match="was stopped after 1 s") as caught:
        submit(hasty, LOAD_BATCH)
    assert "last words" in str(caught.value)
    assert "spark.max_load_seconds in" in str(caught.value)
    state = Path(f"/proc/{(tmp_path / 'pid').read_text().strip()}/stat")
    assert not state.exists() or state.read_text().split()[2] == "Z"


def test_interrupted_load_stops_its_driver(
    project: Project, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def interrupted(*_: object) -> int:
        while not (tmp_path / "pid").exists():
            time.sleep(0.01)
        monkeypatch.undo()
        raise KeyboardInterrupt

    runs(
        monkeypatch,
        f"echo $$ > {tmp_path}/pid.new; mv {tmp_path}/pid.new {tmp_path}/pid; sleep 600",
    )
    monkeypatch.setattr(subprocess.Popen, "wait", interrupted)
    with pytest.raises(KeyboardInterrupt):
        submit(project, LOAD_BATCH)
    assert not Path(f"/proc/{(tmp_path / 'pid').read_text().strip()}").exists()


def test_of_endless_output_the_end_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(child_process, "MOST_ERRORS", 1000)
    script = "yes 'a line of noise' | head -c 5000000 >&2; echo 'the end' >&2; echo '{}'"
    done = run_child(["/bin/sh", "-c", script], {"PATH": "/usr/bin:/bin"}, 60)
    assert (done.code, done.output) == (0, "{}\n")
    assert len(done.errors) == 1000
    assert done.errors.endswith("the end\n")


@pytest.mark.parametrize(
    ("name", "megabytes", "container", "small"),
    [
        ("a.jsonl", 100, "jsonl", True),
        ("a.jsonl", 200, "jsonl", False),
        ("a.jsonl.gz", 10, "jsonl", True),
        ("a.jsonl.gz", 30, "jsonl", False),
        ("a.parquet", 30, "parquet", False),
    ],
)
def test_a_small_batch_is_one_of_little_text(
    name: str, megabytes: int, container: str, small: bool
) -> None:
    file = SourceFile(name, f"file:///{name}", megabytes << 20, container=container)
    assert is_small(Manifest("p", "b", (file,))) is small


def test_a_small_batch_does_without_the_best_compiler(tmp_path: Path) -> None:
    lake = 'lake: {catalog: {type: jdbc, uri: "sqlite:///c.db"}, warehouse: w}\n'
    (tmp_path / "sluice.yaml").write_text(lake)
    bare = load_sound(tmp_path)
    quick = spark_conf(bare, small=True)[JAVA_OPTIONS]
    assert "TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=" in quick
    assert "TieredStopAtLevel" not in spark_conf(bare, small=False)[JAVA_OPTIONS]
    assert (
        "CompileThresholdScaling,org.antlr.*::*,10" in spark_conf(bare, small=False)[JAVA_OPTIONS]
    )
