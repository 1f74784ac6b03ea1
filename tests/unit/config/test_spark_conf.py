"""Settings of Spark that the project may not give, for tables depend on them."""

from __future__ import annotations

from pathlib import Path

import pytest

from sluice.config.spark_conf import FIXED_SETTINGS
from spark_jobs.session import settings
from tests.unit.projects import LAKE, load, mistake


def with_conf(key: str, value: str) -> str:
    return f"{LAKE}spark: {{conf: {{{key}: {value}}}}}\n"


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("spark.sql.session.timeZone", "Asia/Shanghai"),
        ("spark.sql.ansi.enabled", "false"),
        ("spark.sql.files.ignoreCorruptFiles", "true"),
    ],
)
def test_spark_settings_that_tables_depend_on_are_refused(
    tmp_path: Path, key: str, value: str
) -> None:
    message = mistake(tmp_path, with_conf(key, value))
    assert "sluice.yaml:4: spark.conf: expected no setting that tables depend on" in message
    assert f"{key} is always {FIXED_SETTINGS[key]}; leave it out" in message


def test_settings_that_spark_would_pass_over_are_refused(tmp_path: Path) -> None:
    message = mistake(tmp_path, with_conf("driver.memory", "8g"))
    assert "spark.conf: expected settings that begin with `spark.`" in message
    assert "without driver.memory" in message


@pytest.mark.parametrize(
    ("key", "value"),
    [("spark.sql.ansi.enabled", "true"), ("spark.sql.shuffle.partitions", "4")],
)
def test_other_spark_settings_are_accepted(tmp_path: Path, key: str, value: str) -> None:
    assert key in load(tmp_path, with_conf(key, value)).spark.conf


@pytest.mark.parametrize(
    ("master", "host"), [("local[*]", "127.0.0.1"), ("spark://host:7077", None)]
)
def test_a_driver_without_other_machines_listens_to_its_own_alone(
    tmp_path: Path, master: str, host: str | None
) -> None:
    given = load(tmp_path)
    spark = given.spark.model_copy(update={"master": master})
    found = settings(given.model_copy(update={"spark": spark}))
    assert found.get("spark.driver.bindAddress") == found.get("spark.driver.host") == host
