"""Windows of hours, as the command line's options, the form and the runs of a DAG name them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime

from sluice.errors import ConfigError


@dataclass(frozen=True)
class Window:
    """Hours from `start`, inclusive, to `end`, exclusive."""

    start: datetime
    end: datetime

    @classmethod
    def between(
        cls, start: datetime | None, end: datetime | None, names: tuple[str, str]
    ) -> Window:
        """From and to what a person names, without a bound where that is None; `names`: what the
        two are called there.

        Raises ConfigError for a window that nothing fits in.
        """
        window = cls(as_utc(start or datetime.min), as_utc(end or datetime.max))
        if window.start >= window.end:
            raise ConfigError(f"{names[0]} {start} is not before {names[1]} {end}")
        return window

    def holds(self, moment: datetime) -> bool:
        """True when the hour that begins at `moment` is inside."""
        return self.start <= moment < self.end


def as_utc(moment: datetime) -> datetime:
    """A time as a person names it: of UTC where no zone is told."""
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
