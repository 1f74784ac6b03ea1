"""recompute: the content that a table should have, computed from all published changes at once.

`verify` uses it to find faults of the incremental path, so it shares none of that code (fold,
resolve, merge, no_key): windows here, aggregates there. Only the content hash is shared, which by
definition decides between two events at one position.

A changelog here has the source's columns and `sluice.names.CHANGELOG_METADATA`, and only events of
published batches. The recomputed frame has the source's columns, `_op`, `_position` and KNOWN.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from sluice import names
from spark_jobs.canonical import ALL_BUT, OP_DELETE, OP_TRUNCATE, OP_UPDATE
from spark_jobs.folding.fold import content_hash
from spark_jobs.materialize import materialize
from spark_jobs.quoting import by_name, quoted

# No column of a source has one of these names.
KNOWN: Final = "_sluice_known"
RENEWED: Final = "_sluice_renewed"
_CONTENT: Final = "_sluice_content"
_TRUNCATED_AT: Final = "_sluice_truncated_at"
_PLACE: Final = "_sluice_place"
_ENDS: Final = "_sluice_ends"
_LAST: Final = "_sluice_last_"
_LIFE: Final = "_sluice_life"
_ROW: Final = "_sluice_row"
_COMES: Final = "_sluice_comes"
_ELSEWHERE: Final = "_sluice_elsewhere"
_UPSERT: Final = "_sluice_upsert"
_HALVED: Final = "_sluice_halved"
_GOING: Final = "_sluice_going"
_ALIVE: Final = "_sluice_alive"
_ALONE: Final = "_sluice_alone"
_ORIGIN: Final = "_sluice_origin"
_RANK: Final = "_sluice_rank"
_SURVIVORS: Final = "_sluice_survivors"


def recompute(
    changelog: DataFrame, key: Sequence[str], data: Sequence[str], partial: bool
) -> DataFrame:
    """Return the rows that the target (`_op` is not delete) and the tombstones should have.

    One row per key; without a key, the inserts that no delete removed. `partial`: some event left
    columns out. KNOWN is false for a row with a column that no event carried.
    """
    events = _in_force(changelog)
    if key and partial:
        found = newest(lives_filled_in(events, key, data), key)
    elif key:
        found = newest(_whole(events, data), key)
    else:
        found = _surviving(newest(_whole(events, data), [names.POSITION]), data)
    return found.select(*by_name(data), names.OP, names.POSITION, KNOWN)


def rows_of(recomputed: DataFrame) -> DataFrame:
    """Return the rows that the target should have: the source's columns and `_position`."""
    return recomputed.where(F.col(names.OP) != OP_DELETE).drop(names.OP, KNOWN)


def tombstones_of(recomputed: DataFrame, changelog: DataFrame, key: Sequence[str]) -> DataFrame:
    """Return the tombstones that the table should have: key and `_position`, with NULL keys for the
    newest TRUNCATE."""
    deleted = recomputed.where(F.col(names.OP) == OP_DELETE)
    dead = deleted.select(*by_name(key), names.POSITION)
    types = {f.name: f.dataType for f in changelog.schema}
    nulls = [F.lit(None).cast(types[k]).alias(k) for k in key]
    whole = _truncation(changelog).where(F.col(_TRUNCATED_AT).isNotNull())
    return dead.unionByName(whole.select(*nulls, F.col(_TRUNCATED_AT).alias(names.POSITION)))


def _truncation(changelog: DataFrame) -> DataFrame:
    """Return one row with the position of the newest TRUNCATE, or NULL."""
    truncates = changelog.where(F.col(names.OP) == OP_TRUNCATE)
    return truncates.agg(F.max(names.POSITION).alias(_TRUNCATED_AT))


def _in_force(changelog: DataFrame) -> DataFrame:
    """Return the changes of rows above the newest TRUNCATE."""
    changes = changelog.where(F.col(names.OP) != OP_TRUNCATE)
    marked = changes.crossJoin(F.broadcast(_truncation(changelog)))
    above = F.col(_TRUNCATED_AT).isNull() | (F.col(names.POSITION) > F.col(_TRUNCATED_AT))
    return marked.where(above).drop(_TRUNCATED_AT)


def _whole(events: DataFrame, data: Sequence[str]) -> DataFrame:
    return events.withColumns({_CONTENT: content_hash(events, data), KNOWN: F.lit(True)})


def newest(events: DataFrame, key: Sequence[str]) -> DataFrame:
    """Return each key's newest event. At one position the higher content hash wins; of repeated
    events the one with the later source time."""
    newest_first = Window.partitionBy(*by_name(key)).orderBy(
        F.col(names.POSITION).desc(), F.col(_CONTENT).desc(), F.col(names.SOURCE_TS).desc()
    )
    return events.withColumn(_RANK, F.row_number().over(newest_first)).where(F.col(_RANK) == 1)


def _surviving(once: DataFrame, data: Sequence[str]) -> DataFrame:
    """Return, of equal rows, the newest ones: as many as inserts exceed deletes."""
    inserted = F.col(names.OP) != OP_DELETE
    equal = Window.partitionBy(*by_name(data))
    survivors = F.sum(F.when(inserted, 1).otherwise(-1)).over(equal)
    newest_first = Window.partitionBy(*by_name(data), inserted).orderBy(F.desc(names.POSITION))
    ranked = once.withColumns({_SURVIVORS: survivors, _RANK: F.row_number().over(newest_first)})
    return ranked.where(inserted & (F.col(_RANK) <= F.col(_SURVIVORS)))


def lives_filled_in(events: DataFrame, key: Sequence[str], data: Sequence[str]) -> DataFrame:
    """Return every event that begins or ends a state of a row, completed from the row's earlier
    events under any key.

    KNOWN is false if a left-out column was carried by none of these.
    """
    rows = _rows(_lives(_whole(events, data), key), key)
    so_far = (
        Window.partitionBy(_ROW)
        .orderBy(names.POSITION, _CONTENT)
        .rowsBetween(Window.unboundedPreceding, Window.currentRow)
    )
    absent = [c for c in data if c not in key]
    last = {f"{_LAST}{c}": _carried_last(c).over(so_far) for c in absent}
    known = F.array_min(F.array(F.lit(True), *(F.col(quoted(c)).isNotNull() for c in last)))
    values = {c: F.col(quoted(f"{_LAST}{c}"))["v"] for c in absent}
    return rows.withColumns(last).withColumns({KNOWN: known, **values})


def _lives(events: DataFrame, key: Sequence[str]) -> DataFrame:
    """Number the lives of each key, as _LIFE: one begins at a delete, and at a row that comes from
    another key (_COMES). Deletes that end nothing (`_marks`) are dropped."""
    place, _ = _places()
    spread = _at_places(events, key)
    events_there = spread.withColumns(_marks(key)).where(F.col(_PLACE) == place)
    real = events_there.where(_upserts() | F.col(_ENDS))
    in_order = Window.partitionBy(*by_name(key)).orderBy(names.POSITION, _CONTENT)
    real = real.withColumn(_ALIVE, F.lag(_upserts(), 1, False).over(in_order))
    real = _coming(real, spread, key)
    so_far = in_order.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    return real.withColumn(_LIFE, F.count_if(F.col(_ENDS) | F.col(_COMES).isNotNull()).over(so_far))


def _at_places(events: DataFrame, key: Sequence[str]) -> DataFrame:
    """Return each event at its own place and at the one before (_PLACE), and whether its own has an
    old half (_HALVED)."""
    place, before = _places()
    # Changes that share a place in other ways may be many, so these are kept apart by their keys.
    own = (place, F.when(F.instr(names.POSITION, "~") == 0, F.struct(*by_name(key))))
    halved = F.bool_or(~_upserts()).over(Window.partitionBy(*own))
    both = F.explode(F.array_distinct(F.array(place, before)))
    return events.withColumn(_HALVED, halved).withColumn(_PLACE, both)


def _marks(key: Sequence[str]) -> dict[str, Column]:
    """Return the marks of deletes: _ENDS of those that end a life, and RENEWED.

    A delete with an upsert of the same key at the same place is the old half of an update in two
    records. It ends nothing. An upsert only counts at the place before its own if its own has no
    old half. RENEWED marks deletes that would end nothing if upserts counted at both.
    """
    place, _ = _places()
    at_place = Window.partitionBy(*by_name(key), F.col(_PLACE))
    renews = _upserts() & ((F.col(_PLACE) == place) | ~F.col(_HALVED))
    return {
        _ENDS: ~_upserts() & ~F.bool_or(renews).over(at_place),
        RENEWED: ~_upserts() & F.bool_or(_upserts()).over(at_place),
    }


def _upserts() -> Column:
    return F.col(names.OP) != OP_DELETE


def _places() -> tuple[Column, Column]:
    """Return the place of an event, and the place at which its old half may be.

    For a position with the mark `~`, the latter is the place before, whose number follows the mark.
    """
    own = F.regexp_replace(names.POSITION, r"\.[0-9]$", "")
    before = F.regexp_replace(own, r"[0-9]+~([0-9]+)$", "$1~")
    return F.regexp_replace(own, r"~[0-9]+$", "~"), before


def _record() -> Column:
    """Return the record of a half whose other half is in the same record; else ""."""
    split = F.when(_upserts(), F.col(names.OP) == OP_UPDATE).otherwise(~F.col(names.COUNTED))
    alone = split & (F.instr(names.POSITION, "~") == 0)
    return F.when(alone, F.concat_ws("#", names.ORIGIN_RECORD, names.ORIGIN_FILE)).otherwise("")


def _coming(real: DataFrame, spread: DataFrame, key: Sequence[str]) -> DataFrame:
    """Add _COMES to rows that come from another key: that key and the position of its delete.

    A row moves at a place (for an update in one record, in that record) where exactly one key goes
    and one other comes. An event's own place takes precedence over the one before. Only moves with
    left-out columns are found, since others do not matter. Without a live row at the old key
    (_ALIVE) nothing moved.
    """
    mine, at_place = Window.partitionBy(_ROW, names.POSITION), Window.partitionBy(_PLACE)
    halves = _suspects(spread).select(
        F.struct(_PLACE, _record().alias(_ORIGIN)).alias(_PLACE), names.POSITION,
        F.struct(*by_name(key)).alias(_ROW), _upserts().alias(_UPSERT),
        (F.col(_PLACE) != _places()[0]).alias(_ELSEWHERE),
    )  # fmt: skip
    origin = F.struct(F.col(_ROW).alias("key"), names.POSITION)
    goes = halves.where(~F.col(_UPSERT)).groupBy(_PLACE)
    left = halves.where(_UPSERT).join(
        goes.agg(F.min(origin).alias(_COMES), F.count_distinct(_ROW).alias(_GOING)), _PLACE
    )
    for nearest in (mine, at_place):
        first = F.min(_ELSEWHERE).over(nearest)
        left = left.withColumn(_RANK, first).where(F.col(_RANK) == F.col(_ELSEWHERE))
    alone = (F.min(_ROW).over(at_place) == F.max(_ROW).over(at_place)) & (F.col(_GOING) == 1)
    moved = left.withColumn(_ALONE, alone & (F.col(_COMES)["key"] != F.col(_ROW))).where(_ALONE)
    went = real.where(~_upserts() & F.col(_ALIVE))
    went = went.select(F.struct(F.struct(*by_name(key)).alias("key"), names.POSITION).alias(_COMES))
    moved = moved.join(went.distinct(), _COMES, "left_semi")
    found = materialize(moved.select(f"{_ROW}.*", names.POSITION, _COMES).distinct())
    return real.join(found, [*key, names.POSITION], "left")


def _suspects(spread: DataFrame) -> DataFrame:
    """Return the events at places that have both a delete and a partial event."""
    goes = spread.where(~_upserts()).select(_PLACE)
    partial = spread.where(F.col(names.ABSENT).isNotNull()).select(_PLACE)
    return spread.join(partial.join(goes, _PLACE, "left_semi").distinct(), _PLACE, "left_semi")


def _rows(lives: DataFrame, key: Sequence[str]) -> DataFrame:
    """Add _ROW, which identifies a row: its first life, under this key or an earlier one."""
    own = F.struct(F.struct(*by_name(key)).alias("key"), F.col(_LIFE).alias("life"))
    named = lives.withColumn(_ROW, own)
    come = named.where(F.col(_COMES).isNotNull()).select(_ROW, f"{_COMES}.*").distinct()
    gone = named.where(~_upserts()).select(F.col(_ROW)["key"].alias("key"), names.POSITION, _LIFE)
    ended = gone.groupBy("key", names.POSITION).agg((F.min(_LIFE) - 1).alias("life"))
    origin = F.struct("key", "life").alias(_COMES)
    steps = materialize(come.join(ended, ["key", names.POSITION]).select(_ROW, origin))
    first = _first_of(steps)
    found = named.drop(_COMES).join(first, _ROW, "left")
    return found.withColumn(_ROW, F.coalesce(_COMES, _ROW)).drop(_COMES)


def _first_of(steps: DataFrame) -> DataFrame:
    """Return the steps from _ROW to _COMES, with _COMES replaced by the first origin of each."""
    while True:
        further = steps.select(F.col(_ROW).alias(_COMES), F.col(_COMES).alias(_LIFE))
        if steps.join(further, _COMES, "left_semi").isEmpty():
            return steps
        joined = steps.join(further, _COMES, "left")
        steps = materialize(joined.select(_ROW, F.coalesce(_LIFE, _COMES).alias(_COMES)))


def _carried_last(column: str) -> Column:
    """Return the value that was carried last, or the default of a column that was added later."""
    value = F.struct(F.col(quoted(column)).alias("v"))
    carries = ~is_left_out(column) | (_lists_carried() & F.col(quoted(column)).isNotNull())
    return F.last(F.when(carries, value), ignorenulls=True)


def is_left_out(column: str) -> Column:
    """Whether an event leaves a column out. `_absent` lists either the left-out columns or, with
    ALL_BUT, the carried ones."""
    listed = F.coalesce(F.array_contains(names.ABSENT, F.lit(column)), F.lit(False))
    return listed != _lists_carried()


def _lists_carried() -> Column:
    return F.coalesce(F.array_contains(names.ABSENT, F.lit(ALL_BUT)), F.lit(False))
