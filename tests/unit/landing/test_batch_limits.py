"""Copies of files that unfold to more than they are count in a batch with their own bytes."""

from __future__ import annotations

import gzip
from collections import Counter
from pathlib import Path

import pytest

from sluice.landing.inspection import Inspection, Inspector
from sluice.ledger.states import FILE_LOADED, PUBLISHED
from sluice.objects.batch_files import batch_of
from sluice.objects.store import StoredObject
from sluice.operations import preview as preview_module
from sluice.operations import reprocess as reprocess_module
from sluice.operations.context import Context
from sluice.operations.preview import Forecast, preview
from sluice.operations.quarantined import Unresolved
from sluice.operations.reprocess import land_quarantined
from tests.all_readable import land
from tests.unit.projects import SHOP, keys, open_shop

pytestmark = pytest.mark.catalog

COPY = 10_000
NAMES = ("a.json.gz", "b.json.gz", "c.json.gz")


@pytest.fixture
def context(tmp_path: Path) -> Context:
    """Three arrays of some hundred bytes, of two of which the copies fill a batch."""
    context = open_shop(tmp_path, f"{SHOP}max_bytes_per_batch: {5 * COPY // 2}\n")
    for name in NAMES:
        text = f'[{{"of": "{name}", "padding": "{"x" * COPY}"}}]'
        (tmp_path / "landing" / name).write_bytes(gzip.compress(text.encode()))
    return context


def test_a_batch_is_full_when_its_copies_are(context: Context) -> None:
    assert [keys(context, [key]) for key in land(context)] == [list(NAMES[:2]), list(NAMES[2:])]


def test_full_batch_is_landed_before_the_remaining_files_are_inspected(
    context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A landing that is stopped for its time leaves what it has done."""
    (context.project.root / "landing" / "d.json.gz").write_bytes(gzip.compress(b"[{}]"))
    monkeypatch.setattr("sluice.operations.inspecting.INSPECTED_AT_ONCE", 1)

    inspect = Inspector.inspect

    def stopped_at_the_last(inspector: Inspector, found: StoredObject) -> Inspection:
        if found.key == "d.json.gz":
            raise TimeoutError
        return inspect(inspector, found)

    monkeypatch.setattr(Inspector, "inspect", stopped_at_the_last)
    with pytest.raises(TimeoutError):
        land(context)
    assert [row.state for row in context.ledger.batches.all()] == ["landed"]


def test_plan_counts_staged_bytes(context: Context, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(preview_module, "_forecast", lambda *_: Forecast())
    assert preview(context).batches == 2


def test_lines_that_spark_reads_where_they_are_count_as_they_landed(context: Context) -> None:
    for name in NAMES:
        path = context.project.root / "landing" / name
        path.write_bytes(gzip.compress(f'{{"of": "{name}", "padding": "{"x" * COPY}"}}\n'.encode()))
    assert len(land(context)) == 1


def test_reprocess_counts_staged_bytes(context: Context, monkeypatch: pytest.MonkeyPatch) -> None:
    """Their copies are gone, and no manifest tells how large they were."""
    waiting = []
    for key in land(context):
        batch = batch_of(key)
        context.ledger.files.mark(batch, FILE_LOADED)
        context.ledger.batches.record(batch, PUBLISHED)
        waiting.append(Unresolved(batch, Counter(keys(context, [key]))))
    context.files.store.delete(context.files.staged_there("shop"))
    monkeypatch.setattr(reprocess_module, "unresolved", lambda *_: waiting)
    again = land_quarantined(context)
    assert [keys(context, [key]) for key in again] == [list(NAMES[:2]), list(NAMES[2:])]
    requests = [context.files.read_manifest(key).reprocess for key in again]
    assert [one and one.batches for one in requests] == [(one.batch_id,) for one in waiting]
