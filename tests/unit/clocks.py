"""A clock for tests of waiting."""

from __future__ import annotations


class Clock:
    """Stands in for `time`; whoever sleeps moves it."""

    def __init__(self) -> None:
        self.now = 0.0
        self.slept: list[float] = []

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds
