"""The mark of a rollback: on all of its batches, or on none."""

from __future__ import annotations

import pytest
from pyiceberg.catalog.sql import SqlCatalog

from sluice.ledger.leases import Lease
from sluice.ledger.ledger import Ledger, PipelineLedger
from sluice.ledger.rows import BatchRow
from sluice.ledger.states import PUBLISHED, PUBLISHING, ROLLED_BACK, ROLLING_BACK

pytestmark = pytest.mark.catalog


@pytest.fixture
def ledger(catalog: SqlCatalog) -> PipelineLedger:
    ledger = Ledger(catalog).of("p")
    ledger.batches.record("b1", PUBLISHED, attempt="a1", add_details={"read": 3})
    ledger.batches.record("b2", PUBLISHING, attempt="a1", lease=Lease("elsewhere:1:1", 60))
    ledger.batches.record("b3", ROLLED_BACK, attempt="a1")
    return ledger


def is_there(row: BatchRow) -> bool:
    return row.state != ROLLED_BACK


def mark(ledger: PipelineLedger, *batches: str) -> str:
    return ledger.batches.mark_rolling_back(batches, "mine", is_there, lambda _: None, {})


def states(ledger: PipelineLedger) -> dict[str, str]:
    return {row.batch_id: row.state for row in ledger.batches.all()}


def test_all_batches_are_marked_in_one_commit(ledger: PipelineLedger) -> None:
    assert mark(ledger, "b1", "b2") == ""
    assert states(ledger) == {"b1": ROLLING_BACK, "b2": ROLLING_BACK, "b3": ROLLED_BACK}
    first, second = (ledger.batches.get(batch) for batch in ("b1", "b2"))
    assert first is not None
    assert second is not None
    assert (first.seq, first.attempt, first.details) == (second.seq, "mine", {"read": 3})
    assert (second.attempt, second.holder) == ("mine", "")


@pytest.mark.parametrize("other", ["b3", "unknown"])
def test_no_batch_is_marked_if_one_may_not_be_undone(ledger: PipelineLedger, other: str) -> None:
    before = states(ledger)
    assert mark(ledger, "b1", other, "b2") == other
    assert states(ledger) == before
