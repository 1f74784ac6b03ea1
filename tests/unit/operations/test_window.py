"""Windows of hours, as people name them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest

from sluice.errors import ConfigError
from sluice.operations.window import Window

FIVE = datetime(2026, 3, 1, 5, tzinfo=UTC)
SIX = FIVE + timedelta(hours=1)
NAMES = ("--from", "--to")


def test_times_without_a_zone_are_utc() -> None:
    naive = (FIVE.replace(tzinfo=None), SIX.replace(tzinfo=None))
    assert Window.between(*naive, NAMES) == Window(FIVE, SIX)
    there = FIVE.astimezone(timezone(timedelta(hours=2)))
    assert Window.between(there, SIX, NAMES) == Window(FIVE, SIX)


def test_window_without_an_end_is_open_on_that_side() -> None:
    assert Window.between(FIVE, None, NAMES).holds(SIX + timedelta(days=9999))
    assert Window.between(None, FIVE, NAMES).holds(FIVE - timedelta(days=9999))


@pytest.mark.parametrize("end", [FIVE, FIVE - timedelta(hours=1)])
def test_a_window_that_nothing_fits_in_is_refused(end: datetime) -> None:
    with pytest.raises(ConfigError, match=r"--from 2026-03-01 .* is not before --to 2026-03-01 "):
        Window.between(FIVE, end, NAMES)
