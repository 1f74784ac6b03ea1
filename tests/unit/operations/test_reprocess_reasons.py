"""reprocess --reason: a reason of the quarantine chooses batches, any other text is a note."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from sluice.manifest import Reprocess
from sluice.operations.context import Context
from sluice.operations.quarantined import Unresolved
from sluice.operations.reprocess import NO_OPTIONS, QuarantinedFiles, _manifest, land_quarantined
from tests.unit.fake_driver import quarantined
from tests.unit.projects import open_shop

pytestmark = pytest.mark.catalog

WAITING = {"a.jsonl": "does_not_fit", "b.jsonl": "unknown_op:MERGE", "c.jsonl": "not_json"}


@pytest.fixture
def context(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Context:
    """Three published batches, each with a record in quarantine for a reason of its own."""
    ctx = open_shop(tmp_path)
    for file, reason in WAITING.items():
        quarantined(ctx, monkeypatch, file, reason)
    return ctx


@pytest.mark.parametrize(
    ("reason", "files"),
    [
        ("does_not_fit", ["a.jsonl"]),
        ("unknown_op", ["b.jsonl"]),
        ("unknown_op:MERGE", ["b.jsonl"]),
        ("unknown_op:UPSERT", [*WAITING]),
        ("the hint was too narrow", [*WAITING]),
        ("", [*WAITING]),
    ],
)
def test_reason_of_the_quarantine_chooses_files_and_other_text_is_a_note(
    context: Context, reason: str, files: list[str]
) -> None:
    (key,) = land_quarantined(
        context, request=Reprocess(reason=reason), signature="(asked for by ann)"
    )
    manifest = context.files.read_manifest(key)
    assert sorted(file.key for file in manifest.files) == files
    assert manifest.reprocess is not None
    assert manifest.reprocess.reason == f"{reason} (asked for by ann)".strip()


def test_batches_that_are_reprocessed_together_have_a_later_reading_than_each_had() -> None:
    """Else a record's place would be the one of its last reading."""
    ctx: Any = SimpleNamespace(pipeline=SimpleNamespace(name="p"))
    read = [QuarantinedFiles(Unresolved(f"b{n}", Counter()), (), n) for n in (0, 2, 1)]
    again = _manifest(ctx, read, {}, NO_OPTIONS).reprocess
    assert again is not None
    assert again.generation == 3
