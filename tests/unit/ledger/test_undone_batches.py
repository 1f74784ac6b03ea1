"""What an undo ends: that its batch is half published, its publications and its claims."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sluice.errors import HalfwayError
from sluice.ledger.leases import Lease, this_holder
from sluice.ledger.ledger import PipelineLedger
from sluice.ledger.rows import Publication
from sluice.ledger.states import (
    FAILED,
    FILE_HELD,
    FILE_LOADED,
    FILE_RELEASED,
    INTENT,
    LANDED,
    PUBLISHED,
    PUBLISHING,
    ROLLED_BACK,
)
from tests.unit.ledger_rows import claim

pytestmark = pytest.mark.catalog


def test_a_batch_that_is_undone_and_lands_again_is_half_published_no_more(
    ledger: PipelineLedger,
) -> None:
    lease = Lease(this_holder(), 60)
    ledger.batches.record("b1", PUBLISHING, attempt="a1")
    ledger.lease.acquire("b1", "a2", lease, is_half_published=lambda: True)
    ledger.batches.record("b1", FAILED)
    with pytest.raises(HalfwayError, match="b1 is half published"):
        ledger.lease.acquire("b2", "a1", lease)
    for state in (ROLLED_BACK, LANDED):
        ledger.batches.record("b1", state)
    ledger.lease.acquire("b2", "a1", lease)


def test_publications_from_before_an_undo_count_no_more(ledger: PipelineLedger) -> None:
    first = Publication("p", "b1", "a1", "shop", "t", 1, 0, 2, "batch_b1_a1")
    for state in (INTENT, PUBLISHED, ROLLED_BACK):
        ledger.publications.record([replace(first, state=state)])
    assert ledger.publications.since_undo("b1") == []
    ledger.publications.record([replace(first, attempt="a2", head_snapshot=3)])
    assert [[p.attempt for p in one] for one in ledger.publications.since_undo("b1")] == [["a2"]]


def test_files_that_were_claimed_again_since_they_were_read_are_not_marked(
    ledger: PipelineLedger,
) -> None:
    """Files that are released and landed again are another publication of the same batch."""
    batch, _ = claim(ledger, "a", "b")
    seen = frozenset(ledger.files.of_batch(batch))
    ledger.files.mark(batch, FILE_HELD)
    ledger.files.mark(batch, FILE_RELEASED)
    assert claim(ledger, "a", "b")[0] == batch
    assert ledger.files.mark(batch, FILE_LOADED, seen) == 0
    assert ledger.files.mark(batch, FILE_LOADED, frozenset(ledger.files.of_batch(batch))) == 2
