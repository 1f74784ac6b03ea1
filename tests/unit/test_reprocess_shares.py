"""A reprocess that left a table out, and the next one: what the table lacks still comes.

The driver is played; landing, ledger, reprocess and shares are the real ones.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from sluice.manifest import Manifest
from sluice.operations import stages
from sluice.operations.reprocess import reprocess
from sluice.result import LeftOut
from tests.unit.played import ONE, play, quarantined
from tests.unit.projects import PIPELINE, open_shop

LEFT = LeftOut("d.s.notes", 1, "fails its check")


def test_the_share_of_a_reprocess_is_not_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ctx = open_shop(tmp_path, PIPELINE + "consistency: table\n")
    quarantined(ctx, monkeypatch)
    left_out = play(ctx, lambda m: (ONE, () if m.share_of else (LEFT,)))
    monkeypatch.setattr(stages, "submit", left_out)
    _, failure = reprocess(ctx)
    assert "d.s.notes (1 records) is left to batch" in str(failure)

    loaded: list[Manifest] = []
    mended = play(ctx, lambda m: (loaded.append(m), (ONE, ()))[1])
    monkeypatch.setattr(stages, "submit", mended)
    reprocess(ctx)
    stages.run(ctx)
    assert [m.tables for m in loaded if m.share_of] == [("d.s.notes",)]
