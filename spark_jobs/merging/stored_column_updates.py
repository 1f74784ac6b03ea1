"""Renames and defaults of columns that a batch brings, applied to stored rows on its branches."""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import DataFrame

from sluice import names
from sluice.catalog.snapshots import head
from sluice.errors import ELSEWHERE
from spark_jobs.canonical import OP_TRUNCATE
from spark_jobs.folding.fold import listed_as_carried
from spark_jobs.lake.table_id import TableId, events_id, target_id, tombstone_id
from spark_jobs.lake.writer import Writer
from spark_jobs.modes.mode_gaps import written_by
from spark_jobs.planning import defaults
from spark_jobs.planning.defaults import DefaultChange, Defaults
from spark_jobs.quoting import literal, quoted


def why_not_renamable(writer: Writer) -> str:
    """Return why stored rows cannot get their current column names; "" if they can."""
    if not _of_rows(writer):
        return ""
    found = writer.now.clash(writer.before, writer.types)
    if found is None:
        return _why_too_late(writer)
    one, other, stored = found
    return (
        f"{writer.plan.name}: columns {one!r} and {other!r} are both in {stored!r} of the stored "
        "rows, because the DDL between them came too late, and maintenance has forgotten changes "
        f"from which they could be rebuilt; {ELSEWHERE}"
    )


def _why_too_late(writer: Writer) -> str:
    """Return why late DDL cannot be applied to a table with partial rows and a floor; "" if it can.

    A late rename: a stored row merges changes from before and after it, so it is unclear which
    value belongs to which name. A late default: where full loads have the column too, its NULL may
    be a value of theirs.
    """
    floor = writer.lake.floor(target_id(writer.plan))
    if not (writer.partial and floor):
        return ""
    unsure = [n for n, default in writer.defaults_between(floor).items() if default.ambiguous]
    if writer.has_late_renames():
        what = "a rename of its columns"
    elif unsure:
        what = f"the default of columns {unsure}, which full loads have too,"
    else:
        return ""
    return (
        f"{writer.plan.name}: {what} came later than changes above it, which do not carry all "
        f"columns, and maintenance has forgotten those up to {floor}, to which they belong; "
        f"{ELSEWHERE}"
    )


def rename_stored(writer: Writer) -> None:
    """Rename columns of stored rows; comes before anything else is written to the branches."""
    now = writer.now
    for table in _of_rows(writer):
        before = written_by(writer, table)
        if now.names_as(before):
            continue
        # A default belongs to its column, whatever the column is called later.
        _fill(
            writer, table, _default_changes(writer, before.current_defaults(), defaults.NO_DEFAULTS)
        )
        listed = {names.ABSENT: "array<string>"} if table == events_id(writer.plan) else {}
        moved = now.renamed_values(before, {**writer.types, **listed}, "t.")
        values = {column: value for column, value in moved.items() if column not in writer.going}
        if values:
            _update(writer, table, writer.lake.spark.range(1), values)
        loaded = writer.lake.load(table)
        begun = None if loaded is None else head(loaded, writer.attempt.branch)
        if begun is not None:
            writer.begun[table] = begun


def _of_rows(writer: Writer) -> list[TableId]:
    """Return those of target, history and events table that hold rows."""
    filled = [table for table, base in writer.bases.items() if base.snapshot is not None]
    return [table for table in filled if table != tombstone_id(writer.plan)]


def fill_defaults(writer: Writer, anew: bool = False) -> None:
    """Fill columns that were added later than a stored row with their known defaults.

    `anew`: the rows were rebuilt from changes, so none has a default from before to take back.
    """
    now = writer.now
    for table in _of_rows(writer):
        before = written_by(writer, table)
        rows = writer.lake.rows(table, writer.bases[table].snapshot)
        there = () if anew or rows is None or not now.names_as(before) else rows.columns
        held = {
            name: default for name, default in before.current_defaults().items() if name in there
        }
        _fill(writer, table, _default_changes(writer, held, now.current_defaults()))
    _ensure_snapshot(writer)


def _default_changes(writer: Writer, before: Defaults, now: Defaults) -> list[DefaultChange]:
    left_alone = {*writer.plan.key, *writer.going}
    types = {n: kind for n, kind in writer.types.items() if n not in left_alone}
    return defaults.default_changes(before, now, types)


def _fill(writer: Writer, table: TableId, changed: list[DefaultChange]) -> None:
    """Fill stored rows of other batches; the batch's own rows have their defaults already."""
    if not changed:
        return
    literals = defaults.literals_row(writer.lake.spark, changed)
    among = f"t.{names.BATCH_ID} <> {literal(writer.attempt.batch_id)}"
    values = {one.name: one.value for one in changed}
    if table == events_id(writer.plan):
        among += f" AND t.{names.OP} <> {literal(OP_TRUNCATE)}"
        values = {column: _if_carried(column, value) for column, value in values.items()}
    _update(writer, table, literals, values, among)


def _if_carried(column: str, value: str) -> str:
    """Return SQL that sets the value only in events that carry the column."""
    return f"CASE WHEN {listed_as_carried(column, 't.')} THEN {value} ELSE t.{quoted(column)} END"


def _update(
    writer: Writer, table: TableId, one: DataFrame, values: Mapping[str, str], among: str = "true"
) -> None:
    """Set columns of stored rows (`t`) that differ from `values`.

    `values`: column → SQL, which may use the one row of `one` as `s`. `among`: SQL that selects the
    rows.
    """
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


def _ensure_snapshot(writer: Writer) -> None:
    """Make sure that the target has a snapshot to publish if the batch changes
    renames or defaults, or columns go."""
    if writer.now == writer.before and not writer.going:
        return
    target = target_id(writer.plan)
    writer.branch(target)
    loaded = writer.lake.load(target)
    if loaded and head(loaded, writer.attempt.branch) == writer.bases[target].snapshot:
        writer.append(target, writer.lake.spark.table(target.sql()).limit(0))
