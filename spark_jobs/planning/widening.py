"""A column that gets a wider type.

Iceberg promotes some types in place. For others (int → decimal, a decimal of another scale, any
type → text) a column of the new type replaces the old one:

- in a target or history the rows are rewritten on a branch, and one commit moves `main` there and
  changes the schema, so that no reader sees the column without its values;
- in a changelog, to which several batches may be writing, the old column is kept for its rows under
  another name (SET_ASIDE), and is read as the new one.
"""

from __future__ import annotations

import itertools
import re
import uuid
from collections.abc import Container, Mapping, Sequence
from typing import Final, Protocol

from pyiceberg.catalog import Catalog
from pyiceberg.table import Table
from pyiceberg.types import IcebergType, TimestampType
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from sluice import names
from sluice.catalog.client import load_table
from sluice.catalog.replaced_columns import replace_columns
from sluice.catalog.retries import limited_retries
from sluice.catalog.snapshots import head
from sluice.errors import ELSEWHERE, PlanError, PublishRefusedError, TransientError
from sluice.types.columns import parse_type
from spark_jobs.canonical import quoted
from spark_jobs.values import as_type

SET_ASIDE: Final = f"{names.OWN_COLUMNS}was "
"""Prefix; then the column's former type, a number where it is not the first, and its name."""
_WIDER: Final = f"{names.OWN_COLUMNS}wider "
_BRANCH: Final = f"{names.OWN_COLUMNS}wider"
_SET_ASIDE_NAME: Final = re.compile(
    rf"{re.escape(SET_ASIDE)}(?P<type>[^\s#]+)(?:#\d+)? (?P<name>.+)", re.DOTALL
)
_PROMOTED: Final = {("int", "bigint"), ("float", "double")}
_TRIES: Final = 5
_LONGEST_PAUSE: Final = 2.0


class Place(Protocol):
    """A table of the lake (`lake.tables.TableId`)."""

    @property
    def namespace(self) -> str:
        """The table's namespace."""

    @property
    def name(self) -> str:
        """The table's name in the namespace."""

    @property
    def full_name(self) -> str:
        """Namespace and name, for messages."""

    def sql(self, branch: str | None = None) -> str:
        """Return the quoted identifier of the table, or of one of its branches."""


def is_promoted(before: str, after: str) -> bool:
    """Whether Iceberg promotes one type to the other in place."""
    old, new = parse_type(before), parse_type(after)
    decimals = old.name == new.name == "decimal" and old.scale == new.scale
    return (decimals and old.precision < new.precision) or (before, after) in _PROMOTED


def refuse_widening(
    table: str, column: str, before: str, after: str, rewrites: bool, fixed: bool
) -> None:
    """Raise PlanError unless the column can get the type.

    `rewrites`: the pipeline allows tables to be rewritten; `fixed`: the column is in the key, or
    the table is partitioned by it.
    """
    if is_promoted(before, after) or (rewrites and not fixed):
        return
    why = "one of the key or of `partition_by`" if fixed else "where on_schema_change is not evolve"
    raise PlanError(
        f"{table}: column {column!r} cannot become {after} from {before}, {why}; hint a type "
        f"that holds both, and where the table has the narrower one, {ELSEWHERE}"
    )


def promote(spark: SparkSession, table: Place, column: str, after: str) -> None:
    """Change a type in place."""
    spark.sql(f"ALTER TABLE {table.sql()} ALTER COLUMN {quoted(column)} TYPE {after}")


def set_aside(
    spark: SparkSession, table: Place, before: Mapping[str, str], after: Mapping[str, str]
) -> None:
    """Replace columns of a changelog by columns of other types; the old ones are kept
    under other names."""
    spark.catalog.refreshTable(table.sql())
    there = frozenset(spark.table(table.sql()).columns)
    for column, kind in after.items():
        aside = _free_name(there, before[column], column)
        alter = f"ALTER TABLE {table.sql()}"
        spark.sql(f"{alter} RENAME COLUMN {quoted(column)} TO {quoted(aside)}")
        spark.sql(f"{alter} ADD COLUMNS ({quoted(column)} {kind})")


def _free_name(there: Container[str], kind: str, column: str) -> str:
    """Return an unused name: a column may get one type twice, by a batch that is rolled back and
    loaded again."""
    numbers = (f"#{number}" for number in itertools.count(2))
    names_ = (f"{SET_ASIDE}{kind}{number} {column}" for number in itertools.chain([""], numbers))
    return next(name for name in names_ if name not in there)


def changes_as(changes: DataFrame, types: Mapping[str, str]) -> DataFrame:
    """Return a changelog's rows with the values of columns that were set aside, cast to the
    target's types.

    The changelog may have wider types: a rollback restores narrower ones only in the target.
    """
    whole = _with_set_aside(changes)
    actual = {f.name: f.dataType.simpleString() for f in whole.schema}
    cast = {
        c: _wider(c, actual[c], kind) for c, kind in types.items() if actual.get(c, kind) != kind
    }
    return whole.withColumns(cast) if cast else whole


def _with_set_aside(changes: DataFrame) -> DataFrame:
    matches = {c: _SET_ASIDE_NAME.fullmatch(c) for c in changes.columns}
    aside = {column: match["name"] for column, match in matches.items() if match}
    if not aside:
        return changes
    types = {f.name: f.dataType.simpleString() for f in changes.schema}
    values = {
        name: F.coalesce(
            quoted(name), *(_wider(c, types[c], types[name]) for c in aside if aside[c] == name)
        )
        for name in set(aside.values())
    }
    return changes.withColumns(values).drop(*map(quoted, aside))


def rewrite(
    spark: SparkSession,
    catalog: Catalog,
    table: Place,
    before: Mapping[str, str],
    after: Mapping[str, str],
) -> None:
    """Change the types of columns of a target or history in one commit.

    Raises TransientError if their types changed meanwhile, or if other writers commit first at
    every try.
    """

    def once() -> None:
        signature = f"wider {uuid.uuid4().hex}"
        _add_wider(spark, table, after)
        loaded = load_table(catalog, (table.namespace, table.name))
        _refuse_changed(loaded, {column: before[column] for column in after})
        if (base := head(loaded)) is not None:
            _write_again(spark, table, base, after, signature)
        replace_columns(catalog, loaded, {c: _WIDER + c for c in after}, _BRANCH, signature)

    try:
        limited_retries(_TRIES, (PublishRefusedError,), _LONGEST_PAUSE)(once)
    except PublishRefusedError as error:
        raise TransientError(f"{table.full_name}: others write to it; run again") from error
    spark.catalog.refreshTable(table.sql())


def _refuse_changed(table: Table, types: Mapping[str, str]) -> None:
    """Raise TransientError if another batch has changed the columns' types."""
    for column, kind in types.items():
        now = _in_spark(table.schema().find_field(column).field_type)
        if now != parse_type(kind).spark:
            raise TransientError(
                f"{'.'.join(table.name())}: column {column!r} is {now} meanwhile, not {kind}; run "
                "again"
            )


def _in_spark(kind: IcebergType) -> str:
    """Return Spark's name of an Iceberg type; Iceberg's `timestamp` has no zone, Spark's has."""
    name = "timestamp_ntz" if isinstance(kind, TimestampType) else str(kind)
    return parse_type(name).spark


def _add_wider(spark: SparkSession, table: Place, columns: Mapping[str, str]) -> None:
    """Add the wider columns; drop those of an interrupted attempt first."""
    spark.catalog.refreshTable(table.sql())
    alter, there = f"ALTER TABLE {table.sql()}", spark.table(table.sql()).columns
    for column in columns:
        if _WIDER + column in there:
            spark.sql(f"{alter} DROP COLUMN {quoted(_WIDER + column)}")
    listed = ", ".join(f"{quoted(_WIDER + c)} {kind}" for c, kind in columns.items())
    spark.sql(f"{alter} ADD COLUMNS ({listed})")


def _write_again(
    spark: SparkSession, table: Place, base: int, columns: Mapping[str, str], signature: str
) -> None:
    """Write all rows of `main`, with the wider columns, to a branch; no value changes."""
    spark.sql(
        f"ALTER TABLE {table.sql()} CREATE OR REPLACE BRANCH {quoted(_BRANCH)} AS OF VERSION {base}"
    )
    spark.catalog.refreshTable(table.sql())
    rows = spark.table(table.sql())
    types = {f.name: f.dataType.simpleString() for f in rows.schema}
    rows = rows.withColumns({_WIDER + c: _wider(c, types[c], kind) for c, kind in columns.items()})
    writer = rows.writeTo(table.sql(_BRANCH))
    writer = writer.option(f"snapshot-property.{names.SUMMARY_MAINTENANCE}", signature)
    writer.overwrite(F.lit(True))


def in_current_columns(rows: DataFrame, table: Table, snapshot: int) -> DataFrame:
    """Return a snapshot's rows, read with its own schema, in the table's current columns.

    Columns match by field id, or by name where a wider column has replaced the old one since.
    """
    past = table.snapshot_by_id(snapshot)
    now, schema_id = table.schema(), None if past is None else past.schema_id
    then = None if schema_id is None else table.schemas().get(schema_id)
    if then is None or then.schema_id == now.schema_id:
        return rows
    by_id = {field.field_id: field.name for field in then.fields}
    types = {f.name: f.dataType.simpleString() for f in rows.schema}
    columns = []
    for field in now.fields:
        if field.field_id in by_id:
            columns.append(F.col(quoted(by_id[field.field_id])).alias(field.name))
        elif field.name in types:
            kind = _in_spark(field.field_type)
            columns.append(_wider(field.name, types[field.name], kind).alias(field.name))
    return rows.select(*columns)


def _wider(column: str, before: str, after: str) -> Column:
    return as_type(F.col(quoted(column)), parse_type(before), after)


def is_own(column: str) -> bool:
    """Whether Sluice made the column, for a change of type."""
    return column.startswith((SET_ASIDE, _WIDER))


def fixed_columns(table: Table, key: Sequence[str]) -> set[str]:
    """Return the columns that identify or partition a table's rows."""
    placed = {table.schema().find_column_name(f.source_id) for f in table.spec().fields}
    return {*key, *(name for name in placed if name)}
