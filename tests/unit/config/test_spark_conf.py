"""Settings of Spark that the project may not give, for tables depend on them."""

from __future__ import annotations

from pathlib import Path

import pytest

from sluice.config.project import Project, load_project
from sluice.config.spark_conf import SETTLED
from sluice.errors import ConfigError
from spark_jobs.session import settings
from tests.unit.projects import PIPELINE, PROJECT


def project(root: Path, key: str, value: str) -> Project:
    (root / "pipelines").mkdir()
    (root / "sluice.yaml").write_text(f"{PROJECT}spark: {{conf: {{{key}: {value}}}}}\n")
    (root / "pipelines" / "shop.yaml").write_text(PIPELINE)
    return load_project(root)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("spark.sql.session.timeZone", "Asia/Shanghai"),
        ("spark.sql.ansi.enabled", "false"),
        ("spark.sql.files.ignoreCorruptFiles", "true"),
    ],
)
def test_what_tables_depend_on_is_refused(tmp_path: Path, key: str, value: str) -> None:
    with pytest.raises(ConfigError) as caught:
        project(tmp_path, key, value)
    assert "sluice.yaml:2: spark.conf: expected no setting that tables depend on" in str(
        caught.value
    )
    assert f"{key} is always {SETTLED[key]}; leave it out" in str(caught.value)


@pytest.mark.parametrize(
    ("key", "value"),
    [("spark.sql.ansi.enabled", "true"), ("spark.sql.shuffle.partitions", "4")],
)
def test_other_settings_are_given(tmp_path: Path, key: str, value: str) -> None:
    assert key in project(tmp_path, key, value).spark.conf


@pytest.mark.parametrize(
    ("master", "host"), [("local[*]", "127.0.0.1"), ("spark://host:7077", None)]
)
def test_a_driver_without_other_machines_listens_to_its_own_alone(
    tmp_path: Path, master: str, host: str | None
) -> None:
    given = project(tmp_path, "spark.sql.shuffle.partitions", "4")
    spark = given.spark.model_copy(update={"master": master})
    found = settings(given.model_copy(update={"spark": spark}))
    assert found.get("spark.driver.bindAddress") == found.get("spark.driver.host") == host
