"""The hand-written ways: read with a typed schema, keep the newest of each key, MERGE."""

from __future__ import annotations

import time
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
class Timing:
    """Seconds of the batch alone, and what identifies its result; no hash where nothing merged."""

    way: str
    seconds: float
    rows: int | None = None
    hash: int | None = None
    startup: float = 0.0


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


def floor(spark: SparkSession, work: Path, out: Path) -> Timing:
    """Read, parse and write Parquet: what no way can go below."""
    started = time.perf_counter()
    _events(spark, work).write.mode("overwrite").parquet(str(out / "floor"))
    return Timing("floor: parse and write, no merge", time.perf_counter() - started)


def copy_on_write(spark: SparkSession, work: Path, out: Path) -> Timing:
    """What tutorials show: a window and a copy-on-write MERGE."""
    _target(spark, work, "copy-on-write")
    started = time.perf_counter()
    newest = Window.partitionBy("k").orderBy(F.col("lsn").desc())
    ranked = _events(spark, work).withColumn("rank", F.row_number().over(newest))
    _merge(spark, ranked.where("rank = 1"))
    return _timed(spark, "hand-written, copy-on-write", started)


def merge_on_read(spark: SparkSession, work: Path, out: Path) -> Timing:
    """The best by hand: an aggregation and a merge-on-read MERGE."""
    _target(spark, work, "merge-on-read")
    started = time.perf_counter()
    newest = F.max_by(F.struct("op", "after"), "lsn").alias("x")
    folded = _events(spark, work).groupBy("k").agg(newest).select("k", "x.op", "x.after")
    _merge(spark, folded)
    return _timed(spark, "hand-written, merge-on-read", started)


WAYS = {"floor": floor, "cow": copy_on_write, "mor": merge_on_read}


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


def _timed(spark: SparkSession, way: str, started: float) -> Timing:
    seconds = time.perf_counter() - started
    row = spark.sql(HASH + TABLE).first()
    if row is None:
        raise RuntimeError(f"{way}: no result")
    return Timing(way, seconds, row[0], row[1])
