"""A clock for tests of waiting."""

from __future__ import annotations

from collections.abc import Callable


class Clock:
    """Stands in for `time`; whoever sleeps moves it."""

    def __init__(self) -> None:
        self.now = 0.0
        self.slept: list[float] = []
        self._events: list[Callable[[], object]] = []

    def meanwhile(self, *events: Callable[[], object]) -> None:
        """Let these happen, one with each sleep."""
        self._events += events

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds
        if self._events:
            self._events.pop(0)()
