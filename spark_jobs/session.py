"""The SparkSession of a driver, from the project's typed configuration."""

from __future__ import annotations

from typing import Final

from pyspark.sql import SparkSession

from sluice import __version__, names
from sluice.catalog.spark import spark_catalog_conf
from sluice.config.project import Project
from sluice.config.secrets import SECRET_NAMES
from sluice.config.spark_conf import SETTLED

DEFAULTS: Final = {
    **SETTLED,
    # The JVM's case of letters where no collation asks for another: ICU's needs a second of each
    # new JVM to begin with.
    "spark.sql.icu.caseMappings.enabled": "false",
    "spark.redaction.regex": f"(?i){SECRET_NAMES}",
    # Noting where in Python each expression was made takes half the time of making them.
    "spark.python.sql.dataFrameDebugging.enabled": "false",
    # What Spark infers from conditions doubles with each alias of a column that they name
    # (SPARK-33152): the fold of partial rows was planned for longer than anybody waits.
    "spark.sql.constraintPropagation.enabled": "false",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.shuffle.partitions": "8",
    "spark.scheduler.mode": "FAIR",
    "spark.sql.adaptive.coalescePartitions.minPartitionSize": "16m",
    "spark.sql.files.openCostInBytes": "1048576",
    # A batch is small beside its table: hash it, by at most this much for each partition, and
    # the table's rows need no sort.
    "spark.sql.join.preferSortMergeJoin": "false",
    "spark.sql.autoBroadcastJoinThreshold": "24m",
    # What is kept for a minute is not worth the time to compress it.
    "spark.sql.inMemoryColumnarStorage.compressed": "false",
    # The JVM does not compile a method above this size; Spark then generates smaller ones.
    "spark.sql.codegen.hugeMethodLimit": "8000",
}
# A driver that is its own executors has nobody to listen for but itself.
_ALONE: Final = {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
_SUMMARY: Final = "spark.sql.iceberg.snapshot-property."


def open_session(project: Project, app: str) -> SparkSession:
    """Start Spark with the lake's catalog; what `spark.conf` in sluice.yaml says wins (it says
    nothing of `SETTLED`)."""
    builder = SparkSession.builder.appName(app).master(project.spark.master)
    for key, value in settings(project).items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    return spark


def settings(project: Project) -> dict[str, str]:
    """A driver's settings: Sluice's own, the catalog's, and the project's `spark.conf`."""
    alone = _ALONE if project.spark.master.startswith("local") else {}
    given = {key: str(value) for key, value in project.spark.conf.items()}
    return {**DEFAULTS, **alone, **spark_catalog_conf(project), **given}


def sign_snapshots(spark: SparkSession, pipeline: str, batch_id: str, attempt: str) -> None:
    """Every snapshot that the session writes says whose it is."""
    for key, value in (
        (names.SUMMARY_PIPELINE, pipeline),
        (names.SUMMARY_BATCH, batch_id),
        (names.SUMMARY_ATTEMPT, attempt),
        (names.SUMMARY_VERSION, __version__),
    ):
        spark.conf.set(_SUMMARY + key, value)
