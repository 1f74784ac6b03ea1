"""decode: the generic envelope of one table → typed changelog rows, native expressions only."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from sluice import names
from sluice.coltypes import ColumnType
from sluice.manifest import SourceFile
from sluice.positions import KIND_ARRIVAL, ROLE_NEW, ROLE_OLD, encode_number, epoch_prefix
from spark_jobs.canonical import OP_DDL, OP_DELETE, OP_TRUNCATE, OP_UPDATE, OUTCOME_EVENT
from spark_jobs.discover import types_id
from spark_jobs.plan import PlannedColumn, TablePlan
from spark_jobs.types import decode

BAD = "_bad"
_KEY_IS_NULL = "key_is_null"
_DUPLICATE_COLUMN = "duplicate_column"


@dataclass(frozen=True)
class Batch:
    """What a changelog row carries of its batch."""

    batch_id: str
    epoch: int


def quoted(name: str) -> str:
    """An identifier in backticks; text from files never becomes SQL."""
    return "`" + name.replace("`", "``") + "`"


def of_table(envelope: DataFrame, plan: TablePlan, truncates: bool = True) -> DataFrame:
    """The events of one source table that change rows; `truncates=False` leaves TRUNCATE out."""
    passed = (OP_DDL,) if truncates else (OP_DDL, OP_TRUNCATE)
    mine = (F.col("outcome") == OUTCOME_EVENT) & ~F.col("op").isin(*passed)
    for column, value in (
        ("database", plan.source.database),
        ("schema", plan.source.schema),
        ("table", plan.source.table),
    ):
        mine &= F.coalesce(F.col(column), F.lit("")) == value
    return envelope.where(mine)


def with_origin(events: DataFrame, spark: SparkSession, files: Sequence[SourceFile]) -> DataFrame:
    """Add the object's own key and its arrival order to what Spark calls the file."""
    rows = [(f.url, f.key, f.arrival) for f in files]
    known = spark.createDataFrame(rows, "file string, origin string, arrival string")
    joined = events.join(F.broadcast(known), "file", "left")
    return joined.withColumns(
        {
            "origin": F.coalesce("origin", "file"),
            "arrival": F.coalesce("arrival", "file"),
        }
    )


def changes(events: DataFrame, plan: TablePlan, batch: Batch) -> DataFrame:
    """Typed changelog rows of one table, with `_bad`: what did not fit ('' where all did)."""
    halves = _split_key_changes(events, plan)
    typed = {c.name: _typed(c) for c in plan.columns}
    kept = {name: _kept(name, column, plan) for name, column in typed.items()}
    columns = [column.alias(name) for name, column in kept.items()]
    return halves.select(
        *columns, *_metadata(plan, batch), _bad(plan, kept).alias(BAD), "file", "block", "ordinal"
    )


def _split_key_changes(events: DataFrame, plan: TablePlan) -> DataFrame:
    """An update that changes the key becomes a delete of the old and an upsert of the new."""
    if plan.found.old_images and plan.keyed:
        moved = F.lit(False)
        for key in plan.key:
            old, new = F.col("before")[key], F.col("after")[key]
            moved |= F.map_contains_key("before", F.lit(key)) & ~old.eqNullSafe(new)
        split = (F.col("op") == OP_UPDATE) & F.col("before").isNotNull() & moved
    elif plan.found.old_images:
        split = (F.col("op") == OP_UPDATE) & F.col("before").isNotNull()
    else:
        return _halved(events, F.lit(False))
    both = F.array(F.lit(True), F.lit(False))
    return _halved(
        events.withColumn(
            "old_half", F.explode(F.when(split, both).otherwise(F.array(F.lit(False))))
        ),
        F.col("old_half"),
    )


def _halved(events: DataFrame, old_half: Column) -> DataFrame:
    deleted = old_half | (F.col("op") == OP_DELETE)
    return events.withColumns(
        {
            "deleted": deleted,
            "counted": ~old_half,
            "image": F.when(deleted, F.col("before")).otherwise(F.col("after")),
            "kind": F.when(deleted, F.lit(OP_DELETE)).otherwise(F.col("op")),
        }
    )


def _typed(column: PlannedColumn) -> Column:
    text = F.col("image")[column.name]
    distinct = set(column.readings.values())
    if len(distinct) == 1:
        return _stored(text, next(iter(distinct)), column.stored)
    result = F.lit(None).cast(column.stored.spark)
    ident = types_id(F.col("types"))
    for kind in sorted(distinct, key=str):
        mine = [i for i, k in column.readings.items() if k == kind and i is not None]
        result = F.when(ident.isin(mine), _stored(text, kind, column.stored)).otherwise(result)
    return result


def _stored(text: Column, kind: ColumnType, stored: ColumnType) -> Column:
    value = decode(text, kind)
    return value if kind.spark == stored.spark else value.cast(stored.spark)


def _kept(name: str, column: Column, plan: TablePlan) -> Column:
    """Of a deleted row only the key is known: the rest of the image may be made up."""
    if not plan.keyed or name in plan.key:
        return column
    return F.when(~F.col("deleted"), column)


def _bad(plan: TablePlan, kept: dict[str, Column]) -> Column:
    """Names of the columns whose text did not fit, or the reason that rules the record out."""
    row = F.col("kind") != OP_TRUNCATE
    misfits = [
        F.when(_misfit(c, kept[c.name], plan), F.lit(c.name))
        for c in plan.columns
        if not _always_fits(c)
    ]
    nulls = [
        F.when(row & kept[k].isNull() & F.col("image")[k].isNull(), F.lit(f"{_KEY_IS_NULL}:{k}"))
        for k in plan.key
    ]
    doubled = []
    if plan.found.duplicated:
        image_names = F.map_keys("image")
        doubled = [
            F.when(
                F.size(image_names) != F.size(F.array_distinct(image_names)),
                F.lit(_DUPLICATE_COLUMN),
            )
        ]
    return F.concat_ws(", ", *misfits, *nulls, *doubled)


def _misfit(column: PlannedColumn, value: Column, plan: TablePlan) -> Column:
    wanted = F.col("image")[column.name].isNotNull() & value.isNull()
    return wanted if not plan.keyed or column.name in plan.key else wanted & ~F.col("deleted")


def _always_fits(column: PlannedColumn) -> bool:
    return all(k.name == "string" and not k.encoding for k in column.readings.values())


def _metadata(plan: TablePlan, batch: Batch) -> list[Column]:
    return [
        F.col("kind").alias(names.OP),
        _position(batch, plan).alias(names.POSITION),
        F.col("source_ts").alias(names.SOURCE_TS),
        F.lit(batch.batch_id).alias(names.BATCH_ID),
        F.col("tx_id").alias(names.TX_ID),
        F.col("event_id").alias(names.EVENT_ID),
        F.when(~F.col("deleted"), F.col("absent")).alias(names.ABSENT),
        F.col("counted").alias(names.COUNTED),
        F.col("origin").alias(names.ORIGIN_FILE),
        F.col("ordinal").alias(names.ORIGIN_RECORD),
    ]


def _position(batch: Batch, plan: TablePlan) -> Column:
    """Epoch, the source's order or else arrival, and the half's role."""
    role = F.when(F.col("deleted"), F.lit(ROLE_OLD)).otherwise(F.lit(ROLE_NEW))
    given = F.col("position")
    if plan.found.unordered:
        arrival = F.concat_ws(
            ".", F.lit(KIND_ARRIVAL), "arrival", _fixed("block"), _fixed("ordinal")
        )
        given = F.coalesce(given, arrival)
    tie = F.lit(None).cast("string") if plan.keyed else _told_apart()
    return F.concat_ws(".", F.lit(epoch_prefix(batch.epoch)), given, tie, role)


def _told_apart() -> Column:
    """Without a key a row is known by its position, which changes may share (a full load's rows).

    So the event's own id is part of it, or else a hash of what the row holds.
    """
    content = F.hex(F.xxhash64(F.sort_array(F.map_entries("image"))))
    return F.when(F.col("kind") != OP_TRUNCATE, F.coalesce("event_id", content))


def _fixed(name: str) -> Column:
    text = F.col(name).cast("string")
    return F.when(F.col(name) == 0, F.lit(encode_number(0))).otherwise(
        F.concat(F.lpad(F.length(text).cast("string"), 2, "0"), text)
    )
