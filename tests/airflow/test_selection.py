"""Which files a run takes, by its parameters, its type and its interval."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from functools import partial

import pytest

from sluice.errors import ConfigError
from sluice.operations.selection import Selection
from sluice.operations.window import Window
from sluice_airflow.landing import files_in_words
from sluice_airflow.selection import DagRunFacts, select

FIVE = datetime(2026, 1, 1, 5, tzinfo=UTC)
SIX = FIVE + timedelta(hours=1)
LATER = FIVE + timedelta(days=3)
WINDOW = {"window_start": "2026-01-01T02:00:00Z", "window_end": "2026-01-01T03:00:00+00:00"}
TWO_TO_THREE = Window(FIVE.replace(hour=2), FIVE.replace(hour=3))
FIVE_TO_SIX = Window(FIVE, SIX)
hourly = partial(DagRunFacts, schedule="@hourly")
NOW = hourly("manual", None, None, LATER)


def test_a_scheduled_run_takes_everything_below_its_intervals_end() -> None:
    assert select({}, hourly("scheduled", (FIVE, SIX), FIVE, SIX)) == Selection(until=SIX)


def test_a_backfill_takes_exactly_its_interval() -> None:
    backfill = hourly("backfill", (FIVE, SIX), FIVE, LATER)
    assert select({}, backfill) == Selection(window=FIVE_TO_SIX)


@pytest.mark.parametrize("run_type", ["manual", "operator_triggered"])
def test_a_run_by_hand_takes_everything_now(run_type: str) -> None:
    """With its logical date Airflow gives it the last complete interval of the schedule."""
    now = SIX + timedelta(minutes=59)
    assert select({}, hourly(run_type, (FIVE, SIX), now, now)) == Selection()
    assert select({}, hourly(run_type, None, None, LATER)) == Selection()


def test_an_interval_may_end_between_the_date_of_now_and_the_trigger() -> None:
    """As where a form was open for some minutes."""
    dated, triggered = LATER - timedelta(seconds=30), LATER + timedelta(seconds=30)
    interval = (LATER - timedelta(hours=2), LATER - timedelta(hours=1))
    assert select({}, hourly("manual", interval, dated, triggered)) == Selection()


@pytest.mark.parametrize("schedule", ["0 9 * * 1-5", None])
def test_a_run_by_hand_takes_everything_now_whatever_the_schedule(schedule: str | None) -> None:
    """On a Sunday, the last complete interval ended on Friday; without a schedule it is empty."""
    friday, sunday = datetime(2026, 1, 2, 9, tzinfo=UTC), datetime(2026, 1, 4, 12, tzinfo=UTC)
    interval = (friday - timedelta(days=1), friday) if schedule else (sunday, sunday)
    assert select({}, DagRunFacts("manual", interval, sunday, sunday, schedule)) == Selection()


@pytest.mark.parametrize("run_type", ["manual", "operator_triggered"])
def test_manual_run_of_a_past_date_selects_files_until_that_date(run_type: str) -> None:
    assert select({}, hourly(run_type, (FIVE, SIX), SIX, LATER)) == Selection(until=SIX)
    assert select({}, hourly(run_type, (FIVE, SIX), FIVE, LATER)) == Selection(until=SIX)


@pytest.mark.parametrize("schedule", ["@hourly", None])
def test_a_date_of_the_past_counts_where_airflow_gives_it_the_interval_of_now(
    schedule: str | None,
) -> None:
    """As `airflow dags trigger --logical-date` and TriggerDagRunOperator do."""
    interval = (LATER - timedelta(hours=1), LATER) if schedule else (LATER, LATER)
    past = DagRunFacts("manual", interval, SIX, LATER, schedule)
    assert select({}, past) == Selection(until=SIX)


@pytest.mark.parametrize("schedule", ["@hourly", None])
def test_an_interval_that_is_given_with_a_run_of_now_counts(schedule: str | None) -> None:
    """As a POST to Airflow's API may give it."""
    given = DagRunFacts("manual", (FIVE, SIX), LATER, LATER, schedule)
    assert select({}, given) == Selection(until=SIX)


@pytest.mark.parametrize("run_type", ["manual", "scheduled", "backfill"])
def test_a_window_in_the_form_wins(run_type: str) -> None:
    run = hourly(run_type, (FIVE, SIX), FIVE, LATER)
    assert select(WINDOW, run) == Selection(window=TWO_TO_THREE)


def test_files_in_the_form_win() -> None:
    chosen = select({"files": ["a", "b"]}, NOW)
    assert chosen == Selection(files=("a", "b"))


def test_empty_lines_in_the_form_are_no_names() -> None:
    """A text that is pasted into a field ends with one."""
    chosen = select({"files": ["a.jsonl", ""], "tables": ["public.orders", " "]}, NOW)
    assert chosen == Selection(files=("a.jsonl",), tables=("public.orders",))
    assert select({"files": [""], "tables": [""]}, NOW) == Selection()


def test_tables_in_the_form_are_for_whatever_files_the_run_takes() -> None:
    tables = {"tables": ["orders"]}
    assert select(tables, NOW) == Selection(tables=("orders",))
    backfill = select(tables, hourly("backfill", (FIVE, SIX), FIVE, LATER))
    assert backfill == Selection(window=FIVE_TO_SIX, tables=("orders",))
    named = select({**tables, "files": ["a"]}, NOW)
    assert named == Selection(files=("a",), tables=("orders",))


def test_changed_files_in_the_form_are_among_whatever_files_the_run_takes() -> None:
    changed = {"changed": True}
    assert select(changed, NOW) == Selection(changed=True)
    backfill = select(changed, hourly("backfill", (FIVE, SIX), FIVE, LATER))
    assert backfill == Selection(window=FIVE_TO_SIX, changed=True)


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"tables": ["orders"], "changed": True}, "changed files are loaded for all tables"),
        (
            {"window_start": "2026-01-01T02:00:00Z"},
            r"From \(window_start\) and To \(window_end\): ",
        ),
        ({**WINDOW, "window_end": "2026-01-01T02:00:00Z"}, "is not before"),
        ({**WINDOW, "window_end": "yesterday"}, r"To \(window_end\): expected 2026-"),
    ],
)
def test_a_wrong_window_is_refused(params: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        select(params, NOW)


def test_window_is_shown_in_utc() -> None:
    zone = timezone(timedelta(hours=8))
    nine = datetime(2026, 3, 2, 9, tzinfo=zone)
    shown = files_in_words(Selection(window=Window(nine, nine + timedelta(hours=3))))
    assert shown == "exactly 2026-03-02T01:00Z to 2026-03-02T04:00Z"
