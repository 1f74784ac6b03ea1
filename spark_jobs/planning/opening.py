"""The opening of an epoch that begins with a full load: a TRUNCATE of each table before its rows.

An operator declares the full load (`full_loads` of the pipeline). Every batch that has events of
such an epoch for a table also has the table's opening among its changes, always at the same
position. So it follows from the set of events alone, and does not depend on any one batch, which
may be rolled back. A table without events of the epoch keeps its rows.
"""

from __future__ import annotations

from dataclasses import dataclass

from sluice.config.pipeline import Pipeline
from sluice.positions import epoch_prefix, opening_position


@dataclass(frozen=True)
class Opening:
    """An epoch that begins with a full load, with the start time that the operator gave."""

    epoch: int
    at: str

    @property
    def position(self) -> str:
        """The lowest position of the epoch."""
        return opening_position(self.epoch)

    def stored_by(self, truncated_at: str | None) -> bool:
        """Whether a table has the opening, judged by the position of its newest TRUNCATE.

        Any TRUNCATE of the epoch proves it: its batch brought the opening too.
        """
        return truncated_at is not None and truncated_at.startswith(epoch_prefix(self.epoch))


def opening_of(pipeline: Pipeline) -> Opening | None:
    """Return the opening of the pipeline's current epoch; None unless it is declared
    a full load."""
    declared = (one for one in pipeline.full_loads if one.epoch == pipeline.epoch)
    return next((Opening(one.epoch, one.at) for one in declared), None)
