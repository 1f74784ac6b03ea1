"""Columns that others of a new type replaced, where Iceberg does not promote the old type:

- in a target or history the rows are rewritten on a branch, and one commit moves `main` there and
  changes the schema, so that no reader sees the column without its values;
- in a changelog or tombstones, to which several batches may be writing, the old column is kept for
  its rows under another name (SET_ASIDE), and is read as the new one.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Final

from pyiceberg.table import Table
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from sluice import names
from sluice.types.columns import parse_type
from spark_jobs.iceberg_types import spark_type_of
from spark_jobs.quoting import quoted
from spark_jobs.values import as_type

SET_ASIDE: Final = f"{names.OWN_COLUMNS}was "
"""Prefix; then the column's former type, a number where it is not the first, and its name."""
WIDER: Final = f"{names.OWN_COLUMNS}wider "
"""Prefix of the column that is to replace the one with the rest of its name."""
_SET_ASIDE_NAME: Final = re.compile(
    rf"{re.escape(SET_ASIDE)}(?P<type>[^\s#]+)(?:#\d+)? (?P<name>.+)", re.DOTALL
)


def changes_as(changes: DataFrame, types: Mapping[str, str]) -> DataFrame:
    """Return a changelog's rows with the values of columns that were set aside, cast to the
    target's types.

    The changelog may have wider types: a rollback restores narrower ones only in the target.
    """
    whole = _with_set_aside(changes)
    actual = dict(whole.dtypes)
    cast = {
        c: wider(c, actual[c], kind) for c, kind in types.items() if actual.get(c, kind) != kind
    }
    return whole.withColumns(cast) if cast else whole


def _with_set_aside(changes: DataFrame) -> DataFrame:
    matches = {c: _SET_ASIDE_NAME.fullmatch(c) for c in changes.columns}
    aside = {column: match["name"] for column, match in matches.items() if match}
    if not aside:
        return changes
    types = dict(changes.dtypes)
    values = {
        name: F.coalesce(
            quoted(name), *(wider(c, types[c], types[name]) for c in aside if aside[c] == name)
        )
        for name in set(aside.values())
    }
    return changes.withColumns(values).drop(*map(quoted, aside))


def in_current_columns(
    rows: DataFrame, table: Table, snapshot: int, absent: Collection[str]
) -> DataFrame:
    """Return a snapshot's rows, read with its own schema, in the table's current columns.

    Columns match by field id, or by name where a wider column has replaced the old one since.
    `absent`: columns, in lower case, that the published rows lack, so that one of such a name is
    another column, which was dropped.
    """
    past = table.snapshot_by_id(snapshot)
    now, schema_id = table.schema(), None if past is None else past.schema_id
    then = None if schema_id is None else table.schemas().get(schema_id)
    if then is None or then.schema_id == now.schema_id:
        return rows
    by_id = {field.field_id: field.name for field in then.fields}
    types = dict(rows.dtypes)
    columns = []
    for field in now.fields:
        if field.field_id in by_id:
            columns.append(F.col(quoted(by_id[field.field_id])).alias(field.name))
        elif field.name in types and field.name.lower() not in absent:
            kind = spark_type_of(field.field_type)
            columns.append(wider(field.name, types[field.name], kind).alias(field.name))
    return rows.select(*columns)


def wider(column: str, before: str, after: str) -> Column:
    """Return a column's values in the wider type."""
    return as_type(F.col(quoted(column)), parse_type(before), after)


def is_own(column: str) -> bool:
    """Whether Sluice made the column, for a change of type."""
    return column.startswith((SET_ASIDE, WIDER))
