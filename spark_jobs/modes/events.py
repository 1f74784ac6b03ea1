"""Mode append: a table beside the target with every event of it, each once.

| column | what |
|---|---|
| the source's | what the event says of the row; NULL where it says nothing, and in a TRUNCATE |
| _op | insert, update, delete or truncate; a change of the key is a delete and what follows it |
| _position | where in the source's order: events in this order make the target |
| _source_ts, _tx_id, _event_id | as the source tells them |
| _absent | the columns that an update left out, as in the changelog; NULL where it is whole |
| _batch_id | the batch that brought the event first |

An event is known by its position, its op and its content, as everywhere (`fold.event_hash`). It
stays when maintenance forgets its change: then nobody else knows of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from sluice import names
from spark_jobs.canonical import is_truncate, of_batches, quoted
from spark_jobs.compare import alike, same_rows
from spark_jobs.folding.fold import event_hash, listed_as_carried
from spark_jobs.kept import keep
from spark_jobs.lake.tables import events_id, target_id
from spark_jobs.lake.writer import Writer
from spark_jobs.modes.gap import behind, written_by

CONTENT: Final = "_sluice_content"
IDENTITY: Final = (names.POSITION, CONTENT)
_FIRST: Final = "_sluice_first"


def write(writer: Writer) -> None:
    """Append the batch's events that the table has not yet to its branch.

    All published ones, where the table lacks some.
    """
    table = events_id(writer.plan)
    if not writer.plan.append:
        return
    lacks = behind(writer, table)
    # What lacks something gets it from any batch that writes to it, see `history.write`.
    if writer.span.lowest is None and not lacks:
        return
    there = stored(writer)
    if there is None:
        _append(writer, keep(once(writer.changelog(), writer.plan.data)))
    elif lacks:
        # What was told of its columns meanwhile nobody told the table: its rows are made anew.
        floor = writer.lake.property(target_id(writer.plan), names.PROP_FLOOR)
        rebuild(writer, writer.changelog(), None, floor)
    else:
        # Of a batch above all others the table's files have bounds that none of them is read by.
        there = there.where(F.col(names.POSITION) >= _lowest(writer))
        _append(writer, keep(without(once(writer.mine(), writer.plan.data), there)))


def _lowest(writer: Writer) -> str:
    """Of the batch's changes, to which a declared full load adds its opening, below all others."""
    opening = writer.plan.opening
    told = [writer.span.lowest, opening.position if opening else None]
    return min(position for position in told if position is not None)


def _append(writer: Writer, found: DataFrame) -> None:
    table, rows = events_id(writer.plan), found.count()
    if rows:
        found.drop(CONTENT).writeTo(writer.branch(table)).append()
        writer.audit_written(table, rows)


def stored(writer: Writer) -> DataFrame | None:
    """The table's rows by what is told now, with CONTENT; None where it has none."""
    table = events_id(writer.plan)
    rows = writer.lake.rows(table, writer.bases[table].snapshot)
    if rows is None:
        return None
    told = writer.now.rows(rows, written_by(writer, table), writer.types)
    return identified(told, writer.plan.data)


def identified(events: DataFrame, data: Sequence[str]) -> DataFrame:
    """Events with CONTENT, and nothing in the columns of which they say nothing: some formats
    write a text of their own there, and a TRUNCATE is not concerned by defaults."""
    of_rows = ~is_truncate()
    said = {c: F.when(of_rows & F.expr(listed_as_carried(c)), F.col(quoted(c))) for c in data}
    plain = events.withColumns(said)
    return plain.withColumn(CONTENT, event_hash(plain, data))


def once(changes: DataFrame, data: Sequence[str]) -> DataFrame:
    """The different ones of a changelog's events, in the table's columns and CONTENT.

    Of what is not their identity the least counts, so that no chance is in it.
    """
    others = [c for c in names.EVENTS_METADATA if c != names.POSITION]
    kept = [names.BATCH_ID, *data, *(c for c in others if c != names.BATCH_ID)]
    first = F.min(F.struct(*map(quoted, kept))).alias(_FIRST)
    found = identified(changes, data).groupBy(*IDENTITY).agg(first)
    columns = (*data, *names.EVENTS_METADATA)
    values = (F.col(c) if c == names.POSITION else F.col(_FIRST)[c].alias(c) for c in columns)
    return found.select(*values, CONTENT)


def without(events: DataFrame, others: DataFrame) -> DataFrame:
    """The events that are not among the others; both with CONTENT."""
    return events.join(others.select(*IDENTITY), list(IDENTITY), "left_anti")


def rebuild(writer: Writer, log: DataFrame, undone: DataFrame | None, floor: str | None) -> None:
    """Make the table hold the events of the changelog, and what it alone knows of up to the floor.

    `undone`: the changes of batches that are taken out; only what no other batch brought goes.
    """
    there, wanted = stored(writer), once(log, writer.plan.data)
    if there is None:
        replace(writer, wanted, None)
        return
    gone = None
    if undone is not None:
        gone = _brought_alone(writer, there, without(once(undone, writer.plan.data), wanted), floor)
    # Where a default is not told any more, the events are stored with it and `gone` is without.
    as_stored = not writer.retells() and not behind(writer, events_id(writer.plan))
    if gone is not None and as_stored:
        _take_out(writer, gone)
        return
    if floor is not None:
        forgotten = there.where(F.col(names.POSITION) <= floor)
        forgotten = forgotten if gone is None else without(forgotten, gone)
        wanted = wanted.unionByName(without(forgotten, wanted))
    replace(writer, wanted, there)


def replace(writer: Writer, wanted: DataFrame, there: DataFrame | None) -> None:
    """Make `wanted`, as `once` gives it, all that the table holds, where it is not."""
    wanted = keep(wanted)
    if there is not None:
        sides = (rows.drop(names.BATCH_ID) for rows in (wanted, alike(there, wanted)))
        if same_rows(*sides):
            return
    branch = writer.branch(events_id(writer.plan))
    wanted.drop(CONTENT).writeTo(branch).overwrite(F.lit(True))


def _brought_alone(
    writer: Writer, there: DataFrame, gone: DataFrame, floor: str | None
) -> DataFrame:
    """The stored events of `gone` that no batch brought but those that are undone.

    Up to the floor the changelog may have forgotten other batches that brought an event. There the
    batch that the stored event names decides, which was the first to bring it.
    """
    rows = there.join(gone.select(*IDENTITY), list(IDENTITY), "left_semi")
    if floor is None:
        return rows
    published = of_batches(writer.attempt.published)
    return rows.where((F.col(names.POSITION) > floor) | ~published)


def _take_out(writer: Writer, gone: DataFrame) -> None:
    rows = keep(gone.drop(CONTENT))
    if rows.isEmpty():
        return
    table = events_id(writer.plan)
    on = " AND ".join(f"t.{quoted(c)} <=> s.{quoted(c)}" for c in rows.columns)
    merge = f"MERGE INTO {writer.branch(table)} t USING"
    writer.sql(table, rows, lambda s: f"{merge} {s} s ON {on} WHEN MATCHED THEN DELETE")
