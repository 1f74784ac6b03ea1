"""What an undo ends: that its batch is half published, and the publications from before."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sluice.ledger.leases import Lease, this_holder
from sluice.ledger.ledger import PipelineLedger
from sluice.ledger.rows import Publication
from sluice.ledger.states import FAILED, INTENT, LANDED, PUBLISHED, PUBLISHING, ROLLED_BACK

pytestmark = pytest.mark.catalog


def test_a_batch_that_is_undone_and_lands_again_is_half_published_no_more(
    ledger: PipelineLedger,
) -> None:
    lease = Lease(this_holder(), 60)
    ledger.batches.record("b1", PUBLISHING, attempt="a1")
    ledger.lease.acquire("b1", "a2", lease, is_half_published=lambda: True)
    for state in (FAILED, ROLLED_BACK, LANDED):
        ledger.batches.record("b1", state)
    ledger.lease.acquire("b2", "a1", lease)


def test_publications_from_before_an_undo_count_no_more(ledger: PipelineLedger) -> None:
    first = Publication("p", "b1", "a1", "shop", "t", 1, 0, 2, "batch_b1_a1")
    for state in (INTENT, PUBLISHED, ROLLED_BACK):
        ledger.publications.record([replace(first, state=state)])
    assert ledger.publications.since_undo("b1") == []
    ledger.publications.record([replace(first, attempt="a2", head_snapshot=3)])
    assert [[p.attempt for p in one] for one in ledger.publications.since_undo("b1")] == [["a2"]]
