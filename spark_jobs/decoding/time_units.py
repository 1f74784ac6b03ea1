"""Notes on hinted time columns whose values suggest another unit than the hint's.

A number of microseconds that is read as milliseconds is a valid time, tens of thousands of years
ahead, and seconds that are read as milliseconds are days of January 1970. The counts are aggregates
of a pass that exists already; no value is changed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from pyspark.sql import Column
from pyspark.sql import functions as F

from sluice import names
from sluice.counting import are, counted
from sluice.types.columns import TIME_UNITS, ColumnType, parse_type
from spark_jobs.planning.plan import TablePlan
from spark_jobs.quoting import quoted

_INSTANTS: Final = ("timestamp", "timestamp_ntz", "date")
_MICROS: Final = {"s": 1e6, "ms": 1e3, "us": 1.0, "ns": 1e-3}
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_DAY: Final = timedelta(days=1) / timedelta(microseconds=1)
# Bounds the aggregates: a table may have thousands of columns.
_MOST_COLUMNS: Final = 20


def _micros(year: int) -> float:
    return (datetime(year, 1, 1, tzinfo=UTC) - _EPOCH) / timedelta(microseconds=1)


# Many sources write 9999-12-31 for no end, which a unit of a thousandth makes 1978.
_YEAR_ONE, _FIRST, _LATE = _micros(1971), _micros(1980), _micros(2200)


@dataclass(frozen=True)
class _Timed:
    """A column that is read by a hint with a unit; `index`: its place among these."""

    index: int
    name: str
    hint: ColumnType
    stored: str

    def micros(self) -> Column:
        """Return the value in microseconds since 1970."""
        value = F.col(quoted(self.name))
        if self.stored == "date":
            return F.unix_date(value).cast("double") * _DAY
        return F.unix_micros(value.cast("timestamp")).cast("double")

    def others(self) -> dict[str, float]:
        """Return the other units, and what a value that is read by the hint is multiplied by."""
        mine = _MICROS[self.hint.encoding]
        return {unit: of / mine for unit, of in _MICROS.items() if unit != self.hint.encoding}

    def alias(self, what: str) -> str:
        """Return the name of one of the column's counts."""
        return f"timed_{self.index}_{what}"

    def spelled(self, unit: str = "") -> str:
        """Return the hint, or the hint with another unit."""
        kind = self.hint if not unit else replace(self.hint, encoding=unit)
        return f"{kind.name}[{kind.how}]"


def counts(plan: TablePlan, fits: Column) -> list[Column]:
    """Return the counts of each hinted time column: values, those after 2200 and in 1970, and of
    both those that another unit puts between 1980 and 2200; and the least of both.

    `fits`: whether the record is loaded.
    """
    return [count for one in _timed(plan) for count in _counts(one, fits & F.col(names.COUNTED))]


def found(plan: TablePlan, numbers: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the notes that follow from the results of `counts`."""
    return tuple(note for one in _timed(plan) for note in _doubts(plan, one, numbers))


def _counts(one: _Timed, counted: Column) -> Iterator[Column]:
    micros = one.micros()
    late, early = micros >= _LATE, (micros > 0) & (micros < _YEAR_ONE)
    odd = counted & (late | early)
    yield F.count_if(counted & micros.isNotNull()).alias(one.alias("all"))
    yield F.count_if(counted & late).alias(one.alias("late"))
    yield F.count_if(counted & early).alias(one.alias("early"))
    yield F.min(F.when(odd, micros)).alias(one.alias("least"))
    for unit, factor in one.others().items():
        within = (micros * factor).between(_FIRST, _LATE)
        yield F.count_if(odd & within).alias(one.alias(unit))


def _doubts(plan: TablePlan, one: _Timed, numbers: Mapping[str, Any]) -> Iterator[str]:
    every, late, early = (int(numbers[one.alias(c)] or 0) for c in ("all", "late", "early"))
    fitting = {unit: int(numbers[one.alias(unit)] or 0) for unit in one.others()}
    unit = max(fitting, key=lambda name: fitting[name])
    if 2 * (late + early) <= every or 2 * fitting[unit] <= late + early:
        return
    where = f"{late:,} of {counted(every, 'value')} {are(late)} after 2200"
    if early > late:
        where = f"{early:,} of {counted(every, 'value')} {are(early)} in 1970"
    yield (
        f"{plan.source.name}: {one.name}: {where} with {one.spelled()}; {one.spelled(unit)} would "
        f"give {_day(numbers[one.alias('least')] * one.others()[unit])}: is the unit right?"
    )


def _day(micros: float) -> str:
    """Return the day of a time as text; a damaged value may be of no year that a day can have."""
    try:
        return f"{_EPOCH + timedelta(microseconds=micros):%Y-%m-%d}…"
    except OverflowError:
        return "dates from 1980 to 2200"


def _timed(plan: TablePlan) -> list[_Timed]:
    hints = {name.lower(): parse_type(hint) for name, hint in plan.config.columns.items()}
    timed: list[_Timed] = []
    for column in plan.columns:
        hint = next((hints[n.lower()] for n in column.spellings if n.lower() in hints), None)
        instant = hint is not None and hint.name in _INSTANTS and hint.encoding in TIME_UNITS
        if hint is not None and instant and column.stored.name in _INSTANTS and not column.rule:
            timed.append(_Timed(len(timed), column.name, hint, column.stored.name))
    return timed[:_MOST_COLUMNS]
