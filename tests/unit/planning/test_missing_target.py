"""Whether a target without rows was dropped, or was never published."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from sluice.errors import PlanError
from sluice.ledger.rows import Publication
from sluice.ledger.states import FAILED, PUBLISHED
from spark_jobs.decoding.missing_target import refuse_missing_target
from spark_jobs.lake.table_id import TableId
from tests.unit.projects import open_shop

pytestmark = pytest.mark.catalog


def test_it_was_published_if_a_published_batch_wrote_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not one of the other tables, and not one that failed; nothing is made of other rows."""
    ctx = open_shop(tmp_path)
    empty = SimpleNamespace(metadata=SimpleNamespace(refs={}))
    lake: Any = SimpleNamespace(catalog=ctx.catalog, pipeline="shop", load=lambda _: empty)
    for batch, name, state in (("b1", "orders", PUBLISHED), ("b2", "users", FAILED)):
        row = Publication("shop", batch, "a1", "shop", name, None, 0, 1, "batch_1")
        ctx.ledger.publications.record([row])
        ctx.ledger.batches.record(batch, state)
    monkeypatch.setattr(Publication, "__init__", None)
    with pytest.raises(PlanError, match="orders is gone"):
        refuse_missing_target(lake, TableId("shop", "orders"))
    refuse_missing_target(lake, TableId("shop", "users"))
    refuse_missing_target(lake, TableId("shop", "notes"))
