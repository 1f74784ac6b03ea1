"""Windows of hours, as the command line, the form of a DAG and its runs give them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime

from sluice.errors import ConfigError


@dataclass(frozen=True)
class Window:
    """The hours from `start`, inclusive, to `end`, exclusive."""

    start: datetime
    end: datetime

    @classmethod
    def between(
        cls, start: datetime | None, end: datetime | None, names: tuple[str, str]
    ) -> Window:
        """Make a window of two times, None for no bound; `names`: what the user calls them.

        Raises ConfigError for an empty window.
        """
        window = cls(as_utc(start or datetime.min), as_utc(end or datetime.max))
        if window.start >= window.end:
            raise ConfigError(f"{names[0]} {start} is not before {names[1]} {end}")
        return window

    def holds(self, moment: datetime) -> bool:
        """Whether the hour that begins at `moment` is inside."""
        return self.start <= moment < self.end


def as_utc(moment: datetime) -> datetime:
    """Return the time with its zone: UTC if it has none."""
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
