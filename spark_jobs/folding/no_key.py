"""Tables without a key: equal rows are counted, as inserts minus deletes over distinct positions.

An inserted row is identified by its position, so repeated events coincide. The data do not show
which of several equal rows a delete removes; the newest ones stay. Positions contain a hash of the
row's content, or the event's id. Of two contents with one id, that with the greater hash counts.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from sluice import names
from sluice.result import Counts
from spark_jobs.canonical import OP_DELETE, OP_INSERT
from spark_jobs.folding.fold import content_hash
from spark_jobs.quoting import by_name, quoted
from spark_jobs.row_conditions import is_delete

_DELETES: Final = "_sluice_deletes"
_INSERTS: Final = "_sluice_inserts"
_RANK: Final = "_sluice_rank"
_ROW: Final = "_sluice_row"
_THEIRS: Final = "_sluice_theirs"


@dataclass(frozen=True)
class NoKeyChanges:
    """The batch's changes (`rows`), the rest of the changelog (`others`), and the columns of a
    row's content (`data`).

    `truncated_at`: position of the newest TRUNCATE. `anew`: all rows have to be counted again,
    because of a TRUNCATE in the batch or a default that makes rows equal.
    """

    rows: DataFrame
    others: DataFrame
    data: tuple[str, ...]
    truncated_at: str | None
    anew: bool


@dataclass(frozen=True)
class RowOutcome:
    """Rows to insert (`_op` insert) or to remove (`_op` delete), by `_position`.

    With `anew` these are all rows of the table.
    """

    counts: Counts
    instances: DataFrame
    append_only: bool = False
    anew: bool = False

    def living(self) -> DataFrame:
        """Return the rows to insert, as rows of the target."""
        return self.instances.where(~is_delete()).drop(names.OP)


def plan_rows(changes: NoKeyChanges) -> RowOutcome:
    """Drop repeated events, then pair deletes with inserts for every content of the batch that was
    ever deleted."""
    data, mine = changes.data, _once(changes.rows, changes.data)
    fresh = _fresh(mine, changes.others)
    counts = _counts(changes, fresh)
    columns = by_name((*data, names.OP, *names.TARGET_METADATA))
    if changes.anew or (counts.duplicate and _contradicts(mine, changes)):
        everything = _once(changes.others.unionByName(changes.rows, True), data)
        ranked = _ranked(_above_truncation(everything, changes.truncated_at), data)
        return RowOutcome(counts, ranked.select(*columns), anew=True)
    history = _above_truncation(_once(changes.others, data), changes.truncated_at)
    living = _above_truncation(fresh, changes.truncated_at)
    everything = history.unionByName(living, True)
    deletes = everything.where(is_delete())
    if deletes.isEmpty():
        return RowOutcome(counts, living.select(*columns), append_only=True)
    paired = _paired(everything, deletes, living, data)
    untouched = _anti(living.where(~is_delete()), deletes, data)
    return RowOutcome(counts, untouched.select(*columns).unionByName(paired.select(*columns)))


def _fresh(rows: DataFrame, known: DataFrame) -> DataFrame:
    return rows.join(known.select(names.POSITION), names.POSITION, "left_anti")


def _once(rows: DataFrame, data: tuple[str, ...]) -> DataFrame:
    """Return one event for each position: that with the greatest content hash."""
    greatest = F.max_by(F.struct(*by_name(rows.columns)), content_hash(rows, data))
    return rows.groupBy(names.POSITION).agg(greatest.alias(_ROW)).select(f"{_ROW}.*")


def _contradicts(mine: DataFrame, changes: NoKeyChanges) -> bool:
    """Whether an event differs from a known event with the same id."""
    named = mine.where(F.col(names.EVENT_ID).isNotNull())
    hashed = named.select(names.POSITION, content_hash(named, changes.data).alias(_ROW))
    theirs = content_hash(changes.others, changes.data).alias(_THEIRS)
    met = hashed.join(changes.others.select(names.POSITION, theirs), names.POSITION)
    return not met.where(F.col(_ROW) != F.col(_THEIRS)).isEmpty()


def _counts(changes: NoKeyChanges, fresh: DataFrame) -> Counts:
    read = changes.rows.where(F.col(names.COUNTED)).count()
    applied = fresh.where(F.col(names.COUNTED)).count()
    return Counts(read=read, applied=applied, duplicate=read - applied)


def _above_truncation(rows: DataFrame, truncated_at: str | None) -> DataFrame:
    return rows if truncated_at is None else rows.where(F.col(names.POSITION) > truncated_at)


def _same(left: DataFrame, right: DataFrame, data: tuple[str, ...]) -> list[Column]:
    return [left[quoted(c)].eqNullSafe(right[quoted(c)]) for c in data]


def _contents(rows: DataFrame, data: tuple[str, ...]) -> DataFrame:
    # Aliases give new ids: the frame is joined with itself.
    return rows.select(*(F.col(quoted(c)).alias(c) for c in data)).distinct()


def _anti(rows: DataFrame, deletes: DataFrame, data: tuple[str, ...]) -> DataFrame:
    content = _contents(deletes, data).alias("d")
    return rows.join(content, _same(rows, content, data), "left_anti")


def _paired(
    everything: DataFrame, deletes: DataFrame, touched: DataFrame, data: tuple[str, ...]
) -> DataFrame:
    """Return all rows with a content that is in `touched` and was ever deleted, marked to
    stay or to go."""
    contents = _contents(touched, data)
    deleted = _contents(deletes, data)
    both = contents.join(deleted, _same(contents, deleted, data), "left_semi")
    return _ranked(everything.join(both, _same(everything, both, data), "left_semi"), data)


def _ranked(rows: DataFrame, data: tuple[str, ...]) -> DataFrame:
    """Mark inserted rows: of equal ones the newest stay, as many as inserts exceed deletes."""
    content = Window.partitionBy(*by_name(data))
    ranked = rows.withColumns(
        {
            _DELETES: F.count_if(is_delete()).over(content),
            _INSERTS: F.count_if(~is_delete()).over(content),
            _RANK: F.row_number().over(content.orderBy(is_delete(), F.col(names.POSITION).desc())),
        }
    )
    stays = F.col(_RANK) <= F.col(_INSERTS) - F.col(_DELETES)
    op = F.when(stays, F.lit(OP_INSERT)).otherwise(F.lit(OP_DELETE))
    return ranked.where(~is_delete()).withColumn(names.OP, op)
