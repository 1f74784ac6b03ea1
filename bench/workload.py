"""A target of ROWS rows and one micro-batch of EVENTS Debezium JSON events on it.

80 % of the updates hit the newest 5 % of the keys, as order tables do; 10 % inserts, 75 %
updates, 15 % deletes. The target is also written as snapshot events, for Sluice to load.
"""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

ROW = ("id", "customer_id", "status", "amount", "note", "updated_at")
DDL = (
    "id bigint, customer_id bigint, status string, amount decimal(18,2), note string, "
    "updated_at bigint"
)
_FIRST_LSN = 24_023_128


def make(spark: SparkSession, out: Path, rows: int, events: int) -> None:
    """Write `initial` (Parquet), `snapshot` and `events` (JSON lines) below `out`."""
    initial = _columns(spark.range(rows).withColumn("v", F.lit(0).cast("long"))).select(*ROW)
    initial = initial.repartition(4).sortWithinPartitions("id")
    initial.write.mode("overwrite").parquet(f"{out}/initial")
    stored = spark.read.parquet(f"{out}/initial")
    snapshot = stored.withColumns({"op": F.lit("r"), "lsn": F.lit(1), "taken": F.lit("true")})
    _write(snapshot.withColumn("seq", F.lit(0)), f"{out}/snapshot")
    _write(_changes(spark, rows, events), f"{out}/events")


def _changes(spark: SparkSession, rows: int, events: int) -> DataFrame:
    base = spark.range(0, events, 1, 8).withColumnRenamed("id", "seq")
    dice = base.selectExpr("seq", "rand(42) r1", "rand(43) r2", "rand(44) r3")
    hot = f"cast({rows} * 0.95 + r3 * {rows} * 0.05 as bigint)"
    picked = dice.selectExpr(
        "seq",
        "case when r1 < 0.10 then 'c' when r1 < 0.85 then 'u' else 'd' end op",
        f"case when r1 < 0.10 then {rows} + seq when r2 < 0.8 then {hot} "
        f"else cast(r3 * {rows} as bigint) end id",
        "seq + 1 as v",
    )
    lsn = F.lit(_FIRST_LSN) + F.col("seq") * 8
    return _columns(picked).withColumns({"lsn": lsn, "taken": F.lit("false")})


def _columns(frame: DataFrame) -> DataFrame:
    statuses = "array('NEW', 'PAID', 'SHIPPED', 'DONE', 'RETURNED')"
    return frame.selectExpr(
        "id",
        "abs(hash(id, v)) % 100000 as customer_id",
        f"element_at({statuses}, cast(abs(hash(id, v, 7)) % 5 + 1 as int)) as status",
        "cast(abs(hash(id, v, 3)) % 10000000 / 100 as decimal(18,2)) as amount",
        "repeat(md5(cast(hash(id, v) as string)), 2) as note",
        "1760000000000000 + id * 1000 + v as updated_at",
        *[c for c in frame.columns if c != "id"],
    )


def _source() -> Column:
    return F.struct(
        F.lit("2.7").alias("version"),
        F.lit("postgresql").alias("connector"),
        F.lit("shop").alias("name"),
        (F.lit(1_760_000_000_000) + F.col("seq")).alias("ts_ms"),
        F.col("taken").alias("snapshot"),
        F.lit("shop").alias("db"),
        F.lit("public").alias("schema"),
        F.lit("orders").alias("table"),
        F.col("seq").alias("txId"),
        "lsn",
    )


def _write(frame: DataFrame, path: str) -> None:
    row = F.struct(*ROW)
    before = F.when(F.col("op").isin("u", "d"), row).alias("before")
    after = F.when(F.col("op") != "d", row).alias("after")
    stamp = (F.lit(1_760_000_000_500) + F.col("seq")).alias("ts_ms")
    event = F.to_json(F.struct(before, after, _source().alias("source"), "op", stamp))
    frame.select(event.alias("value")).write.mode("overwrite").text(path)
