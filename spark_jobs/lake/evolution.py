"""Create one table of the lake, add its new columns and widen their types."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pyspark.sql import SparkSession

from sluice import names
from sluice.faults import Point, reach
from spark_jobs.lake.column_rewrite import AlteredTable, promote, rewrite, set_aside
from spark_jobs.lake.table_id import TableId
from spark_jobs.lake.table_options import TableOptions
from spark_jobs.planning import stale_plan
from spark_jobs.planning.table_columns import NewColumn
from spark_jobs.planning.type_changes import (
    TypeChange,
    fixed_columns,
    is_promoted,
    refuse_widening,
)
from spark_jobs.quoting import literal, quoted


def create(
    spark: SparkSession, table: TableId, columns: Sequence[NewColumn], options: TableOptions
) -> None:
    """Create a table with its columns, partitions, properties and identifier fields."""
    listed = ", ".join(
        f"{quoted(c.name)} {c.type}{' NOT NULL' if c.required else ''}" for c in columns
    )
    props = ", ".join(f"{literal(k)} = {literal(v)}" for k, v in options.properties.items())
    spark.sql(
        f"CREATE TABLE {table.sql()} ({listed}) USING iceberg {options.partition} "
        f"TBLPROPERTIES ({props})"
    )
    reach(Point.LOAD_CREATED)
    identify(spark, table, options)


def identify(spark: SparkSession, table: TableId, options: TableOptions) -> None:
    """Set the identifier fields in a commit of its own; `Lake.ensure` repeats it after a crash."""
    if options.identifier:
        fields = ", ".join(quoted(c) for c in options.identifier)
        spark.sql(f"ALTER TABLE {table.sql()} SET IDENTIFIER FIELDS {fields}")
        reach(Point.LOAD_IDENTIFIED)


def evolve(
    table: AlteredTable, columns: Sequence[NewColumn], existing: Mapping[str, str], rewrites: bool
) -> None:
    """Add those of the `columns` that do not exist, and widen the types of the `existing` ones.

    `rewrites`: whether the table is rewritten where Iceberg cannot change a type in place.
    """
    added = [c for c in columns if c.name not in existing]
    if added:
        listed = ", ".join(f"{quoted(c.name)} {c.type}" for c in added)
        table.alter(f"ADD COLUMNS ({listed})")
        reach(Point.LOAD_ADDED)
    changes = retyped(columns, existing)
    if changes and names.is_changelog_namespace(table.id.namespace):
        _change_types(table, changes)
    elif changes:
        _widen(table, changes, rewrites)


def retyped(columns: Sequence[NewColumn], existing: Mapping[str, str]) -> tuple[TypeChange, ...]:
    """Return the changes of the existing columns that get another type."""
    return tuple(
        TypeChange(column.name, stored, column.type)
        for column in columns
        if (stored := existing.get(column.name, column.type)) != column.type
    )


def _change_types(table: AlteredTable, changes: Sequence[TypeChange]) -> None:
    """Change types in a changelog or tombstones.

    A rollback does not touch these tables, so their columns may have wider types than the
    target's, and keep them.
    """
    aside = []
    for change in changes:
        if change.promoted:
            promote(table, change)
        elif not is_promoted(change.after, change.before):
            aside.append(change)
    if aside:
        set_aside(table, aside)


def _widen(table: AlteredTable, changes: Sequence[TypeChange], rewrites: bool) -> None:
    loaded = table.load()
    fixed = fixed_columns(loaded, names.key_of(loaded.properties))
    for change in changes:
        stale_plan.refuse_narrowing(table.id.full_name, change)
        refuse_widening(table.id.full_name, change, rewrites, change.column in fixed)
        if change.promoted:
            promote(table, change)
    others = [change for change in changes if not change.promoted]
    if others:
        rewrite(table, others)
