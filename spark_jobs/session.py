"""The SparkSession of a driver, from the project's typed configuration."""

from __future__ import annotations

from typing import Final

from pyspark.sql import SparkSession

from sluice import __version__, names
from sluice.catalog.spark import spark_catalog_conf
from sluice.config.project import Project
from sluice.config.secrets import SECRET_NAMES
from sluice.config.spark_conf import FIXED_SETTINGS

DEFAULTS: Final = {
    **FIXED_SETTINGS,
    # Upper and lower case by the JVM, unless a collation requires another: loading ICU's mapping
    # takes a second of each new JVM.
    "spark.sql.icu.caseMappings.enabled": "false",
    "spark.redaction.regex": f"(?i){SECRET_NAMES}",
    # Recording the Python call site of each expression takes half the time of building plans.
    "spark.python.sql.dataFrameDebugging.enabled": "false",
    # Inferred constraints double with each alias of a column in them (SPARK-33152): planning the
    # fold of partial rows took too long.
    "spark.sql.constraintPropagation.enabled": "false",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.shuffle.partitions": "8",
    "spark.scheduler.mode": "FAIR",
    "spark.sql.adaptive.coalescePartitions.minPartitionSize": "16m",
    "spark.sql.files.openCostInBytes": "1048576",
    # A batch is small beside its table: with a hash join, for partitions up to this size, the
    # table's rows need no sorting.
    "spark.sql.join.preferSortMergeJoin": "false",
    "spark.sql.autoBroadcastJoinThreshold": "24m",
    # Cached rows are used for a minute: compressing them is not worth it.
    "spark.sql.inMemoryColumnarStorage.compressed": "false",
    # The JVM does not compile methods larger than this; Spark then generates smaller ones.
    "spark.sql.codegen.hugeMethodLimit": "8000",
}
_WAITS_FOR_EXECUTORS: Final = "org.apache.spark.scheduler.TaskSchedulerImpl"
# A local driver only needs connections from its own machine.
_ALONE: Final = {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
_SUMMARY: Final = "spark.sql.iceberg.snapshot-property."
_ASKED_WITH_EXPRESSIONS: Final = (
    "org.apache.spark.sql.functions", "functions", "PythonUtils", "PythonSQLUtils",
    "org.apache.spark.sql.expressions.Window", "org.apache.spark.sql.classic.SparkSession",
)  # fmt: skip


def open_session(project: Project, app: str) -> SparkSession:
    """Start Spark with the lake's catalog. `spark.conf` in sluice.yaml takes precedence; it may not
    set keys of `FIXED_SETTINGS`."""
    builder = SparkSession.builder.appName(app).master(project.spark.master)
    for key, value in settings(project).items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    quieten(spark)
    remember_classes(spark)
    return spark


def remember_classes(spark: SparkSession) -> None:
    """Look up once each class of the JVM that PySpark asks for to build an expression: it asks
    each time, and the JVM's search of all jars costs more than the rest of the expression."""
    jvm = spark.sparkContext._jvm
    for name in _ASKED_WITH_EXPRESSIONS:
        setattr(jvm, name, getattr(jvm, name))


def quieten(spark: SparkSession) -> None:
    """Leave only errors in the log, and the warning that no executor takes a job: a cluster may
    never have room for one."""
    spark.sparkContext.setLogLevel("ERROR")
    assert spark.sparkContext._jvm is not None
    log4j = spark.sparkContext._jvm.org.apache.logging.log4j
    log4j.core.config.Configurator.setLevel(_WAITS_FOR_EXECUTORS, log4j.Level.WARN)


def settings(project: Project) -> dict[str, str]:
    """Return a driver's settings: Sluice's, the catalog's, and the project's `spark.conf`."""
    alone = _ALONE if project.spark.master.startswith("local") else {}
    given = {key: str(value) for key, value in project.spark.conf.items()}
    return {**DEFAULTS, **alone, **spark_catalog_conf(project), **given}


def sign_snapshots(spark: SparkSession, pipeline: str, batch_id: str, attempt: str) -> None:
    """Put pipeline, batch and attempt into the summary of every snapshot of the session."""
    for key, value in (
        (names.SUMMARY_PIPELINE, pipeline),
        (names.SUMMARY_BATCH, batch_id),
        (names.SUMMARY_ATTEMPT, attempt),
        (names.SUMMARY_VERSION, __version__),
    ):
        spark.conf.set(_SUMMARY + key, value)
