"""A cut of a pipeline's tables is refused while a batch is in some of them alone."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from sluice.catalog.client import open_catalog
from sluice.errors import TransientError
from sluice.ledger.details import HALF_PUBLISHED
from sluice.ledger.ledger import Ledger
from sluice.ledger.states import FAILED, PUBLISHED, PUBLISHING, ROLLING_BACK
from spark_jobs.lake.cut import Cutter
from tests.unit.projects import empty_lake

pytestmark = pytest.mark.catalog


@pytest.fixture
def cutter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Cutter:
    monkeypatch.setattr("spark_jobs.lake.cut._PAUSE_SECONDS", 0.0)
    catalog = open_catalog(empty_lake(tmp_path))
    return Cutter(catalog, Ledger(catalog).of("p"), "shop")


@pytest.mark.parametrize(
    ("state", "way"),
    [
        (PUBLISHING, "sluice reconcile p"),
        (ROLLING_BACK, "sluice reconcile p"),
        (FAILED, "sluice run p (or sluice rollback p --batch half)"),
    ],
)
def test_half_published_batch_is_named_with_the_command_that_completes_it(
    cutter: Cutter, state: str, way: str
) -> None:
    """Reconcile goes on with no batch that failed."""
    cutter.ledger.batches.record("half", state, replace_details={HALF_PUBLISHED: True})
    with pytest.raises(TransientError, match=rf"\(half\).*interrupted: {re.escape(way)}$"):
        cutter.cut([])


def test_a_published_batch_keeps_nobody_waiting(cutter: Cutter) -> None:
    cutter.ledger.batches.record("whole", PUBLISHED)
    assert cutter.cut([]).published == ("whole",)
