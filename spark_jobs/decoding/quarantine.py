"""quarantine: rejected records with their reason, bytes and place."""

from __future__ import annotations

from typing import Final

from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from sluice.containers import datums
from sluice.faults import Point, reach
from sluice.ledger.tables import QUARANTINE
from sluice.manifest import JSON_LINES, LandingReject, SourceFile
from sluice.names import LEDGER_NAMESPACE
from spark_jobs.lake.table_id import TableId
from spark_jobs.quoting import quoted
from spark_jobs.record_places import PLACE, place, text_lines

TABLE: Final = TableId(LEDGER_NAMESPACE, QUARANTINE)
_NO_DATUM: Final = f"CAST(NULL AS binary) AS {datums.COLUMN}"


def texts(
    spark: SparkSession, files: tuple[SourceFile, ...], envelope: DataFrame | None = None
) -> DataFrame:
    """Return every line of the JSON-lines files with its place and its number within the file.

    A bare Avro datum has no text; its bytes are in `datum`. Records of containers and Parquet, read
    from the `envelope`, only get a number.
    """
    lines = text_lines(spark, (f for f in files if f.container == JSON_LINES))
    kept = lines.select("value", F.expr(_NO_DATUM), *PLACE)
    if bare := [f.url for f in files if f.avro_schema == datums.SCHEMA]:
        found = spark.read.format("avro").schema(f"{datums.COLUMN} binary").load(bare)
        text = F.lit(None).cast("string").alias("value")
        kept = kept.unionByName(found.select(text, datums.COLUMN, *place()))
    if envelope is not None and any(map(datums.is_container, files)):
        kept = kept.unionByName(_of_typed_files(envelope, kept))
    first = F.min("ordinal").alias("first")
    blocks = kept.groupBy("file", "block").agg(first, F.count("*").alias("records"))
    before = F.sum("records").over(
        Window.partitionBy("file").orderBy("block").rowsBetween(Window.unboundedPreceding, -1)
    )
    starts = blocks.select("file", "block", "first", F.coalesce(before, F.lit(0)).alias("before"))
    number = F.col("ordinal") - F.col("first") + F.col("before") + 1
    return kept.join(F.broadcast(starts), ["file", "block"]).select(
        *PLACE, "value", datums.COLUMN, number.alias("record")
    )


def _of_typed_files(envelope: DataFrame, others: DataFrame) -> DataFrame:
    places = envelope.select(*PLACE).distinct()
    mine = places.join(others.select("file").distinct(), "file", "left_anti")
    return mine.withColumn("value", F.lit(None).cast("string")).selectExpr("*", _NO_DATUM)


def with_text(rejects: DataFrame, lines: DataFrame) -> DataFrame:
    """Add the record's bytes and number to rows with a place."""
    found = rejects.join(lines, list(PLACE), "left")
    text = F.encode(F.coalesce("value", "raw"), "UTF-8")
    return found.withColumn("raw", F.coalesce(datums.COLUMN, text))


def rows(rejects: DataFrame, pipeline: str, batch_id: str) -> DataFrame:
    """Return quarantine rows from (source_table, reason, detail, raw, record, origin)."""
    return rejects.select(
        F.lit(pipeline).alias("pipeline"),
        F.lit(batch_id).alias("batch_id"),
        "source_table",
        "reason",
        "detail",
        "raw",
        F.col("origin").alias("file"),
        F.col("record").cast("bigint").alias("record"),
        F.current_timestamp().alias("at"),
    )


def landing_rows(
    spark: SparkSession, rejects: tuple[LandingReject, ...], pipeline: str, batch_id: str
) -> DataFrame:
    """Return quarantine rows of what landing rejected: records, a cut end, or a whole file."""
    data = [(r.key, r.record, r.reason, r.raw_base64, "", "") for r in rejects]
    of_landing = "origin string, record bigint, reason string, raw string"
    frame = spark.createDataFrame(data, f"{of_landing}, source_table string, detail string")
    return rows(frame.withColumn("raw", F.unbase64("raw")), pipeline, batch_id)


def write(spark: SparkSession, frame: DataFrame) -> None:
    """Append rows to the quarantine."""
    _as_stored(spark, frame).writeTo(TABLE.sql()).append()
    reach(Point.LOAD_QUARANTINED)


def replace(spark: SparkSession, frame: DataFrame, batch_id: str) -> None:
    """Replace all quarantine rows of a batch."""
    mine = F.col("batch_id") == batch_id
    _as_stored(spark, frame).writeTo(TABLE.sql()).overwrite(mine)
    reach(Point.LOAD_QUARANTINED)


def _as_stored(spark: SparkSession, frame: DataFrame) -> DataFrame:
    columns = [f.name for f in spark.table(TABLE.sql()).schema]
    return frame.select(*(quoted(c) for c in columns if c in frame.columns))
