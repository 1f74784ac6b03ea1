"""When a verification began, and the report that it ends with."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime

from sluice.verification import TableReport, Verification
from spark_jobs.lake.cut import Cut


@dataclass(frozen=True)
class Begun:
    """A verification of a pipeline that has begun, by the calendar and by a steady clock."""

    pipeline: str
    at: datetime = field(default_factory=lambda: datetime.now(UTC))
    clock: float = field(default_factory=time.monotonic)

    def report(
        self,
        cut: Cut,
        tables: Iterable[TableReport],
        notes: Iterable[str],
        source: str | None = None,
    ) -> Verification:
        """Return the report of the tables, as they were at the cut; `source`: see there."""
        return Verification(
            pipeline=self.pipeline,
            at=f"{self.at:%Y-%m-%dT%H:%M:%SZ}",
            batches=len(cut.published),
            tables=tuple(tables),
            notes=tuple(notes),
            seconds=round(time.monotonic() - self.clock, 2),
            source=source,
        )
