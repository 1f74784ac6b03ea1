"""The archive of classes that the set-up recorded, in a JVM started as a driver's is."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from sluice.spark_submit import startup
from sluice.spark_submit.submit import driver_environment

pytestmark = pytest.mark.spark


# The Makefile unsets it; where pytest is run by hand it may name the settings of another Spark.
@pytest.mark.skipif("SPARK_CONF_DIR" in os.environ, reason="Spark's settings are not the set-up's")
def test_the_drivers_jvm_takes_its_classes_from_the_archive(tmp_path: Path) -> None:
    script, loaded = tmp_path / "start.py", tmp_path / "loaded.txt"
    script.write_text("from pyspark.sql import SparkSession\nSparkSession.builder.getOrCreate()\n")
    options = f"-XX:+UseParallelGC {startup.java_options()} -Xlog:class+load:file={loaded}"
    subprocess.run(
        [
            "spark-submit", "--properties-file", str(startup.defaults_file()),
            "--master", "local[1]", "--conf", f"spark.driver.extraJavaOptions={options}",
            str(script),
        ],
        env=driver_environment(), check=True, capture_output=True,
    )  # fmt: skip
    lines = [line for line in loaded.read_text().splitlines() if " org.apache.spark." in line]
    archived = [line for line in lines if line.endswith("source: shared objects file (top)")]
    read = [line for line in lines if "source: file:" in line]
    assert len(archived) > 1000
    assert len(read) < 100
