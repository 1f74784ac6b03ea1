"""Rows that an update's old half deleted in an earlier batch than that of its new half.

What only expired changes carried is nowhere but in the row, which then is only in older snapshots.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from sluice import names
from spark_jobs.canonical import by_name, in_batch, is_delete
from spark_jobs.folding.floor import Floor, standing
from spark_jobs.folding.moves import partial_keys_at
from spark_jobs.lake.reader import Reader

_ENDED: Final = "_sluice_ended"


def with_deleted_rows(
    reader: Reader, known: DataFrame, mine: DataFrame, floor: Floor, truncated_at: str | None
) -> DataFrame:
    """Return the known changes (see `floor.since_floor`) with deleted rows below all others, if the
    batch has a new half whose old half came before.

    The rows are those from before the first known delete: none that replaces expired changes was
    gone then. `mine`: the batch's own changes; `truncated_at`: the newest TRUNCATE.
    """
    position, key = F.col(names.POSITION), by_name(floor.key)
    deletes = known.where(is_delete() & (position > floor.at))
    earlier = deletes.where(~in_batch(floor.batch_id))
    if partial_keys_at(mine, earlier, floor.key).isEmpty():
        return known
    batches = {row[0] for row in earlier.select(names.BATCH_ID).distinct().collect()}
    rows = reader.rows_before(batches)
    if rows is None:
        return known
    ended = deletes.groupBy(*key).agg(F.max(position).alias(_ENDED))
    gone = rows.join(ended, list(floor.key)).where(position < F.col(_ENDED)).drop(_ENDED)
    if truncated_at is not None:
        gone = gone.where(position > truncated_at)
    baseline = standing(reader.baseline_rows(gone, floor.at), F.lit(""))
    return known.unionByName(baseline, allowMissingColumns=True)
