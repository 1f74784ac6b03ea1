"""Places: positions by which the two halves of an update, in separate records, are matched."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from sluice import names
from sluice.positions import HALF_MARK, ROLE_OLD
from spark_jobs.canonical import OP_UPDATE
from spark_jobs.row_conditions import is_delete

ENDED: Final = "_sluice_ended"
_PLACE: Final = "_sluice_place"
# Valid in both Java and Python.
_ROLE: Final = r"((?<=~)\d+)?\.\d$"
_TWO_NUMBERS: Final = r"\d+~(\d+)\.\d$"


def position_place() -> Column:
    """Return the position without the number of the half (old or new), as both halves have it."""
    return F.regexp_replace(names.POSITION, _ROLE, "")


def places() -> Column:
    """Return an array of one or two places at which the other half of an update may be.

    The first is the position without the number of the half. Some formats do not say whether both
    halves share a number or have successive ones: there a new half is at `….n~m.1`, with `m` the
    number before `n`, and an old half at `….n~.0`. Such a new half has a second place, with `m`.
    """
    earlier = F.regexp_replace(names.POSITION, _TWO_NUMBERS, "$1~")
    two = F.col(names.POSITION).rlike(r"~\d+\.\d$")
    return F.when(two, F.array(position_place(), earlier)).otherwise(F.array(position_place()))


def meeting_places() -> Column:
    """Return `places`; for an update whose halves are in one record, its position with file and
    record.

    Without the record, changes that share a place, such as changes of two logs, could be matched
    wrongly.
    """
    is_old = is_delete()
    one_record = F.when(is_old, ~F.col(names.COUNTED)).otherwise(F.col(names.OP) == OP_UPDATE)
    one_record &= ~F.col(names.POSITION).contains(HALF_MARK)
    own = F.concat_ws(" ", position_place(), names.ORIGIN_FILE, names.ORIGIN_RECORD)
    return F.when(one_record, F.array(own)).otherwise(places())


def ends_by_place(changes: DataFrame, keys: Sequence[Column]) -> DataFrame:
    """Return one row per key and place: ENDED, the position of the delete there, or NULL.

    An update in two records begins with a delete, its old half. If the new half, at the same place,
    has the same key, nothing was deleted.
    """
    deleted = is_delete()
    last = F.max(F.when(deleted, F.col(names.POSITION)))
    ended = F.when(F.count_if(~deleted) == 0, last)
    spread = changes.withColumn(_PLACE, F.explode(places()))
    return spread.groupBy(*keys, _PLACE).agg(ended.alias(ENDED))


def old_halves(position: str) -> list[str]:
    """Return the one or two positions that the old half of a new half may have (see `places`)."""
    earlier = re.sub(_TWO_NUMBERS, r"\1~", position)
    found = [re.sub(_ROLE, "", position), earlier]
    return [f"{at}.{ROLE_OLD}" for at in found[: 1 if earlier == position else 2]]
