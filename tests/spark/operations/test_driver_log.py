"""What a driver's log keeps of Spark's own messages."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from spark_jobs.session import quieten

pytestmark = pytest.mark.spark


@pytest.mark.parametrize(
    ("name", "warns"), [("TaskSchedulerImpl", True), ("TaskSetManager", False)]
)
def test_driver_log_keeps_the_warning_about_missing_executors(
    spark: SparkSession, name: str, warns: bool
) -> None:
    """ "Initial job has not accepted any resources" is a warning of Spark's scheduler."""
    quieten(spark)
    assert spark.sparkContext._jvm is not None
    manager = spark.sparkContext._jvm.org.apache.logging.log4j.LogManager
    assert manager.getLogger(f"org.apache.spark.scheduler.{name}").isWarnEnabled() == warns
