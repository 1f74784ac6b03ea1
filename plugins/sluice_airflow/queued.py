"""A run's batches that wait while one of them is loaded: no other run takes them for left.

Nobody holds a landed batch in Airflow, so only the time at which the ledger was last told of it
says that its run goes on.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Final

from sluice.objects.batchfiles import batch_of
from sluice_airflow.tasks import STALE, open_context

EVERY_SECONDS: Final = STALE.total_seconds() / 3


@contextmanager
def waiting(project: str, pipeline: str, manifests: Sequence[str]) -> Iterator[None]:
    """Tell the ledger meanwhile of those of the batches that are not begun."""
    stop = threading.Event()
    batches = [batch_of(manifest) for manifest in manifests]
    thread = threading.Thread(target=_tell, args=(project, pipeline, batches, stop), daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def _tell(project: str, pipeline: str, batches: list[str], stop: threading.Event) -> None:
    while not stop.is_set():
        with suppress(Exception):  # what is not told of is another run's, in the end
            open_context(project, pipeline).ledger.keep_waiting(pipeline, batches)
        stop.wait(EVERY_SECONDS)
