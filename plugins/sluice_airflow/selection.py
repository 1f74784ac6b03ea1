"""Which files a run loads: by the form's parameters, a backfill's interval, or the schedule."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, Final

from croniter import croniter

from sluice.errors import ConfigError
from sluice.operations.selection import Selection
from sluice.operations.window import Window, as_utc

BACKFILL: Final = "backfill"
BY_HAND: Final = ("manual", "operator_triggered")
# A run by hand whose logical date is this near to its triggering means "now".
NOW: Final = timedelta(minutes=10)
# The bounds of a window as the form calls them, and as a conf does.
_FROM: Final = "From (window_start)"
_TO: Final = "To (window_end)"


@dataclass(frozen=True)
class DagRunFacts:
    """What a DAG run says about the files that it takes.

    `triggered`: when it was triggered, however long its task has waited. `schedule`: the DAG's.
    """

    type: str
    interval: tuple[datetime, datetime] | None
    logical_date: datetime | None
    triggered: datetime
    schedule: str | None


def select(params: dict[str, Any], run: DagRunFacts) -> Selection:
    """Select by parameters first, then by the run's type; never by the logical date's hour.

    A scheduled and a manual run of one logical date have different data intervals.
    """
    files, tables = (_lines(params.get(name)) for name in ("files", "tables"))
    window, changed = _window(params), bool(params.get("changed"))
    if files or window:
        return Selection(window=window, files=files, tables=tables, changed=changed)
    return replace(_by_run(run), tables=tables, changed=changed)


def _lines(field: Sequence[str] | None) -> tuple[str, ...]:
    """Return the lines of a form's field; what is pasted often ends with an empty one."""
    return tuple(line for line in field or () if line.strip())


def _by_run(run: DagRunFacts) -> Selection:
    if run.interval is None:
        return Selection()
    if run.type == BACKFILL:
        return Selection(window=Window(*run.interval))
    start, end = run.interval
    if run.type not in BY_HAND or run.logical_date is None:
        return Selection(until=end)
    if _is_now(run.logical_date, run.triggered) and _is_last(run.interval, run):
        return Selection()
    # Airflow's command line and TriggerDagRunOperator give a date of the past the interval of now.
    return Selection(until=run.logical_date if run.logical_date < start else end)


def _window(params: dict[str, Any]) -> Window | None:
    start, end = params.get("window_start"), params.get("window_end")
    if not start and not end:
        return None
    if not start or not end:
        raise ConfigError(f"{_FROM} and {_TO}: expected both of them, or neither")
    return Window.between(_instant(_FROM, start), _instant(_TO, end), (_FROM, _TO))


def _instant(name: str, text: str) -> datetime:
    try:
        return as_utc(datetime.fromisoformat(text))
    except ValueError as error:
        raise ConfigError(f"{name}: expected 2026-01-31T05:00:00Z, got {text!r}") from error


def _is_now(logical_date: datetime, triggered: datetime) -> bool:
    return abs(triggered - logical_date) <= NOW


def _is_last(interval: tuple[datetime, datetime], run: DagRunFacts) -> bool:
    """Whether the interval is the one that Airflow gives a run without an interval of its own: the
    last complete one of the schedule, or an empty one without a schedule."""
    start, end = interval
    if run.schedule is None:
        return start == end
    following: datetime = croniter(run.schedule, end).get_next(datetime)
    # The API takes the interval from the logical date, the command line from the time of now.
    dated = run.logical_date or run.triggered
    return following > min(dated, run.triggered)
