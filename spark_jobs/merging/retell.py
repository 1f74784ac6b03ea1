"""Stored rows by what a batch tells of their columns: on the branches of the batch."""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import DataFrame

from sluice import names
from sluice.catalog.snapshots import head
from sluice.errors import ELSEWHERE
from spark_jobs.canonical import OP_TRUNCATE, literal, quoted
from spark_jobs.folding.fold import listed_as_carried
from spark_jobs.lake.tables import TableId, events_id, target_id, tombstone_id
from spark_jobs.lake.writer import Writer
from spark_jobs.modes.gap import written_by
from spark_jobs.planning import defaults, renames
from spark_jobs.planning.defaults import Defaults, Refill
from spark_jobs.planning.renames import moves_of_rows


def clash(writer: Writer) -> str:
    """Why stored rows cannot get the names of now; '' where they can, or there are none."""
    if not _of_rows(writer):
        return ""
    found = renames.clash(writer.before.renames, writer.now.renames, writer.types)
    if found is None:
        return _standing(writer)
    one, other, stored = found
    return (
        f"{writer.plan.name}: columns {one!r} and {other!r} are both in {stored!r} of the stored "
        "rows, for a rename between them was told too late, and maintenance has forgotten changes "
        f"from which they could be made again; {ELSEWHERE}"
    )


def _standing(writer: Writer) -> str:
    """A row that is put together stands for what is forgotten by the names of its newest change: a
    rename between them would find the values under a name that they did not have. Below the floor
    as above it: whether it is between them nobody can tell. Nor can it be told, where a full load
    has an added column, whose NULL it has there."""
    floor = writer.lake.property(target_id(writer.plan), names.PROP_FLOOR)
    if not (writer.partial and floor):
        return ""
    unsure = [n for n, default in writer.defaults_between(floor).items() if default.ambiguous]
    if writer.renames_told_late():
        what = "a rename of its columns"
    elif unsure:
        what = f"the default of columns {unsure}, which full loads have too,"
    else:
        return ""
    return (
        f"{writer.plan.name}: {what} was told later than changes above it, which do not carry all "
        f"columns, and maintenance has forgotten those up to {floor}, to which they belong; "
        f"{ELSEWHERE}"
    )


def rename(writer: Writer) -> None:
    """Give stored rows the names of now, before anything else is written on the branches."""
    now = writer.now.renames
    for table in _of_rows(writer):
        before = written_by(writer, table)
        if before.renames == now:
            continue
        # A default is of the column that it was told of, whatever that is called since.
        _fill(writer, table, _refills(writer, before.held(), defaults.NO_DEFAULTS))
        listed = {names.ABSENT: "array<string>"} if table == events_id(writer.plan) else {}
        values = moves_of_rows(before.renames, now, {**writer.types, **listed}, "t.")
        if values:
            _update(writer, table, writer.lake.spark.range(1), values)
        loaded = writer.lake.load(table)
        begun = None if loaded is None else head(loaded, writer.attempt.branch)
        if begun is not None:
            writer.begun[table] = begun


def _of_rows(writer: Writer) -> list[TableId]:
    """Target, history and events, where they hold rows."""
    filled = [table for table, base in writer.bases.items() if base.snapshot is not None]
    return [table for table in filled if table != tombstone_id(writer.plan)]


def fill(writer: Writer) -> None:
    """Give stored rows what they hold in columns that came after them, by all that is told."""
    now = writer.now
    for table in _of_rows(writer):
        before = written_by(writer, table)
        rows = writer.lake.rows(table, writer.bases[table].snapshot)
        there = () if rows is None or before.renames != now.renames else rows.columns
        held = {name: default for name, default in before.held().items() if name in there}
        _fill(writer, table, _refills(writer, held, now.held()))
    _note(writer)


def _refills(writer: Writer, before: Defaults, now: Defaults) -> list[Refill]:
    types = {n: kind for n, kind in writer.types.items() if n not in writer.plan.key}
    return defaults.refills(before, now, types)


def _fill(writer: Writer, table: TableId, refills: list[Refill]) -> None:
    """The batch's own rows are filled already, and may hold such a value of their own."""
    if not refills:
        return
    told = defaults.as_row(writer.lake.spark, refills)
    among = f"t.{names.BATCH_ID} <> {literal(writer.attempt.batch_id)}"
    values = {refill.name: refill.value for refill in refills}
    if table == events_id(writer.plan):
        among += f" AND t.{names.OP} <> {literal(OP_TRUNCATE)}"
        values = {column: _where_said(column, value) for column, value in values.items()}
    _update(writer, table, told, values, among)


def _where_said(column: str, value: str) -> str:
    """An event says nothing of a column that it left out, nor of one that came later."""
    return f"CASE WHEN {listed_as_carried(column, 't.')} THEN {value} ELSE t.{quoted(column)} END"


def _update(
    writer: Writer, table: TableId, one: DataFrame, values: Mapping[str, str], among: str = "true"
) -> None:
    """Set columns of the stored rows (`t`) where they hold something else, by the row `one` (`s`);
    `values` and `among`, which of the rows, in SQL."""
    sets = ", ".join(f"t.{quoted(column)} = {value}" for column, value in values.items())
    changed = " OR ".join(f"NOT (t.{quoted(c)} <=> {value})" for c, value in values.items())
    branch = writer.branch(table)
    writer.sql(
        table,
        one,
        lambda source: (
            f"MERGE INTO {branch} t USING {source} s ON {among} AND ({changed}) "
            f"WHEN MATCHED THEN UPDATE SET {sets}"
        ),
    )


def _note(writer: Writer) -> None:
    """Where the batch tells something, the target gets a snapshot to publish that with."""
    if writer.now == writer.before:
        return
    target = target_id(writer.plan)
    branch, loaded = writer.branch(target), writer.lake.load(target)
    if loaded and head(loaded, writer.attempt.branch) == writer.bases[target].snapshot:
        writer.lake.spark.table(target.sql()).limit(0).writeTo(branch).append()
