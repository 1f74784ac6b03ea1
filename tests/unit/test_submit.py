"""The command that starts a driver, with and without a quick start of its JVM."""

from __future__ import annotations

from pathlib import Path

import pytest

from sluice import startup
from sluice.config import Project, load_sound
from sluice.manifest import Manifest, SourceFile
from sluice.submit import (
    JAVA_OPTIONS,
    LOAD_BATCH,
    driver_environment,
    is_small,
    spark_conf,
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
    options = spark_conf(project)[JAVA_OPTIONS]
    assert options.startswith("-Dgiven=1 ")
    assert f"-XX:SharedArchiveFile={recorded}" in options
    assert submit_command(project, LOAD_BATCH)[1:3] == ["--properties-file", str(recorded)]
    assert driver_environment({})["SPARK_CONF_DIR"] == str(recorded.parent)


def test_without_an_archive_spark_is_started_as_ever(project: Project, recorded: Path) -> None:
    recorded.unlink()
    assert spark_conf(project)[JAVA_OPTIONS] == "-Dgiven=1"
    assert "--properties-file" not in submit_command(project, LOAD_BATCH)
    assert "SPARK_CONF_DIR" not in driver_environment({})


@pytest.mark.usefixtures("recorded")
def test_spark_settings_of_ones_own_stay_in_force(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SPARK_CONF_DIR", "/etc/spark")
    assert spark_conf(project)[JAVA_OPTIONS] == "-Dgiven=1"
    assert driver_environment()["SPARK_CONF_DIR"] == "/etc/spark"


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
    assert "TieredStopAtLevel=1" in spark_conf(bare, small=True)[JAVA_OPTIONS]
    assert "TieredStopAtLevel" not in spark_conf(bare)[JAVA_OPTIONS]
    assert "CompileThresholdScaling,org.antlr.*::*,10" in spark_conf(bare)[JAVA_OPTIONS]
