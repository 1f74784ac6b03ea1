"""The example of every format's page, as it is written there: its rows are those of its table."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from typer.testing import CliRunner

from bench.dts_records import NEW, value
from sluice.cli import app
from sluice.config.project import load_project
from sluice.ledger.leases import this_holder
from sluice.names import TARGET_METADATA
from spark_jobs import driver
from tests.documented import PAGES, README, Rows, drawn_tables, example_of, files_written
from tests.spark.dts_records import container
from tests.spark.sandbox import session_of

pytestmark = pytest.mark.spark
# Their decoders make the largest plans: with the long suites of single formats.
DEAR = ("aws_dms", "debezium-avro", "dts_avro", "huawei_cdl", "maxwell", "ogg", "shareplex")
Run = Callable[..., list[dict[str, Any]]]


def sluice(project: Path, *arguments: str) -> str:
    """What a command prints; it has to succeed."""
    done = CliRunner().invoke(app, [*arguments, "--project", str(project)])
    assert done.exit_code == 0, done.output
    return done.stdout


@pytest.fixture
def run(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> Run:
    """`sluice run`, whose driver works in the shared session; it gives the batches."""

    def of(folder: Path, pipeline: str = "shop") -> list[dict[str, Any]]:
        project = load_project(folder)
        session = session_of(spark, project)

        def submit(*arguments: Any, small: bool) -> str:
            key = arguments[arguments.index("--manifest") + 1]
            return driver.drive(project, key, lambda: session, this_holder()).to_json()

        monkeypatch.setattr("sluice.operations.load.submit", submit)
        return json.loads(sluice(folder, "run", pipeline, "--json"))["batches"]

    return of


def rows(project: Path, table: str) -> Rows:
    """A table's rows as `sluice sql` gives them, without the columns of Sluice's own."""
    lines = sluice(project, "sql", f"SELECT * FROM {table}", "--format", "jsonl").splitlines()
    return [
        {name: cell(v) for name, v in json.loads(line).items() if name not in TARGET_METADATA}
        for line in lines
    ]


def cell(value: Any) -> str:
    """A value as the pages write it."""
    if value is None:
        return "NULL"
    return value if isinstance(value, str) else json.dumps(value)


def assert_shown(run: Run, project: Path, tables: dict[str, Rows]) -> None:
    """All records of the project are loaded, and make the rows that are shown."""
    (batch,) = run(project)
    counts = [batch["unassigned"], *(table["counts"] for table in batch["tables"])]
    assert sum(count["quarantined"] for count in counts) == 0
    for table, shown in tables.items():
        assert sorted(rows(project, table), key=str) == sorted(shown, key=str)


@pytest.mark.parametrize(
    "page",
    [pytest.param(p, marks=[pytest.mark.formats] if p in DEAR else []) for p in PAGES],
)
def test_an_example_makes_the_rows_that_its_page_shows(run: Run, tmp_path: Path, page: str) -> None:
    example = example_of(page)
    example.write(tmp_path)
    for script in example.scripts:
        subprocess.run([sys.executable, "-c", script], cwd=tmp_path, check=True)
    assert_shown(run, tmp_path, example.tables)


def test_the_first_pipeline_of_the_readme_makes_what_it_shows(run: Run, tmp_path: Path) -> None:
    for path, text in files_written(README).items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
    counted, shown = drawn_tables(README, "Your first pipeline in five minutes")
    (batch,) = run(tmp_path, "mine")
    told = [
        {"table": t["table"], **{k: str(n) for k, n in t["counts"].items()}}
        for t in batch["tables"]
    ]
    assert told == counted
    assert rows(tmp_path, "mine.orders") == shown


def dts_record(line: str) -> dict[str, Any]:
    """A printed record of DTS as Avro's writer wants it: texts of a charset are bytes."""
    record = json.loads(line)
    for name in ("beforeImages", "afterImages"):
        if record[name] is not None:
            record[name] = [dts_value(*named) for v in record[name] for named in v.items()]
    return record


def dts_value(kind: str, parts: dict[str, Any]) -> tuple[str, Any]:
    if kind == "Character":
        parts = parts | {"value": parts["value"].encode("latin-1")}
    return value(kind, *parts.values())


@pytest.mark.formats
def test_the_records_of_dts_make_the_same_rows_in_a_container(run: Run, tmp_path: Path) -> None:
    example = example_of("dts_avro")
    example.write(tmp_path)
    (printed,) = (tmp_path / "landing").iterdir()
    records = [dts_record(line) for line in printed.read_text().splitlines()]
    container(printed.with_suffix(".avro"), NEW, records)
    printed.unlink()
    assert_shown(run, tmp_path, example.tables)
