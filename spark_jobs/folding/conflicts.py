"""Conflicts: events of one key at one position with different content.

A content hash decides between them, whatever the order of arrival. No source writes such events, so
a repeated or missing position is reported.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from sluice import names
from sluice.positions import HALF_MARK
from sluice.result import Conflicts
from spark_jobs.folding.fold import content_hash
from spark_jobs.folding.resolve import MINE
from spark_jobs.quoting import by_name

_THEIRS: Final = "_sluice_theirs"
_CONTENTS: Final = "_sluice_contents"


def located(
    found: Conflicts, rows: DataFrame, key: Sequence[str], data: Sequence[str]
) -> Conflicts:
    """Return the counted conflicts with the lowest position of one among the batch's
    changes, `rows`."""
    if not found.records or found.at is not None:
        return found
    counted = rows.where(F.col(names.COUNTED))
    contents = F.count_distinct(content_hash(counted, data)).alias(_CONTENTS)
    places = counted.groupBy(*by_name(key), names.POSITION).agg(contents)
    lowest = places.where(F.col(_CONTENTS) > 1).agg(F.min(names.POSITION)).first()
    return Conflicts(found.records, None if lowest is None else lowest[0])


def with_published(
    unlike: DataFrame, published: DataFrame, key: Sequence[str], data: Sequence[str]
) -> Conflicts:
    """Return the changes of `unlike` that conflict with a published change at their position.

    A differing stored row proves no conflict: it may have a default, or columns of other changes.
    New halves of updates in two records are left out, since they carry more when their old half
    arrives in the same batch.
    """
    theirs = content_hash(published, data).alias(_THEIRS)
    others = published.select(*by_name(key), names.POSITION, theirs)
    whole = unlike.where(~F.col(names.POSITION).contains(HALF_MARK))
    mine = whole.select(*by_name(key), names.POSITION, MINE)
    met = mine.join(others, [*key, names.POSITION]).where(F.col(MINE) != F.col(_THEIRS))
    conflicting = met.select(*by_name(key), names.POSITION).distinct()
    found = conflicting.agg(F.count("*"), F.min(names.POSITION)).first()
    return Conflicts() if found is None else Conflicts(*found)
