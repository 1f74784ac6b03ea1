"""decode: the generic envelope of one table → typed changelog rows, native expressions only."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import or_
from typing import Final

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from sluice import names
from sluice.manifest import SourceFile
from sluice.positions import KIND_ARRIVAL, ROLE_NEW, ROLE_OLD, epoch_prefix
from sluice.source_names import stored_name
from sluice.types.columns import ColumnType, is_code
from spark_jobs.canonical import (
    OP_DDL,
    OP_DELETE,
    OP_TRUNCATE,
    OP_UPDATE,
    OUTCOME_EVENT,
    lists_carried,
    record_text,
)
from spark_jobs.decoding.halves import OTHER, OWN, SPLIT, split_key_changes, splits
from spark_jobs.decoding.misfit_text import misfit
from spark_jobs.decoding.texts import column_texts, text_name, with_texts
from spark_jobs.expressions import replaced
from spark_jobs.formats.common.envelope import is_empty_image, repeats
from spark_jobs.formats.common.scans import with_facts
from spark_jobs.planning.plan import TablePlan
from spark_jobs.planning.planned_column import PlannedColumn
from spark_jobs.planning.table_summary import Source, short_name
from spark_jobs.record_places import PLACE, PLACED
from spark_jobs.row_conditions import is_truncate
from spark_jobs.values import fitted

BAD: Final = "_sluice_bad"
NULLED: Final = "_sluice_nulled"
"""For a table with `null_misfits`: the columns whose value did not fit and is NULL."""
UNFIT: Final = "_sluice_unfit"
"""The columns whose misfits reject the record, as a list; only `with_values`."""
_KEY_IS_NULL: Final = "key_is_null"
_DUPLICATE_COLUMN: Final = "duplicate_column"
_NOT_SENT: Final = "not_sent"
_OLD_ROW_MISSING: Final = "old_row_missing"
_TYPES_ID: Final = "_types_id"
_DESCRIBED: Final = "_described"
_WIDTHS: Final = {"bigint": "int", "double": "float"}
_DOUBLED: Final = "_sluice_doubled"
_ALONE: Final = "_sluice_alone"
_LOST: Final = "_sluice_lost"  # columns of a record that stay unknown, in both halves
_UNSENT: Final = "_sluice_unsent"  # columns that a new row does not have, in both halves
RECORD: Final = "_sluice_record"
"""A record as text, for files that are not text."""


@dataclass(frozen=True)
class Batch:
    """What a changelog row has of its batch."""

    batch_id: str
    epoch: int


def of_table(envelope: DataFrame, plan: TablePlan, truncates: bool = True) -> DataFrame:
    """Return one source table's events that change rows; `truncates=False` leaves TRUNCATE out."""
    passed = (OP_DDL,) if truncates else (OP_DDL, OP_TRUNCATE)
    changing = (F.col("outcome") == OUTCOME_EVENT) & ~F.col("op").isin(*passed)
    return envelope.where(changing & is_of(plan.source))


def is_of(source: Source) -> Column:
    """Whether a record of the envelope is of one source table; never NULL."""
    parts = (("database", source.database), ("schema", source.schema), ("table", source.table))
    matches = F.lit(True)
    for column, value in parts:
        missing = F.coalesce(F.col(column), F.lit("")) == ""
        matches &= F.col(column).eqNullSafe(value) if value else missing
    return matches


def with_origin(events: DataFrame, spark: SparkSession, files: Sequence[SourceFile]) -> DataFrame:
    """Add the object's key and arrival order to the file name that Spark gives."""
    joined = with_facts(spark, events, files, lambda f: {"origin": f.key, "arrival": f.arrival})
    return joined.withColumns(
        {
            "origin": F.coalesce("origin", "file"),
            "arrival": F.coalesce("arrival", "file"),
        }
    )


def changes(
    events: DataFrame, plan: TablePlan, batch: Batch, with_values: bool = False
) -> DataFrame:
    """Return typed changelog rows of one table, with PLACED, RECORD, BAD (misfits; "" for none)
    and, for tables with `null_misfits`, NULLED.

    BAD names the columns; `with_values` adds the values, and UNFIT, which costs time on every
    record. In these steps, texts → values → misfits, Spark computes each value once. Each half of
    an update also checks the texts of the other half: a record fits as a whole or not at all.
    """
    sides = (OWN, OTHER) if splits(plan) else (OWN,)
    halves = with_texts(split_key_changes(events, plan), plan, sides)
    texts = halves.select(
        *(text for side in sides for text in column_texts(plan, side)), *_carried(plan, batch)
    )
    of_sides = [_value(c, i, side) for side in sides for i, c in enumerate(plan.columns)]
    values = texts.select("*", *of_sides)
    named = [_named(plan, i).alias(c.name) for i, c in enumerate(plan.columns)]
    placed = [F.col(own).alias(name) for own, name in zip(PLACE, PLACED, strict=True)]
    about = [_bad(plan, sides, with_values).alias(BAD), *_nulled(plan), F.col(RECORD), *placed]
    if with_values:
        about.append(_unfit_columns(plan, sides))
    return values.select(*named, *map(F.col, names.CHANGELOG_METADATA), *about)


def _named(plan: TablePlan, index: int) -> Column:
    """Return a column's value; for a column that replaces a nullable key column, its
    comparable form."""
    column, text = plan.columns[index], F.col(text_name(index))
    if not column.holds_nulls:
        return F.col(_value_name(index))
    of = next(i for i, c in enumerate(plan.columns) if c.name == column.compares)
    compared = column.compared(F.col(_value_name(of)), plan.columns[of].stored)
    return F.when(text.isNotNull(), compared)


def _value_name(index: int, side: str = OWN) -> str:
    return f"_value{side}_{index}"


def _value(column: PlannedColumn, index: int, side: str) -> Column:
    text = F.col(text_name(index, side))
    kinds = sorted(set(column.readings.values()), key=str)
    result = fitted(text, kinds[0], column.stored)
    if len(kinds) > 1:
        result = _undescribed(text, column, kinds)
        for kind in kinds:
            mine = [i for i, k in column.readings.items() if k == kind and i is not None]
            value = fitted(text, kind, column.stored)
            result = F.when(F.col(_TYPES_ID).isin(mine), value).otherwise(result)
    certain = F.when(F.col(_DESCRIBED), result) if _is_code(column) else result
    return certain.alias(_value_name(index, side))


def _is_code(column: PlannedColumn) -> bool:
    """Whether a text without a description is ambiguous."""
    return None not in column.readings and any(map(is_code, column.readings.values()))


def _undescribed(text: Column, column: PlannedColumn, kinds: Sequence[ColumnType]) -> Column:
    """Return the value in a record without type descriptions: by a hint, or if all known types
    differ only in width; else NULL."""
    into = column.stored
    if None in column.readings:
        return fitted(text, column.readings[None], into)
    alike = {(_WIDTHS.get(k.name, k.name), k.encoding, k.scale) for k in kinds}
    if len(alike) > 1:
        return F.lit(None).cast(into.spark)
    return F.coalesce(*(fitted(text, kind, into) for kind in kinds))


def _bad(plan: TablePlan, sides: Sequence[str], with_values: bool) -> Column:
    """Return, as one text, the columns that did not fit and other reasons why the
    record is rejected."""
    misfits = _misfits(plan, sides, with_values)
    return F.concat_ws(", ", *misfits, *_null_keys(plan, sides), *_other_reasons(plan))


def _misfits(plan: TablePlan, sides: Sequence[str], with_values: bool) -> Iterator[Column]:
    for index, column in _checked(plan):
        texts = [F.col(text_name(index, side)) for side in sides]
        unfit = [_unfit(plan, index, side) for side in sides]
        detail = misfit(column, texts, unfit) if with_values else F.lit(column.name)
        yield F.when(reduce(or_, unfit), detail)


def _unfit_columns(plan: TablePlan, sides: Sequence[str]) -> Column:
    found = {
        column.name: reduce(or_, (_unfit(plan, index, side) for side in sides))
        for index, column in _checked(plan)
    }
    return _names_where(found).alias(UNFIT)


def _checked(plan: TablePlan) -> list[tuple[int, PlannedColumn]]:
    """Return the columns, with their index, whose misfits reject a record."""
    passed = plan.null_misfits
    return [
        (index, column)
        for index, column in enumerate(plan.columns)
        if not _always_fits(column) and column not in passed
    ]


def _names_where(conditions: Mapping[str, Column]) -> Column:
    """Return a list of the names whose condition holds."""
    listed = (F.when(condition, F.lit(name)) for name, condition in conditions.items())
    return F.array_compact(F.array(*listed).cast("array<string>"))


def _unfit(plan: TablePlan, index: int, side: str) -> Column:
    """Whether a text does not fit its column; what stands for a value that was not sent is no
    text of it, but in a key, which every row needs."""
    text, value = F.col(text_name(index, side)), F.col(_value_name(index, side))
    unfit, name = text.isNotNull() & value.isNull(), plan.columns[index].name
    if not plan.summary.partial or name in plan.identity:
        return unfit
    return unfit & ~F.coalesce(F.array_contains(_UNSENT, name), F.lit(False))


def _null_keys(plan: TablePlan, sides: Sequence[str]) -> Iterator[Column]:
    row = ~is_truncate()
    for index, column in enumerate(plan.columns):
        if column.name in plan.key:
            texts = [F.col(text_name(index, side)) for side in sides]
            lacking = texts[0].isNull() | (F.col(SPLIT) & texts[-1].isNull())
            yield F.when(row & lacking, F.lit(f"{_KEY_IS_NULL}:{column.source_name}"))


def _other_reasons(plan: TablePlan) -> Iterator[Column]:
    if plan.summary.duplicated:
        yield F.when(F.col(_DOUBLED), F.lit(_DUPLICATE_COLUMN))
    if not plan.keyed or plan.identity.issuperset(c.name for c in plan.columns):
        yield F.when(F.col(_ALONE), F.lit(_OLD_ROW_MISSING))
    if not plan.keyed:
        lost = F.concat(F.lit(f"{_NOT_SENT}:"), F.array_join(_LOST, ", "))
        yield F.when(~F.col(_ALONE), lost)


def _nulled(plan: TablePlan) -> list[Column]:
    passed = plan.null_misfits
    found = {
        column.name: _unfit(plan, index, OWN)
        for index, column in enumerate(plan.columns)
        if column in passed
    }
    return [_names_where(found).alias(NULLED)] if found else []


def _always_fits(column: PlannedColumn) -> bool:
    kinds = (column.stored, *column.readings.values())
    return all(k.name == "string" and not k.encoding for k in kinds)


def _carried(plan: TablePlan, batch: Batch) -> list[Column]:
    """Return the changelog's metadata and the columns that the next steps need."""
    described = any(len(set(c.readings.values())) > 1 for c in plan.columns)
    coded = any(map(_is_code, plan.columns))
    doubled = _repeats_column(plan, "before", "after") if plan.summary.duplicated else F.lit(False)
    return [
        F.col("kind").alias(names.OP),
        _position(batch, plan).alias(names.POSITION),
        F.col("source_ts").alias(names.SOURCE_TS),
        F.lit(batch.batch_id).alias(names.BATCH_ID),
        F.col("tx_id").alias(names.TX_ID),
        F.col("event_id").alias(names.EVENT_ID),
        F.when(~F.col("deleted"), _spelled("absent", plan)).alias(names.ABSENT),
        _lost(plan).alias(_LOST),
        *([_unsent(plan).alias(_UNSENT)] if plan.summary.partial else []),
        F.col("counted").alias(names.COUNTED),
        F.col("origin").alias(names.ORIGIN_FILE),
        F.col("ordinal").alias(names.ORIGIN_RECORD),
        (short_name(F.col("types")) if described else F.lit(None)).alias(_TYPES_ID),
        (F.col("types").isNotNull() if coded else F.lit(True)).alias(_DESCRIBED),
        doubled.alias(_DOUBLED),
        _updates_unknown_row(plan).alias(_ALONE),
        F.col(SPLIT),
        record_text().alias(RECORD),
        *map(F.col, PLACE),
    ]


def _updates_unknown_row(plan: TablePlan) -> Column:
    """Whether a record is an update whose old row is neither in it nor in another record.

    With a key the row is known anyway, unless the source says that the old row is missing.
    """
    alone = (F.col("op") == OP_UPDATE) & is_empty_image(F.col("before"))
    return alone & F.col("old_absent").isNotNull() if plan.keyed else alone


def _repeats_column(plan: TablePlan, *images: str) -> Column:
    """Whether an image names a column twice, ignoring case; also as its table calls it."""
    taken = {n: to.lower() for n in plan.summary.columns if (to := stored_name(n)) != n}
    listed = (F.transform(F.map_keys(i), lambda n: replaced(n, taken, F.lower(n))) for i in images)
    return reduce(or_, (F.coalesce(repeats(each), F.lit(False)) for each in listed))


def _lost(plan: TablePlan) -> Column:
    """Return the columns of a row whose value is unknown, for a table without a key."""
    new = F.when(F.col("op") != OP_DELETE, _spelled("absent", plan))
    old = _spelled("old_absent", plan)
    # If the event lists the columns of its old row, the table's other columns are unknown.
    rest = F.array_except(F.array(*(F.lit(c.name) for c in plan.columns)), old)
    unlisted = F.when(F.size(rest) > 0, rest)
    old = F.when(lists_carried(old), unlisted).otherwise(old)
    return F.coalesce(F.array_union(new, old), new, old)


def _unsent(plan: TablePlan) -> Column:
    """Return the columns that a new row does not have; NULL if it lists those that it has."""
    listed = _spelled("absent", plan)
    return F.when(~lists_carried(listed), listed)


def _spelled(listed: str, plan: TablePlan) -> Column:
    """Return column names in the target's spelling."""
    spelled = {other: c.name for c in plan.columns for other in c.others}
    if not spelled:
        return F.col(listed)
    return F.transform(listed, lambda name: replaced(name, spelled, name))


def _position(batch: Batch, plan: TablePlan) -> Column:
    """Return the position: epoch, the source's position or else the arrival, and old
    or new half."""
    role = F.when(F.col("deleted"), F.lit(ROLE_OLD)).otherwise(F.lit(ROLE_NEW))
    given = F.col("position")
    if plan.summary.unordered:
        given = F.coalesce(given, by_place())
    tie = F.lit(None).cast("string") if plan.keyed else _row_identity()
    return F.concat_ws(".", F.lit(epoch_prefix(batch.epoch)), given, tie, role)


def by_place() -> Column:
    """Return the position of a record without one of its own: where it arrived."""
    return F.concat_ws(".", F.lit(KIND_ARRIVAL), "arrival", _fixed("block"), _fixed("ordinal"))


def _row_identity() -> Column:
    """Return what tells apart rows without a key that have one position, as full-load rows do.

    It is the event's id, or else a hash of the row without NULLs, since another file may list
    columns that this one lacks.
    """
    held = F.map_filter("image", lambda _, value: value.isNotNull())
    content = F.hex(F.xxhash64(F.sort_array(F.map_entries(held))))
    return F.when(F.col("kind") != OP_TRUNCATE, F.coalesce("event_id", content))


def _fixed(name: str) -> Column:
    """Return a number as `sluice.positions.encode_number` encodes it."""
    text = F.col(name).cast("string")
    return F.concat(F.lpad(F.length(text).cast("string"), 2, "0"), text)
