"""Change the types of columns in the catalog, by what `planning.type_changes` decides.

Which tables are rewritten and which keep the old column, and why, is in
`planning.replaced_columns`.
"""

from __future__ import annotations

import itertools
import uuid
from collections.abc import Callable, Container, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
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
from sluice.faults import Point, reach
from sluice.types.columns import parse_type
from spark_jobs.iceberg_types import iceberg_type_of, spark_type_of
from spark_jobs.lake.table_id import TableId
from spark_jobs.planning.replaced_columns import SET_ASIDE, WIDER, wider
from spark_jobs.planning.type_changes import TypeChange, is_promoted
from spark_jobs.quoting import quoted

_BRANCH: Final = f"{names.OWN_COLUMNS}wider"
_TRIES: Final = 5
_LONGEST_PAUSE: Final = 2.0


@dataclass(frozen=True)
class AlteredTable:
    """A stored table whose columns are altered: by Spark's SQL, and in the catalog where SQL has no
    words for it."""

    spark: SparkSession
    catalog: Catalog
    id: TableId

    def load(self) -> Table:
        """Return the table's current metadata."""
        return load_table(self.catalog, self.id.identifier)

    def refresh(self) -> None:
        """Let Spark read the metadata again."""
        self.spark.catalog.refreshTable(self.id.sql())

    def alter(self, clause: str) -> None:
        """Run an ALTER TABLE."""
        self.spark.sql(f"ALTER TABLE {self.id.sql()} {clause}")


def promote(table: AlteredTable, change: TypeChange) -> None:
    """Change a type in place."""
    table.alter(f"ALTER COLUMN {quoted(change.column)} TYPE {change.after}")
    reach(Point.LOAD_PROMOTED)


def set_aside(table: AlteredTable, changes: Sequence[TypeChange]) -> None:
    """Replace columns of a changelog or of tombstones by columns of other types; the old ones are
    kept under other names. Columns whose types another batch has changed like this meanwhile stay.

    Raises TransientError as `rewrite` does.
    """

    def once() -> None:
        loaded = table.load()
        wanted = [change for change in changes if not _is_made(loaded, change)]
        _refuse_changed(loaded, {change.column: change.before for change in wanted})
        there = frozenset(loaded.schema().column_names)
        aside = {change.column: _free_name(there, change) for change in wanted}
        if aside:
            types = {change.column: iceberg_type_of(change.after) for change in wanted}
            set_columns_aside(table.catalog, loaded, aside, types)
            reach(Point.LOAD_ASIDE)

    _tried(table, once)


def _is_made(table: Table, change: TypeChange) -> bool:
    """Whether the column has its new type, or one to which Iceberg promotes that."""
    now = spark_type_of(table.schema().find_field(change.column).field_type)
    return now == parse_type(change.after).spark or is_promoted(change.after, now)


def _free_name(there: Container[str], change: TypeChange) -> str:
    """Return an unused name: a column may get one type twice, by a batch that is rolled back and
    loaded again."""
    numbers = (f"#{number}" for number in itertools.count(2))
    names_ = (
        f"{SET_ASIDE}{change.before}{number} {change.column}"
        for number in itertools.chain([""], numbers)
    )
    return next(name for name in names_ if name not in there)


def rewrite(table: AlteredTable, changes: Sequence[TypeChange]) -> None:
    """Change the types of columns of a target or history in one commit.

    The table has no column or branch of another change of types (`has_wider`). Raises
    TransientError if the types changed meanwhile, or if other writers commit first at every try.
    """

    def once() -> None:
        _add_wider(table, changes)
        loaded = table.load()
        try:
            _refuse_changed(loaded, {change.column: change.before for change in changes})
            _refuse_changed(loaded, {WIDER + change.column: change.after for change in changes})
            signature = f"wider {uuid.uuid4().hex}"
            if (base := head(loaded)) is not None:
                _write_again(table, base, changes, signature)
            replaced = {change.column: WIDER + change.column for change in changes}
            replace_columns(table.catalog, loaded, replaced, _BRANCH, signature)
            reach(Point.LOAD_REPLACED)
        except BaseException:
            with suppress(Exception):  # the first error is the one to report
                _drop_added(table, loaded)
            raise

    _tried(table, once)


def _drop_added(table: AlteredTable, added: Table) -> None:
    """Drop the wider columns, and the branch, of `added`: not those that another run has put in
    their place since, which have other field ids."""
    if _wider_ids(table.load()) == _wider_ids(added):
        drop_wider(table.catalog, table.id)


def _wider_ids(table: Table) -> set[int]:
    return {table.schema().find_field(name).field_id for name in left_columns(table, WIDER)}


def drop_wider(catalog: Catalog, table: TableId) -> None:
    """Drop the wider columns and the branch that an interrupted `rewrite` left.

    One that is still at work begins again, for its commit is refused.
    """
    drop_left(catalog, table.identifier, WIDER, _BRANCH)
    reach(Point.LOAD_WIDER)


def has_wider(table: Table) -> bool:
    """Whether a `rewrite` has begun and not ended."""
    return bool(left_columns(table, WIDER)) or head(table, _BRANCH) is not None


def _tried(table: AlteredTable, once: Callable[[], None]) -> None:
    """Run an action until no other writer commits first; raise TransientError if that fails."""
    try:
        limited_retries(_TRIES, (PublishRefusedError,), _LONGEST_PAUSE)(once)
    except PublishRefusedError as error:
        raise TransientError(f"{table.id.full_name}: others write to it; run again") from error
    table.refresh()


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


def _add_wider(table: AlteredTable, changes: Sequence[TypeChange]) -> None:
    table.refresh()
    listed = ", ".join(f"{quoted(WIDER + c.column)} {c.after}" for c in changes)
    table.alter(f"ADD COLUMNS ({listed})")
    reach(Point.LOAD_WIDER)


def _write_again(
    table: AlteredTable, base: int, changes: Sequence[TypeChange], signature: str
) -> None:
    """Write all rows of `main`, with the wider columns, to a branch; no value changes."""
    table.alter(f"CREATE OR REPLACE BRANCH {quoted(_BRANCH)} AS OF VERSION {base}")
    reach(Point.LOAD_WIDER)
    table.refresh()
    rows = table.spark.table(table.id.sql())
    types = dict(rows.dtypes)
    rows = rows.withColumns(
        {WIDER + c.column: wider(c.column, types[c.column], c.after) for c in changes}
    )
    writer = rows.writeTo(table.id.sql(_BRANCH))
    writer = writer.option(f"snapshot-property.{names.SUMMARY_MAINTENANCE}", signature)
    writer.overwrite(F.lit(True))
    reach(Point.LOAD_WIDER)
