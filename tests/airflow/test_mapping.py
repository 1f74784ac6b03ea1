"""If there are more batches than Airflow maps over, a run loads some, and later runs the others."""

from __future__ import annotations

from pathlib import Path

import pytest

from sluice.ledger.states import FAILED, LANDED
from sluice.operations.context import Context
from sluice_airflow.mapping import mappable
from tests.unit.projects import open_shop

BATCHES = tuple(f"2026030{day}T00-{day:012x}" for day in range(1, 6))


@pytest.fixture
def context(tmp_path: Path) -> Context:
    return open_shop(tmp_path)


def taken(context: Context) -> list[str]:
    keys = [context.files.manifest_key("shop", batch) for batch in reversed(BATCHES)]
    return [key.split("/")[-2] for key in mappable(context, keys)]


def test_run_loads_the_first_batches_by_id(
    context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AIRFLOW__CORE__MAX_MAP_LENGTH", "3")
    assert taken(context) == list(BATCHES[:3])
    monkeypatch.setenv("AIRFLOW__CORE__MAX_MAP_LENGTH", "5")
    assert taken(context) == list(reversed(BATCHES))


def test_batches_that_fail_every_time_keep_no_others_from_their_turn(
    context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run finds them landed again, and an attempt told of each."""
    monkeypatch.setenv("AIRFLOW__CORE__MAX_MAP_LENGTH", "3")
    for batch in BATCHES:
        context.ledger.batches.record(batch, LANDED)
    for batch in BATCHES[:3]:
        context.ledger.batches.record(batch, FAILED, attempt="a1")
        context.ledger.batches.record(batch, LANDED)
    assert taken(context) == [*BATCHES[3:], BATCHES[0]]
    monkeypatch.setenv("AIRFLOW__CORE__MAX_MAP_LENGTH", "5")
    assert taken(context) == [*reversed(BATCHES[3:]), *reversed(BATCHES[:3])]


def test_half_published_batch_is_loaded_before_waiting_ones(
    context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AIRFLOW__CORE__MAX_MAP_LENGTH", "3")
    for batch in BATCHES:
        context.ledger.batches.record(batch, LANDED)
    half = {"half_published": True}
    context.ledger.batches.record(BATCHES[4], FAILED, attempt="a1", replace_details=half)
    assert taken(context) == [BATCHES[4], *BATCHES[:2]]
    assert next(row.batch_id for row in context.ledger.unfinished()) == BATCHES[4]
