"""One try at one batch, as its writes are signed."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Attempt:
    """One try at one batch; `published`: the batches published when the lease was taken."""

    batch_id: str
    branch: str
    published: tuple[str, ...] = ()
