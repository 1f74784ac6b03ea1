"""refold of what a table's modes make beside its rows: every version, and every event, once.

Written plainly and of itself, as `refold` is, and by its rules.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from sluice import names
from spark_jobs.canonical import OP_DELETE, OP_TRUNCATE, by_name, quoted
from spark_jobs.folding.fold import content_hash
from spark_jobs.folding.refold import KNOWN, left_out, lives_filled_in, newest

CONTENT: Final = "_sluice_said"
_ERA: Final = "_sluice_era"
# Above every position.
_STILL: Final = "~"
_RANK: Final = "_sluice_rank"
_CHANGE: Final = "_sluice_change"


def versions_of(changelog: DataFrame, key: Sequence[str], data: Sequence[str]) -> DataFrame:
    """Every version of every row: `data`, `_position`, `_position_to`, `_is_current`, KNOWN.

    A TRUNCATE ends the lives of all keys: below and above it a key is another row's.
    """
    eras = _eras(changelog)
    whose = [_ERA, *key]
    events = newest(lives_filled_in(eras, whose, data), [*whose, names.POSITION])
    following = Window.partitionBy(*by_name(whose)).orderBy(names.POSITION)
    era_ends = F.when(F.col(_ERA) != _STILL, F.col(_ERA))
    until = F.coalesce(F.lead(names.POSITION).over(following), era_ends)
    found = events.withColumn(names.POSITION_TO, until).where(F.col(names.OP) != OP_DELETE)
    current = F.col(names.POSITION_TO).isNull().alias(names.IS_CURRENT)
    return found.select(*by_name(data), names.POSITION, names.POSITION_TO, current, KNOWN)


def _eras(changelog: DataFrame) -> DataFrame:
    """The changes of rows with the position of the first TRUNCATE at or above them."""
    truncates = changelog.where(F.col(names.OP) == OP_TRUNCATE)
    ends = truncates.select(F.col(names.POSITION).alias(_ERA)).distinct()
    changes = changelog.where(F.col(names.OP) != OP_TRUNCATE)
    changes = changes.withColumn(_CHANGE, F.monotonically_increasing_id())
    ends = ends.unionByName(changelog.sparkSession.range(1).select(F.lit(_STILL).alias(_ERA)))
    joined = changes.join(F.broadcast(ends), F.col(_ERA) >= F.col(names.POSITION))
    first = Window.partitionBy(_CHANGE).orderBy(_ERA)
    ranked = joined.withColumn(_RANK, F.row_number().over(first)).where(F.col(_RANK) == 1)
    return ranked.drop(_RANK, _CHANGE)


def newest_versions(versions: DataFrame, key: Sequence[str]) -> DataFrame:
    """The last version of every key, as a target with soft deletes has it."""
    last = Window.partitionBy(*by_name(key)).orderBy(F.desc(names.POSITION))
    ranked = versions.withColumn(_RANK, F.row_number().over(last)).where(F.col(_RANK) == 1)
    deleted = F.col(names.POSITION_TO).isNotNull()
    marks = {names.IS_DELETED: deleted, names.DELETED_POSITION: F.col(names.POSITION_TO)}
    return ranked.drop(_RANK).withColumns(marks)


def events_of(changelog: DataFrame, data: Sequence[str]) -> DataFrame:
    """Every event once: `data`, `_op`, `_position`, and CONTENT, which tells those at one apart."""
    told = told_apart(changelog, data)
    one = Window.partitionBy(names.POSITION, names.OP, CONTENT).orderBy(names.BATCH_ID)
    ranked = told.withColumn(_RANK, F.row_number().over(one)).where(F.col(_RANK) == 1)
    return ranked.select(*by_name(data), names.OP, names.POSITION, CONTENT)


def told_apart(events: DataFrame, data: Sequence[str]) -> DataFrame:
    """Events with CONTENT; one says nothing of what it left out, a TRUNCATE of nothing."""
    truncates = F.col(names.OP) == OP_TRUNCATE
    silent = {c: truncates | left_out(c) for c in data}
    said = {c: F.when(~nothing, F.col(quoted(c))) for c, nothing in silent.items()}
    plain = events.withColumns(said)
    return plain.withColumn(CONTENT, content_hash(plain, data))
