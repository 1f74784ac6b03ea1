"""Completion of partial updates in tables without a key, whose rows are identified by all values.

A value that an update did not send comes from its old row, which the source of such a table sends
in full (PostgreSQL's REPLICA IDENTITY FULL).
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from sluice.positions import HALF_MARK
from spark_jobs.canonical import IMAGE_TYPE, UPDATES, lists_carried
from spark_jobs.formats.common.envelope import any_repeats_column

_SENT: Final = "_sluice_sent"
_OLD: Final = "_sluice_old"


def completed(events: DataFrame) -> DataFrame:
    """Return the events with `after` completed; `absent` then names the columns that stay unknown.

    `absent` is NULL for a complete row. If an update lists what it sent, a column that both images
    lack is not counted as absent. A column that only the old row lacks is unknown, since the row to
    delete would be a guess. For an update in two records the old row is in the other record.
    """
    absent, before = F.col("absent"), F.coalesce("before", F.create_map().cast(IMAGE_TYPE))
    listed = lists_carried(absent)
    partial = F.col("op").isin(*UPDATES) & absent.isNotNull()
    partial &= ~any_repeats_column(F.col("before"), F.col("after"))
    sent = F.map_filter("after", lambda name, _: _is_sent(name, absent, listed))
    parts = events.withColumn(_SENT, F.when(partial, sent)).withColumn(_OLD, before)
    rest = F.map_filter(_OLD, lambda name, _: ~F.map_contains_key(_SENT, name))
    one_record = ~F.coalesce(F.col("position").contains(HALF_MARK), F.lit(False))
    lost = F.when(listed, F.when(one_record, F.map_keys(_SENT))).otherwise(absent)
    lost = F.filter(lost, lambda name: ~F.map_contains_key(_OLD, name))
    whole = {
        "after": F.when(partial, F.map_concat(_SENT, rest)).otherwise(F.col("after")),
        "absent": F.when(F.size(lost) > 0, lost),
    }
    return parts.withColumns(whole).drop(_SENT, _OLD)


def _is_sent(name: Column, absent: Column, listed: Column) -> Column:
    named = F.array_contains(absent, name)
    return F.when(listed, named).otherwise(~named)
