"""Mode append: a table beside the target with each of its events once.

| column | what |
|---|---|
| the source's | the event's values; NULL where it carries none, and in a TRUNCATE |
| _op | insert, update, delete or truncate; a change of the key is a delete and what follows it |
| _position | the source's order: the events in this order produce the target |
| _source_ts, _tx_id, _event_id | as the source gives them |
| _absent | the columns that an update left out, as in the changelog; NULL where it is whole |
| _batch_id | the batch that brought the event first |

An event is identified by position, op and content, as everywhere (`fold.event_hash`). It stays
when maintenance expires its change, and is then its only copy.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from sluice import names
from spark_jobs.folding.fold import event_hash, listed_as_carried
from spark_jobs.lake.rows_alike import alike, same_rows
from spark_jobs.lake.table_id import events_id, target_id
from spark_jobs.lake.writer import Writer
from spark_jobs.materialize import materialize
from spark_jobs.modes.mode_gaps import has_gap, written_by
from spark_jobs.quoting import by_name, quoted
from spark_jobs.row_conditions import is_truncate, of_batches

CONTENT: Final = "_sluice_content"
IDENTITY: Final = (names.POSITION, CONTENT)
_FIRST: Final = "_sluice_first"


def write(writer: Writer) -> None:
    """Append the batch's new events to the table's branch, or all published ones after a gap."""
    table = events_id(writer.plan)
    if not writer.plan.append:
        return
    lacks = has_gap(writer, table)
    # A table with a gap is completed by any batch that writes to it, see `history.write`.
    if writer.span.lowest is None and not lacks:
        return
    there = stored(writer)
    if there is None:
        _append(writer, materialize(once(writer.changelog(), writer.plan.data)))
    elif lacks:
        # Rows from before the gap lack later renames and defaults, so the table is rebuilt.
        floor = writer.lake.floor(target_id(writer.plan))
        rebuild(writer, writer.changelog(), None, floor)
    else:
        # For a batch above all stored events this skips every file by its bounds.
        there = there.where(F.col(names.POSITION) >= _lowest(writer))
        _append(writer, materialize(without(once(writer.batch_changes(), writer.plan.data), there)))


def _lowest(writer: Writer) -> str:
    """Return the lowest position of the batch's changes, an epoch's opening included."""
    opening = writer.plan.opening
    positions = [writer.span.lowest, opening.position if opening else None]
    return min(position for position in positions if position is not None)


def _append(writer: Writer, found: DataFrame) -> None:
    table, rows = events_id(writer.plan), found.count()
    if rows:
        writer.append(table, found.drop(CONTENT))
        writer.audit_written(table, rows)


def stored(writer: Writer) -> DataFrame | None:
    """Return the table's rows under current names and defaults, with CONTENT; None for no rows."""
    table = events_id(writer.plan)
    rows = writer.lake.rows(table, writer.bases[table].snapshot)
    if rows is None:
        return None
    current = writer.now.rows(rows, written_by(writer, table), writer.types)
    return identified(current, writer.plan.data)


def identified(events: DataFrame, data: Sequence[str]) -> DataFrame:
    """Return events with CONTENT, and NULL in columns that they do not carry.

    Some formats write a placeholder there, and a TRUNCATE gets no defaults.
    """
    of_rows = ~is_truncate()
    carried_values = {
        c: F.when(of_rows & F.expr(listed_as_carried(c)), F.col(quoted(c))) for c in data
    }
    plain = events.withColumns(carried_values)
    return plain.withColumn(CONTENT, event_hash(plain, data))


def once(changes: DataFrame, data: Sequence[str]) -> DataFrame:
    """Return each distinct event of a changelog once, with the table's columns and CONTENT.

    If an event came several times, other columns are those of the least row, which is
    deterministic.
    """
    others = [c for c in names.EVENTS_METADATA if c != names.POSITION]
    kept = [names.BATCH_ID, *data, *(c for c in others if c != names.BATCH_ID)]
    first = F.min(F.struct(*by_name(kept))).alias(_FIRST)
    found = identified(changes, data).groupBy(*IDENTITY).agg(first)
    columns = (*data, *names.EVENTS_METADATA)
    values = (F.col(c) if c == names.POSITION else F.col(_FIRST)[c].alias(c) for c in columns)
    return found.select(*values, CONTENT)


def without(events: DataFrame, others: DataFrame) -> DataFrame:
    """Return the events that are not among `others`; both have CONTENT."""
    return events.join(others.select(*IDENTITY), list(IDENTITY), "left_anti")


def rebuild(writer: Writer, log: DataFrame, undone: DataFrame | None, floor: str | None) -> None:
    """Make the table hold the changelog's events, and of its own those at or below the floor.

    `undone`: the changes of undone batches; events that another batch brought too are kept.
    """
    there, wanted = stored(writer), once(log, writer.plan.data)
    if there is None:
        replace(writer, wanted, None)
        return
    gone = None
    if undone is not None:
        gone = _brought_alone(writer, there, without(once(undone, writer.plan.data), wanted), floor)
    # An undone default is in the stored events but not in `gone`, so they would not match.
    as_stored = not writer.reinterprets_changes() and not has_gap(writer, events_id(writer.plan))
    if gone is not None and as_stored:
        _take_out(writer, gone)
        return
    if floor is not None:
        forgotten = there.where(F.col(names.POSITION) <= floor)
        forgotten = forgotten if gone is None else without(forgotten, gone)
        wanted = wanted.unionByName(without(forgotten, wanted))
    replace(writer, wanted, there)


def replace(writer: Writer, wanted: DataFrame, there: DataFrame | None) -> None:
    """Replace the table's rows by `wanted` (as `once` returns it), unless they are equal."""
    wanted = materialize(wanted)
    if there is not None:
        sides = (rows.drop(names.BATCH_ID) for rows in (wanted, alike(there, wanted)))
        if same_rows(*sides):
            return
    writer.overwrite(events_id(writer.plan), wanted.drop(CONTENT))


def _brought_alone(
    writer: Writer, there: DataFrame, gone: DataFrame, floor: str | None
) -> DataFrame:
    """Return the stored events of `gone` that only undone batches brought.

    At or below the floor the changes of other batches that brought an event may have expired. There
    the batch in the stored event decides, which was the first to bring it.
    """
    rows = there.join(gone.select(*IDENTITY), list(IDENTITY), "left_semi")
    if floor is None:
        return rows
    published = of_batches(writer.attempt.published)
    return rows.where((F.col(names.POSITION) > floor) | ~published)


def _take_out(writer: Writer, gone: DataFrame) -> None:
    rows = materialize(gone.drop(CONTENT))
    if rows.isEmpty():
        return
    table = events_id(writer.plan)
    on = " AND ".join(f"t.{quoted(c)} <=> s.{quoted(c)}" for c in rows.columns)
    merge = f"MERGE INTO {writer.branch(table)} t USING"
    writer.sql(table, rows, lambda s: f"{merge} {s} s ON {on} WHEN MATCHED THEN DELETE")
