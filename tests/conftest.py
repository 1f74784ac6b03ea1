"""Fixtures that every folder of tests shares."""

from __future__ import annotations

import logging
import os
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings
from sqlalchemy import Engine, event

from tests.s3_server import S3Server, S3ServerMissingError, s3_server

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Airflow lets everything log, and py4j says goodbye when pytest has closed its streams.
logging.getLogger("py4j").setLevel(logging.WARNING)

# Most tests' plans run once over a few rows: to compile them costs more than to interpret them.
# `make test` sets SLUICE_INTERPRETED; the longer suites and every driver run as production does.
INTERPRETED = {
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}

# A busy machine is no mistake of the code.
settings.register_profile("patient", deadline=None)
settings.load_profile("patient")


@event.listens_for(Engine, "connect")
def _without_sync(connection: object, _: object) -> None:
    """No test loses power: SQLite need not wait for the disk, a third of the time of many tests."""
    if isinstance(connection, sqlite3.Connection):
        connection.execute("PRAGMA synchronous=OFF")


ROOT = Path(__file__).parents[1]
SHARED = ROOT.parent / "shared"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Let a run end on files that take milliseconds, so that no process waits for another's."""
    items.sort(key=lambda item: "unit" in item.path.parts and "undo" not in item.path.parts)


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """One local session for all tests, set up as a driver's; the jars of `make setup` are on it.

    A test with tables opens its own catalog in a session beside it: see `tests.spark.sandbox`.
    """
    from pyspark.sql import SparkSession

    from sluice.catalog.spark import ICEBERG_EXTENSIONS
    from sluice.spark_submit.submit import JVM_DEFAULTS, jvm_options
    from spark_jobs.session import DEFAULTS, remember_classes

    conf: dict[str, bool | float | int | str | None] = {
        **DEFAULTS,
        "spark.driver.extraClassPath": str(ROOT / ".jars" / "*"),
        "spark.driver.memory": "2g",
        # On two cores a collector that works beside the tests made them a sixth slower than this.
        "spark.driver.defaultJavaOptions": f"{JVM_DEFAULTS} {jvm_options(small=True)}",
        "spark.sql.extensions": ICEBERG_EXTENSIONS,
        "spark.sql.shuffle.partitions": "2",
        # Tests make the same plans again and again; of Spark's hundred none is there any more.
        "spark.sql.codegen.cache.maxEntries": "5000",
        **(INTERPRETED if os.environ.get("SLUICE_INTERPRETED") else {}),
    }
    builder = SparkSession.builder.master("local[2]").appName("sluice-tests")
    session = builder.config(map=conf).getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    remember_classes(session)
    yield session
    session.stop()


@pytest.fixture(scope="session")
def fixtures() -> Path:
    """Change data of other projects, which is not part of this one."""
    folder = SHARED / "fixtures"
    # Others' data may not be committed: a clone without it beside it has nothing to read.
    if not folder.is_dir():
        pytest.skip(f"the shared fixtures are not at {folder}")
    return folder


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    """A real S3 server for the module. If it is missing, CI fails, and other machines
    skip the tests."""
    try:
        with s3_server(tmp_path_factory.mktemp("s3")) as found:
            yield found
    except S3ServerMissingError as missing:
        # Building it takes Go and a network, which not every machine of a developer's has.
        if os.environ.get("CI"):
            raise
        pytest.skip(str(missing))
