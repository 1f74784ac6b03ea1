"""Change the types of columns in the catalog, by what `planning.type_changes` decides.

The rows of a target or history are rewritten on a branch, and one commit moves `main` there and
changes the schema, so that no reader sees a column without its values. A changelog, to which
several batches may be writing, keeps the old column for its rows under another name.
"""

from __future__ import annotations

import itertools
import uuid
from collections.abc import Callable, Container, Mapping
from contextlib import suppress
from typing import Final

from pyiceberg.catalog import Catalog
from pyiceberg.table import Table
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from sluice import names
from sluice.catalog.client import load_table
from sluice.catalog.replaced_columns import (
    drop_left,
    left_columns,
    replace_columns,
    set_columns_aside,
)
from sluice.catalog.retries import limited_retries
from sluice.catalog.snapshots import head
from sluice.errors import PublishRefusedError, TransientError
from sluice.types.columns import parse_type
from spark_jobs.canonical import quoted
from spark_jobs.iceberg_types import iceberg_type_of, spark_type_of
from spark_jobs.lake.table_id import TableId
from spark_jobs.planning.replaced_columns import SET_ASIDE, WIDER, wider
from spark_jobs.planning.type_changes import is_promoted

_BRANCH: Final = f"{names.OWN_COLUMNS}wider"
_TRIES: Final = 5
_LONGEST_PAUSE: Final = 2.0


def promote(spark: SparkSession, table: TableId, column: str, after: str) -> None:
    """Change a type in place."""
    spark.sql(f"ALTER TABLE {table.sql()} ALTER COLUMN {quoted(column)} TYPE {after}")


def set_aside(
    spark: SparkSession,
    catalog: Catalog,
    table: TableId,
    before: Mapping[str, str],
    after: Mapping[str, str],
) -> None:
    """Replace columns of a changelog by columns of other types; the old ones are kept under other
    names. Columns whose types another batch has changed like this meanwhile stay.

    Raises TransientError as `rewrite` does.
    """

    def once() -> None:
        loaded = load_table(catalog, (table.namespace, table.name))
        wanted = {c: kind for c, kind in after.items() if not _holds(loaded, c, kind)}
        _refuse_changed(loaded, {c: before[c] for c in wanted})
        there = frozenset(loaded.schema().column_names)
        aside = {c: _free_name(there, before[c], c) for c in wanted}
        if aside:
            types = {c: iceberg_type_of(kind) for c, kind in wanted.items()}
            set_columns_aside(catalog, loaded, aside, types)

    _tried(spark, table, once)


def _holds(table: Table, column: str, kind: str) -> bool:
    """Whether a column has a type, or one to which Iceberg promotes it."""
    now = spark_type_of(table.schema().find_field(column).field_type)
    return now == parse_type(kind).spark or is_promoted(kind, now)


def _free_name(there: Container[str], kind: str, column: str) -> str:
    """Return an unused name: a column may get one type twice, by a batch that is rolled back and
    loaded again."""
    numbers = (f"#{number}" for number in itertools.count(2))
    names_ = (f"{SET_ASIDE}{kind}{number} {column}" for number in itertools.chain([""], numbers))
    return next(name for name in names_ if name not in there)


def rewrite(
    spark: SparkSession,
    catalog: Catalog,
    table: TableId,
    before: Mapping[str, str],
    after: Mapping[str, str],
) -> None:
    """Change the types of columns of a target or history in one commit.

    The table has no column or branch of another change of types (`has_wider`). Raises
    TransientError if the types changed meanwhile, or if other writers commit first at every try.
    """

    def once() -> None:
        _add_wider(spark, table, after)
        loaded = load_table(catalog, (table.namespace, table.name))
        try:
            _refuse_changed(loaded, {c: before[c] for c in after})
            _refuse_changed(loaded, {WIDER + c: kind for c, kind in after.items()})
            signature = f"wider {uuid.uuid4().hex}"
            if (base := head(loaded)) is not None:
                _write_again(spark, table, base, after, signature)
            replace_columns(catalog, loaded, {c: WIDER + c for c in after}, _BRANCH, signature)
        except BaseException:
            with suppress(Exception):  # the first error is the one to report
                _drop_added(catalog, table, loaded)
            raise

    _tried(spark, table, once)


def _drop_added(catalog: Catalog, table: TableId, added: Table) -> None:
    """Drop the wider columns, and the branch, of `added`: not those that another run has put in
    their place since, which have other field ids."""
    now = load_table(catalog, (table.namespace, table.name))
    if _wider_ids(now) == _wider_ids(added):
        drop_wider(catalog, table)


def _wider_ids(table: Table) -> set[int]:
    return {table.schema().find_field(name).field_id for name in left_columns(table, WIDER)}


def drop_wider(catalog: Catalog, table: TableId) -> None:
    """Drop the wider columns and the branch that an interrupted `rewrite` left.

    One that is still at work begins again, for its commit is refused.
    """
    drop_left(catalog, (table.namespace, table.name), WIDER, _BRANCH)


def has_wider(table: Table) -> bool:
    """Whether a `rewrite` has begun and not ended."""
    return bool(left_columns(table, WIDER)) or head(table, _BRANCH) is not None


def _tried(spark: SparkSession, table: TableId, once: Callable[[], None]) -> None:
    """Run an action until no other writer commits first; raise TransientError if that fails."""
    try:
        limited_retries(_TRIES, (PublishRefusedError,), _LONGEST_PAUSE)(once)
    except PublishRefusedError as error:
        raise TransientError(f"{table.full_name}: others write to it; run again") from error
    spark.catalog.refreshTable(table.sql())


def _refuse_changed(table: Table, types: Mapping[str, str]) -> None:
    """Raise TransientError if another batch has changed the columns' types."""
    there = {field.name: field.field_type for field in table.schema().fields}
    for column, kind in types.items():
        now = spark_type_of(there[column]) if column in there else "gone"
        if now != parse_type(kind).spark:
            raise TransientError(
                f"{'.'.join(table.name())}: column {column!r} is {now} meanwhile, not {kind}; run "
                "again"
            )


def _add_wider(spark: SparkSession, table: TableId, columns: Mapping[str, str]) -> None:
    spark.catalog.refreshTable(table.sql())
    listed = ", ".join(f"{quoted(WIDER + c)} {kind}" for c, kind in columns.items())
    spark.sql(f"ALTER TABLE {table.sql()} ADD COLUMNS ({listed})")


def _write_again(
    spark: SparkSession, table: TableId, base: int, columns: Mapping[str, str], signature: str
) -> None:
    """Write all rows of `main`, with the wider columns, to a branch; no value changes."""
    spark.sql(
        f"ALTER TABLE {table.sql()} CREATE OR REPLACE BRANCH {quoted(_BRANCH)} AS OF VERSION {base}"
    )
    spark.catalog.refreshTable(table.sql())
    rows = spark.table(table.sql())
    types = dict(rows.dtypes)
    rows = rows.withColumns({WIDER + c: wider(c, types[c], kind) for c, kind in columns.items()})
    writer = rows.writeTo(table.sql(_BRANCH))
    writer = writer.option(f"snapshot-property.{names.SUMMARY_MAINTENANCE}", signature)
    writer.overwrite(F.lit(True))
