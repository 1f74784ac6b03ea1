"""A run's batches that wait while one of them is loaded: no other run takes them for left.

Nobody holds a landed batch in Airflow, so only the time at which the ledger was last told of it
says that its run goes on.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Final

from sluice.objects.batch_files import batch_of
from sluice.operations.waiting import repeating
from sluice_airflow.tasks import STALE, open_context

EVERY_SECONDS: Final = STALE.total_seconds() / 3


def waiting(project: str, pipeline: str, manifests: Sequence[str]) -> AbstractContextManager[None]:
    """Tell the ledger meanwhile of those of a run's batches that are not begun; of a run of one
    there are none beside the one that is loaded."""
    if len(manifests) < 2:
        return nullcontext()
    batches = [batch_of(manifest) for manifest in manifests]

    def tell() -> None:
        open_context(project, pipeline).ledger.keep_waiting(pipeline, batches)

    return repeating(tell, EVERY_SECONDS, first=0)
