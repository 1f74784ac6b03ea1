"""Clocks for tests of waiting and of leases, and what fails for a moment."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


class Clock:
    """Replaces `time`; whoever sleeps moves it."""

    def __init__(self) -> None:
        self.now = 0.0
        self.slept: list[float] = []
        self._events: list[Callable[[], object]] = []

    def meanwhile(self, *events: Callable[[], object]) -> None:
        """Let these events happen, one with each sleep."""
        self._events += events

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds
        if self._events:
            self._events.pop(0)()


def fails_once(error: Exception, action: Callable[..., object]) -> Callable[..., None]:
    """What raises the error when it is called first, and does something from then on."""
    errors = iter([error])

    def call(*args: object) -> None:
        for found in errors:
            raise found
        action()

    return call


class FastClock:
    """The time of day, ahead by as much as a test moves it."""

    def __init__(self) -> None:
        self.ahead = timedelta()

    def __call__(self) -> datetime:
        return datetime.now(UTC) + self.ahead


class FrozenClock:
    """A clock for the time of day that stands still until it is moved."""

    def __init__(self) -> None:
        self.now = NOON

    def __call__(self) -> datetime:
        return self.now

    def forward(self, seconds: float) -> None:
        self.now += timedelta(seconds=seconds)
