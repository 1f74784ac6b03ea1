"""The result: read as written; counts that add up and counts that do not."""

from __future__ import annotations

import json
from typing import Any
from unittest.mock import Mock

import pytest

from sluice.errors import AuditFailedError
from sluice.operations.maintenance import MaintenanceResult
from sluice.operations.preview import Forecast
from sluice.result import BatchResult, Counts, StagedTable, TableResult
from sluice.verification import Verification
from spark_jobs.merging.audit import audit, refuse_lost


def test_result_survives_json() -> None:
    staged = StagedTable("shop", "orders", "batch_b_a", None, 7, 0, created=True)
    table = TableResult("db.orders", "shop.orders", Counts(read=2, applied=2), (staged,), "2024")
    result = BatchResult("p", "b", "a", (table,), Counts(read=1, ignored=1), 1.5)
    assert BatchResult.from_json(result.to_json()) == result
    empty = BatchResult("p", "b", "a", ())
    assert BatchResult.from_json(empty.to_json()) == empty


def test_every_record_has_one_outcome() -> None:
    whole = Counts(read=21, applied=1, superseded=2, duplicate=3, late=4, ignored=5, quarantined=6)
    assert whole.balanced
    assert Counts().balanced
    assert not Counts(read=1).balanced
    assert not Counts(applied=1).balanced


def test_counts_that_do_not_add_up_name_the_batch_and_how_to_give_it_up() -> None:
    job, plan, odd = Mock(), Mock(), Counts(read=1)
    job.pipeline.name, job.manifest.batch_id, plan.name = "p", "b1", "shop.orders"
    plan.summary.total = 2
    table = TableResult("db.orders", "shop.orders", odd)
    for check in (
        lambda: audit(job, BatchResult("p", "b1", "a", (table,))),
        lambda: audit(job, BatchResult("p", "b1", "a", (), odd)),
        lambda: refuse_lost(job, plan, odd),
    ):
        with pytest.raises(AuditFailedError, match=r"batch b1: .*sluice rollback p --batch b1"):
            check()


def test_counts_add() -> None:
    assert Counts(read=1, late=1) + Counts(read=2, applied=2) == Counts(read=3, late=1, applied=2)


@pytest.mark.parametrize(
    ("kind", "raw"),
    [
        (BatchResult, {"pipeline": "p", "batch_id": "b", "attempt": "a", "tables": []}),
        (Forecast, {}),
        (MaintenanceResult, {"pipeline": "p", "dry_run": True, "steps": []}),
        (Verification, {"pipeline": "p", "at": "now", "batches": 1, "tables": []}),
    ],
)
def test_another_sluice_may_have_written_less_or_more(kind: Any, raw: dict[str, Any]) -> None:
    """Upgrades find results of before, and a way back finds those of after."""
    assert kind.from_json(json.dumps({**raw, "newer": 1})) == kind.from_json(json.dumps(raw))
    assert isinstance(kind.from_json(json.dumps(raw)), kind)


def test_invalid_result_is_refused() -> None:
    raw = {"pipeline": "p", "batch_id": "b", "attempt": 7, "tables": []}
    with pytest.raises(ValueError, match="attempt"):
        BatchResult.from_json(json.dumps(raw))
