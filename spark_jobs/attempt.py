"""One attempt at one batch: what its writes are marked with."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Attempt:
    """One attempt at one batch.

    `id`: "" for a preview. `branch`: the branch of every table that the attempt writes.
    `published`: the batches that count as published, since the lease was taken.
    """

    batch_id: str
    id: str
    branch: str
    published: tuple[str, ...] = ()

    @property
    def counted(self) -> tuple[str, ...]:
        """The batches whose changes count: the published ones and this one."""
        return (*self.published, self.batch_id)
