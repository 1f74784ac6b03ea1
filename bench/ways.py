"""The hand-written ways: read with a typed schema, keep the newest of each key, MERGE.

A way makes its target in one process and applies the batch in another, as an hourly job does:
each starts as cold as `sluice run` does.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from bench.workload import DDL, ROW

TABLE = "lake.db.orders"
HASH = "SELECT count(*), sum(crc32(concat(id, status, amount, customer_id))) FROM "
_IMAGE = (
    DDL.replace(" bigint", ": bigint")
    .replace(" string", ": string")
    .replace(" decimal", ": decimal")
)
EVENT = f"before struct<{_IMAGE}>, after struct<{_IMAGE}>, source struct<lsn: bigint>, op string"


@dataclass(frozen=True)
class Way:
    """One way to apply a batch; `mode` is its Iceberg write mode, None where nothing merges."""

    title: str
    mode: str | None
    changes: Callable[[SparkSession, Path], DataFrame]

    def prepare(self, spark: SparkSession, work: Path) -> None:
        """Make the target with its initial rows."""
        if self.mode:
            _target(spark, work, self.mode)

    def apply(self, spark: SparkSession, work: Path, out: Path) -> float:
        """Apply the batch; returns its seconds without the start of Python, Spark and the JVM."""
        started = time.perf_counter()
        changes = self.changes(spark, work)
        if self.mode:
            _merge(spark, changes)
        else:
            changes.write.mode("overwrite").parquet(str(out / "floor"))
        return time.perf_counter() - started

    def result(self, spark: SparkSession) -> tuple[int, int] | None:
        """Rows and hash of the target."""
        return read_result(spark, TABLE) if self.mode else None


def session(warehouse: Path) -> SparkSession:
    """The peers' session: a Hadoop catalog in a folder of its own."""
    spark = (
        SparkSession.builder.master("local[2]")
        .config("spark.driver.memory", "6g")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.shuffle.partitions", "4")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config(
            "spark.sql.extensions",
            "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
        )
        .config("spark.sql.catalog.lake", "org.apache.iceberg.spark.SparkCatalog")
        .config("spark.sql.catalog.lake.type", "hadoop")
        .config("spark.sql.catalog.lake.warehouse", str(warehouse))
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("ERROR")
    return spark


def read_result(spark: SparkSession, table: str) -> tuple[int, int]:
    """Rows of a table and the hash that every way must share."""
    row = spark.sql(HASH + table).first()
    if row is None:
        raise RuntimeError(f"{table}: no result")
    return int(row[0]), int(row[1])


def _newest_by_window(spark: SparkSession, work: Path) -> DataFrame:
    newest = Window.partitionBy("k").orderBy(F.col("lsn").desc())
    return _events(spark, work).withColumn("rank", F.row_number().over(newest)).where("rank = 1")


def _newest_by_aggregation(spark: SparkSession, work: Path) -> DataFrame:
    newest = F.max_by(F.struct("op", "after"), "lsn").alias("x")
    return _events(spark, work).groupBy("k").agg(newest).select("k", "x.op", "x.after")


def _events(spark: SparkSession, work: Path) -> DataFrame:
    raw = spark.read.schema(EVENT).json(f"{work}/events")
    key = F.coalesce("after.id", "before.id").alias("k")
    return raw.select(key, "op", "after", F.col("source.lsn").alias("lsn"))


def _target(spark: SparkSession, work: Path, mode: str) -> None:
    spark.sql("CREATE NAMESPACE IF NOT EXISTS lake.db")
    modes = ", ".join(f"'write.{w}.mode' = '{mode}'" for w in ("merge", "update", "delete"))
    spark.sql(
        f"CREATE TABLE {TABLE} ({DDL}) USING iceberg "
        f"TBLPROPERTIES ('format-version' = '2', {modes})"
    )
    casts = [F.col(c).cast("bigint") if c == "customer_id" else F.col(c) for c in ROW]
    spark.read.parquet(f"{work}/initial").select(*casts).writeTo(TABLE).append()


def _merge(spark: SparkSession, changes: DataFrame) -> None:
    changes.createOrReplaceTempView("changes")
    sets = ", ".join(f"t.{c} = s.after.{c}" for c in ROW)
    values = ", ".join(f"s.after.{c}" for c in ROW)
    spark.sql(
        f"MERGE INTO {TABLE} t USING changes s ON t.id = s.k "
        "WHEN MATCHED AND s.op = 'd' THEN DELETE "
        f"WHEN MATCHED THEN UPDATE SET {sets} "
        f"WHEN NOT MATCHED AND s.op <> 'd' THEN INSERT ({', '.join(ROW)}) VALUES ({values})"
    )


WAYS = {
    "floor": Way("floor: parse and write, no merge", None, _events),
    "cow": Way("hand-written, copy-on-write", "copy-on-write", _newest_by_window),
    "mor": Way("hand-written, merge-on-read", "merge-on-read", _newest_by_aggregation),
}
