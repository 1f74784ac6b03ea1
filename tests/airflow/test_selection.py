"""Which files a run takes, by its parameters, its type and its interval."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest

from sluice.errors import ConfigError
from sluice.operations.window import Window
from sluice_airflow.selection import RunSelection, select
from sluice_airflow.tasks import files_in_words

FIVE = datetime(2026, 1, 1, 5, tzinfo=UTC)
SIX = FIVE + timedelta(hours=1)
LATER = FIVE + timedelta(days=3)
WINDOW = {"window_start": "2026-01-01T02:00:00Z", "window_end": "2026-01-01T03:00:00+00:00"}
TWO_TO_THREE = Window(FIVE.replace(hour=2), FIVE.replace(hour=3))
FIVE_TO_SIX = Window(FIVE, SIX)


def test_a_scheduled_run_takes_everything_below_its_intervals_end() -> None:
    assert select({}, "scheduled", (FIVE, SIX), FIVE, SIX) == RunSelection(until=SIX)


def test_a_backfill_takes_exactly_its_interval() -> None:
    assert select({}, "backfill", (FIVE, SIX), FIVE, LATER) == RunSelection(window=FIVE_TO_SIX)


def test_a_manual_run_takes_everything_now() -> None:
    assert select({}, "manual", (FIVE, SIX), LATER, LATER) == RunSelection()
    assert select({}, "manual", None, None, LATER) == RunSelection()


def test_a_run_that_another_dag_triggers_is_one_by_hand() -> None:
    assert select({}, "operator_triggered", (FIVE, SIX), LATER, LATER) == RunSelection()
    assert select({}, "operator_triggered", (FIVE, SIX), SIX, LATER) == RunSelection(until=SIX)


def test_a_manual_run_of_the_past_takes_what_was_there_then() -> None:
    assert select({}, "manual", (FIVE, SIX), SIX, LATER) == RunSelection(until=SIX)


@pytest.mark.parametrize("run_type", ["manual", "scheduled", "backfill"])
def test_a_window_in_the_form_wins(run_type: str) -> None:
    assert select(WINDOW, run_type, (FIVE, SIX), FIVE, LATER) == RunSelection(window=TWO_TO_THREE)


def test_files_in_the_form_win() -> None:
    chosen = select({"files": ["a", "b"]}, "manual", None, None, LATER)
    assert chosen == RunSelection(files=("a", "b"))


def test_tables_in_the_form_are_for_whatever_files_the_run_takes() -> None:
    tables = {"tables": ["orders"]}
    assert select(tables, "manual", None, None, LATER) == RunSelection(tables=("orders",))
    backfill = select(tables, "backfill", (FIVE, SIX), FIVE, LATER)
    assert backfill == RunSelection(window=FIVE_TO_SIX, tables=("orders",))
    named = select({**tables, "files": ["a"]}, "manual", None, None, LATER)
    assert named == RunSelection(files=("a",), tables=("orders",))


def test_changed_files_in_the_form_are_among_whatever_files_the_run_takes() -> None:
    changed = {"changed": True}
    assert select(changed, "manual", None, None, LATER) == RunSelection(changed=True)
    backfill = select(changed, "backfill", (FIVE, SIX), FIVE, LATER)
    assert backfill == RunSelection(window=FIVE_TO_SIX, changed=True)


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"tables": ["orders"], "changed": True}, "changed files are loaded for all tables"),
        ({"window_start": "2026-01-01T02:00:00Z"}, "both of them, or neither"),
        ({**WINDOW, "window_end": "2026-01-01T02:00:00Z"}, "is not before"),
        ({**WINDOW, "window_end": "yesterday"}, "window_end: expected 2026-"),
    ],
)
def test_a_wrong_window_is_refused(params: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        select(params, "manual", None, None, LATER)


def test_a_window_is_told_in_utc() -> None:
    zone = timezone(timedelta(hours=8))
    nine = datetime(2026, 3, 2, 9, tzinfo=zone)
    told = files_in_words(RunSelection(window=Window(nine, nine + timedelta(hours=3))))
    assert told == "exactly 2026-03-02T01:00Z to 2026-03-02T04:00Z"
