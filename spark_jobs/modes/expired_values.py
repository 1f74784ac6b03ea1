"""Completion of partial changes with values that only expired changes carried.

The values come from stored states of the row: versions of the history, and the target's live row.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from sluice import names
from spark_jobs.folding.floor import Floor
from spark_jobs.folding.fold import boxed, carried, listed
from spark_jobs.folding.moves import NEW, OLD, TO
from spark_jobs.folding.versions import without_renewed
from spark_jobs.quoting import by_name, quoted
from spark_jobs.row_conditions import in_batch, is_delete

_FIRST: Final = "_sluice_first"
_CARRIED: Final = "_sluice_carried"
_CUT: Final = "_sluice_cut"
_STATE: Final = "_sluice_state"
_VALUES: Final = "_sluice_values"


def with_expired_values(
    changes: DataFrame,
    truncates: DataFrame,
    states: DataFrame,
    floor: Floor,
    data: Sequence[str],
    late: DataFrame | None = None,
) -> DataFrame:
    """Complete each key's first change above the floor with values that only expired changes
    carried.

    A column gets its value from the newest of `states` that lies before the first published change
    that carries the column. A state at or below the floor replaces the change at its position,
    since changes before it may have expired. `late`: changes to skip, as key and position (see
    `rows_changed_before_move`); `moves.with_moved_values` completes them.
    """
    key, position = floor.key, F.col(names.POSITION)
    at = [*key, names.POSITION]
    stands = states.where(position <= floor.at).select(*by_name(at))
    changes = changes.join(stands, at, "left_anti")
    values = [name for name in data if name not in key]
    changes = changes.withColumn(names.ABSENT, listed(values))
    above = changes.where(position > floor.at)
    cut = truncates.where(position > floor.at).agg(F.min(names.POSITION).alias(_CUT))
    silent = _first_carriers(above, key, values, floor.batch_id).crossJoin(F.broadcast(cut))
    if late is not None:
        late = late.withColumnRenamed(names.POSITION, _FIRST)
        silent = silent.join(late, [*key, _FIRST], "left_anti")
    known = _values(silent, states.where(position > floor.at), key, values)
    return _filled(changes, known, key, values)


def rows_changed_before_move(
    moved: DataFrame, mine: DataFrame, lowest: str, key: Sequence[str]
) -> DataFrame:
    """Return key and position of moved rows that the batch may have changed before their move.

    `mine`: the batch's changes; `lowest`: their lowest position. All keys of a row that moved
    several times are considered.
    """
    changed = mine.select(F.struct(*by_name(key)).alias(OLD)).union(moved.select(NEW))
    late = moved.where(F.col(TO) >= lowest).join(changed, OLD, "left_semi")
    return late.select(*(F.col(NEW)[k].alias(k) for k in key), F.col(TO).alias(names.POSITION))


def _first_carriers(
    above: DataFrame, key: Sequence[str], values: Sequence[str], batch_id: str
) -> DataFrame:
    """Return each key's first change, as _FIRST, and per column the first published change that
    carries it, as the struct _CARRIED; both are positions."""
    keys, position = by_name(key), F.col(names.POSITION)
    published = ~in_batch(batch_id)
    carriers = (F.min(F.when(published & carried(c), position)).alias(c) for c in values)
    return (
        without_renewed(above, keys)
        .groupBy(*keys)
        .agg(F.min(position).alias(_FIRST), F.struct(*carriers).alias(_CARRIED))
    )


def _values(
    silent: DataFrame, states: DataFrame, key: Sequence[str], values: Sequence[str]
) -> DataFrame:
    """Return key, _FIRST and _VALUES: per column a struct of `v`, or NULL if no state has one."""
    position = F.col(names.POSITION)
    row = F.struct(*(boxed(F.col(quoted(c))).alias(c) for c in values))
    joined = silent.join(states.select(*by_name(key), names.POSITION, row.alias(_STATE)), list(key))
    uncut = joined.where(F.col(_CUT).isNull() | (position < F.col(_CUT)))
    newest = (
        F.max_by(F.col(_STATE)[c], F.when(_before(position, F.col(_CARRIED)[c]), position)).alias(c)
        for c in values
    )
    return uncut.groupBy(*by_name(key), _FIRST).agg(F.struct(*newest).alias(_VALUES))


def _before(position: Column, carrier: Column) -> Column:
    return carrier.isNull() | (position < carrier)


def _filled(
    changes: DataFrame, known: DataFrame, key: Sequence[str], values: Sequence[str]
) -> DataFrame:
    first = F.coalesce(F.col(names.POSITION) == F.col(_FIRST), F.lit(False)) & ~is_delete()
    filled = {c: first & ~carried(c) & F.col(_VALUES)[c].isNotNull() for c in values}
    columns = {
        c: F.when(here, F.col(_VALUES)[c]["v"]).otherwise(F.col(quoted(c)))
        for c, here in filled.items()
    }
    given = F.array(*(F.when(here, F.lit(c)) for c, here in filled.items()))
    columns[names.ABSENT] = F.array_except(names.ABSENT, given)
    joined = changes.join(known, list(key), "left")
    return joined.withColumns(columns).select(*by_name(changes.columns))
