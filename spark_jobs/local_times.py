"""The local time of an instant in a time zone, and its date.

An instant has one local time, also where clocks are put back. The session's time zone has to be
UTC.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column
from pyspark.sql import functions as F

from spark_jobs.evaluated_once import bound

# Next to the ends of 64 bits of microseconds shifting an instant would fail the batch.
_MOST: Final = 2**63 - 86_400_000_000


def local_time(instant: Column, zone: str) -> Column:
    """Return the `timestamp_ntz` of an instant; NULL within a day of the ends of the range."""
    return bound(_within(instant), lambda one: F.from_utc_timestamp(one, zone)).cast(
        "timestamp_ntz"
    )


def local_date(instant: Column, zone: str) -> Column:
    """Return the date that begins with an instant; NULL for an instant within a day.

    A day begins later if its midnight is in a gap, because clocks were put forward.
    """
    return bound(_within(instant), lambda one: _day(one, F.from_utc_timestamp(one, zone), zone))


def _day(instant: Column, local: Column, zone: str) -> Column:
    midnight = F.date_trunc("DAY", local)
    begins = (midnight == local) | (F.to_utc_timestamp(midnight, zone) == instant)
    return F.when(begins, midnight.cast("date"))


def _within(instant: Column) -> Column:
    return F.when(F.unix_micros(instant).between(-_MOST, _MOST), instant)
