"""A table's content from before the batches to undo, and its column names without them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from pyspark.sql import DataFrame

from sluice.errors import RollbackRefusedError
from sluice.manifest import Rebuild
from spark_jobs.lake.reader import Reader
from spark_jobs.lake.table_id import TableId, history_id, target_id
from spark_jobs.planning.additions import additions_of
from spark_jobs.planning.column_history import ColumnHistory
from spark_jobs.planning.defaults import lose_values
from spark_jobs.planning.renames_known import known_renames, renames_from, statements_on
from spark_jobs.planning.stretches import DECLARED


@dataclass(frozen=True)
class StateBefore:
    """A table's floor, and the rows of target and history from before the batches to undo; None if
    there are no such batches, or no floor."""

    floor: str | None
    rows: DataFrame | None
    versions: DataFrame | None


def before_undone(reader: Reader, request: Rebuild) -> StateBefore:
    """Read the rows at the snapshots onto which the batches were merged.

    Raises RollbackRefusedError if such a snapshot has expired.
    """
    plan = reader.plan
    floor = reader.lake.floor(target_id(plan))
    if floor is None or not request.without:
        return StateBefore(floor, None, None)
    rows = _held_before(reader, request, target_id(plan))
    return StateBefore(
        floor, rows, _held_before(reader, request, history_id(plan)) if plan.history else None
    )


def _held_before(reader: Reader, request: Rebuild, table: TableId) -> DataFrame | None:
    """Return the table's rows from before the batches to undo."""
    base, loaded = request.bases.get(table.name), reader.lake.load(table)
    if base is not None and loaded and loaded.snapshot_by_id(base) is None:
        raise RollbackRefusedError(
            f"{reader.plan.name}: snapshot {base}, from before batches "
            f"{', '.join(request.without)}, has expired; they cannot be undone any more"
        )
    rows = reader.lake.rows(table, base)
    # The defaults of that time are not stored; current ones fill missing columns.
    return None if rows is None else reader.now.rows(rows, ColumnHistory(), reader.types)


def take_back_undone_renames(reader: Reader, before: StateBefore) -> bool:
    """Take the renames of the batches to undo back from `reader.now`; return whether the table must
    be rebuilt from its changes, since its rows no longer show which values are whose.

    Raises RollbackRefusedError if maintenance has expired some of its changes.
    """
    return _forget_renames(reader, before.floor) or _loses_values(reader, before)


def _loses_values(reader: Reader, before: StateBefore) -> bool:
    """Whether a default that only the batches to undo brought cannot be taken back from stored
    rows: a row from below it may have the value itself, from an earlier column of that name.

    A row that merges several changes does not show which of them has the value.
    """
    changed = [one for one in reader.default_changes() if one.before.parts]
    loses = bool(changed) and (
        reader.partial or any(lose_values(rows, changed) for rows in _own_values(reader, before))
    )
    if loses and before.floor:
        raise RollbackRefusedError(
            f"{reader.plan.name}: rows may have had the default of columns "
            f"{[one.name for one in changed]} as a value of their own, and maintenance has "
            f"forgotten changes up to {before.floor}: a batch that others followed cannot be undone"
        )
    return loses


def _own_values(reader: Reader, before: StateBefore) -> Iterator[DataFrame]:
    """Yield the remaining changes without defaults, and the rows that replace expired ones."""
    changes = reader.changes_of(*reader.attempt.counted)
    yield ColumnHistory(renames=reader.now.renames).changes(changes)
    yield from (rows for rows in (before.rows, before.versions) if rows is not None)


def _forget_renames(reader: Reader, floor: str | None) -> bool:
    """Drop renames that only the batches to undo brought from `reader.now`; return whether there
    were any.

    Values that a rename put into one column cannot be separated, so the whole table is then rebuilt
    from its changes. Raises RollbackRefusedError if maintenance has expired some of these.
    """
    plan, published = reader.plan, reader.attempt.published
    kept = tuple(r for r in reader.before.renames if r.below == DECLARED)
    statements = statements_on(reader.lake.catalog, reader.lake.pipeline, plan, published)
    exact = known_renames(plan, renames_from(statements, plan.config), kept)
    if floor and reader.now.renames:
        raise RollbackRefusedError(
            f"{plan.name}: columns were renamed, and maintenance has forgotten changes up "
            f"to {floor}: a batch that others followed cannot be undone"
        )
    forgets = plan.follows and set(reader.now.renames) != set(exact)
    if forgets:
        additions = additions_of(statements, plan.config, reader.types, exact)
        of_events = reader.now.defaults
        reader.now = reader.before.known(of_events, exact, additions, reader.types)
    return forgets
