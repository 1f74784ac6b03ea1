"""Keep a run's waiting batches from being taken over while one of them is loaded.

Airflow does not hold a landed batch: only the time of its last row in the ledger shows that its run
is still going on.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Final

from sluice.objects.batch_files import batch_of
from sluice.operations.waiting import repeating
from sluice_airflow.tasks import STALE, open_context

EVERY_SECONDS: Final = STALE.total_seconds() / 3


def waiting(
    project_dir: str, pipeline: str, manifests: Sequence[str]
) -> AbstractContextManager[None]:
    """Record in the ledger, while this block runs, that the run's other batches are still waiting;
    a run of one batch has none."""
    if len(manifests) < 2:
        return nullcontext()
    batches = [batch_of(manifest) for manifest in manifests]

    def keep_waiting() -> None:
        open_context(project_dir, pipeline).ledger.batches.keep_waiting(batches)

    return repeating(keep_waiting, EVERY_SECONDS, first=0)
