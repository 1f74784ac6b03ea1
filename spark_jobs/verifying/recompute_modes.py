"""recompute for the modes: the versions and events that a table should have.

Independent of the incremental path, as `recompute` is.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from sluice import names
from spark_jobs.canonical import OP_DELETE, OP_TRUNCATE
from spark_jobs.folding.fold import content_hash
from spark_jobs.quoting import by_name, quoted
from spark_jobs.verifying.recompute import KNOWN, RENEWED, is_left_out, lives_filled_in, newest

CONTENT: Final = "_sluice_said"
TIMED: Final = "_sluice_timed"
"""Whether the end time of a version is certain. Where a delete or TRUNCATE came several times with
different times, the table may have any of these."""
_ERA: Final = "_sluice_era"
_END: Final = "_sluice_end"
_MOMENT: Final = (names.POSITION, names.SOURCE_TS, TIMED)
# Above every position.
_STILL: Final = "~"
_RANK: Final = "_sluice_rank"
_CHANGE: Final = "_sluice_change"


def versions_of(changelog: DataFrame, key: Sequence[str], data: Sequence[str]) -> DataFrame:
    """Return every version of every row: `data`, the history's other columns, KNOWN and TIMED.

    A TRUNCATE ends all rows: below and above it a key belongs to different rows. As in the table, a
    version ends at the change that follows it where its delete is RENEWED.
    """
    row_key = [_ERA, *key]
    filled = lives_filled_in(_eras(changelog), row_key, data).where(~F.col(RENEWED))
    at_place = Window.partitionBy(*by_name([*row_key, names.POSITION]))
    sure = (F.col(names.OP) != OP_DELETE) | (F.size(_times().over(at_place)) == 1)
    timed = filled.withColumn(TIMED, sure)
    events = newest(timed, [*row_key, names.POSITION])
    following = Window.partitionBy(*by_name(row_key)).orderBy(names.POSITION)
    end = F.coalesce(F.lead(F.struct(*_MOMENT)).over(following), F.col(_END))
    found = events.withColumn(_END, end).where(F.col(names.OP) != OP_DELETE)
    return found.select(*by_name(data), names.POSITION, KNOWN, *_ends())


def _times() -> Column:
    """Return the distinct source times of events; a missing time counts as one of them."""
    return F.collect_set(F.struct(names.SOURCE_TS))


def _ends() -> list[Column]:
    end = F.col(_END)
    return [
        F.col(names.SOURCE_TS).alias(names.VALID_FROM),
        end[names.SOURCE_TS].alias(names.VALID_TO),
        end.isNull().alias(names.IS_CURRENT),
        end[names.POSITION].alias(names.POSITION_TO),
        F.coalesce(end[TIMED], F.lit(True)).alias(TIMED),
    ]


def _eras(changelog: DataFrame) -> DataFrame:
    """Return the changes of rows, with the position (_ERA) and the end (_END) of the first TRUNCATE
    at or above each."""
    changes = changelog.where(F.col(names.OP) != OP_TRUNCATE)
    changes = changes.withColumn(_CHANGE, F.monotonically_increasing_id())
    joined = changes.join(F.broadcast(_truncates(changelog)), F.col(_ERA) >= F.col(names.POSITION))
    first = Window.partitionBy(_CHANGE).orderBy(_ERA)
    ranked = joined.withColumn(_RANK, F.row_number().over(first)).where(F.col(_RANK) == 1)
    return ranked.drop(_RANK, _CHANGE)


def _truncates(changelog: DataFrame) -> DataFrame:
    """Return the TRUNCATEs as ends of eras, _ERA and _END, with one more row for the era that
    has not ended."""
    truncates = changelog.where(F.col(names.OP) == OP_TRUNCATE).groupBy(names.POSITION)
    ends = truncates.agg(
        F.min(names.SOURCE_TS).alias(names.SOURCE_TS), (F.size(_times()) == 1).alias(TIMED)
    )
    ended = ends.select(F.col(names.POSITION).alias(_ERA), F.struct(*_MOMENT).alias(_END))
    still = changelog.sparkSession.range(1).select(F.lit(_STILL).alias(_ERA))
    return ended.unionByName(still, allowMissingColumns=True)


def newest_versions(versions: DataFrame, key: Sequence[str]) -> DataFrame:
    """Return the last version of every key, as in a target with soft deletes."""
    last = Window.partitionBy(*by_name(key)).orderBy(F.desc(names.POSITION))
    ranked = versions.withColumn(_RANK, F.row_number().over(last)).where(F.col(_RANK) == 1)
    deleted = F.col(names.POSITION_TO).isNotNull()
    marks = {
        names.IS_DELETED: deleted,
        names.DELETED_POSITION: F.col(names.POSITION_TO),
        names.DELETED_AT: F.col(names.VALID_TO),
    }
    return ranked.drop(_RANK).withColumns(marks)


def events_of(changelog: DataFrame, data: Sequence[str]) -> DataFrame:
    """Return every event once: `data`, `_op`, `_position` and CONTENT, a hash that distinguishes
    events at one position."""
    hashed = with_content(changelog, data)
    one = Window.partitionBy(names.POSITION, names.OP, CONTENT).orderBy(names.BATCH_ID)
    ranked = hashed.withColumn(_RANK, F.row_number().over(one)).where(F.col(_RANK) == 1)
    return ranked.select(*by_name(data), names.OP, names.POSITION, CONTENT)


def with_content(events: DataFrame, data: Sequence[str]) -> DataFrame:
    """Return events with CONTENT, and NULL in the columns that they leave out; a TRUNCATE
    has no values."""
    truncates = F.col(names.OP) == OP_TRUNCATE
    silent = {c: truncates | is_left_out(c) for c in data}
    carried_values = {c: F.when(~nothing, F.col(quoted(c))) for c, nothing in silent.items()}
    plain = events.withColumns(carried_values)
    return plain.withColumn(CONTENT, content_hash(plain, data))
