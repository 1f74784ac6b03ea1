"""One reprocess after another: what a table lacks still comes, and files keep their place.

The driver is played; landing, ledger, reprocess and shares are the real ones.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from sluice.landing import inspection
from sluice.manifest import Manifest
from sluice.operations import stages
from sluice.operations.reprocess import reprocess
from sluice.operations.rollback import RollbackRequest, roll_back
from sluice.positions import arrival_again
from sluice.result import Counts, LeftOut
from tests.unit.fake_driver import ONE, play, quarantine, quarantined
from tests.unit.projects import SHOP, open_shop

pytestmark = pytest.mark.catalog

LEFT = LeftOut("d.s.notes", 1, "fails its check")


def test_the_share_of_a_reprocess_is_not_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ctx = open_shop(tmp_path, SHOP + "consistency: table\n")
    quarantined(ctx, monkeypatch)
    left_out = play(ctx, lambda m: (ONE, () if m.share_of else (LEFT,)))
    monkeypatch.setattr("sluice.operations.load.submit", left_out)
    _, failure = reprocess(ctx)
    assert "d.s.notes (1 record) is left to batch" in str(failure)

    loaded: list[Manifest] = []
    mended = play(ctx, lambda m: (loaded.append(m), (ONE, ()))[1])
    monkeypatch.setattr("sluice.operations.load.submit", mended)
    reprocess(ctx)
    stages.run(ctx)
    assert [m.tables for m in loaded if m.share_of] == [("d.s.notes",)]


def test_a_file_read_again_keeps_the_place_of_its_first_reading(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As an earlier release gave it: numbers that are written otherwise shared one."""
    ctx = open_shop(tmp_path)
    with monkeypatch.context() as earlier:
        earlier.setattr(inspection, "arrival_of", lambda _: "as-it-was")
        quarantined(ctx, monkeypatch)
    for generation in (1, 2):
        (again,), _ = reprocess(ctx)
        (file,) = ctx.files.manifest_of("shop", again.batch_id).files
        assert file.arrival == arrival_again("as-it-was", generation)
        quarantine(ctx, again.batch_id, file.key)


def test_an_undone_share_of_a_reprocess_waits_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The reprocess, which stays, counts as having resolved the record."""
    ctx = open_shop(tmp_path, SHOP + "consistency: table\n")
    quarantined(ctx, monkeypatch)
    loaded: list[str] = []

    def answer(manifest: Manifest) -> tuple[Counts, tuple[LeftOut, ...]]:
        loaded.append(manifest.share_of)
        return ONE, () if manifest.share_of else (LEFT,)

    monkeypatch.setattr("sluice.operations.load.submit", play(ctx, answer))
    ((again,), _) = reprocess(ctx)
    stages.run(ctx)
    roll_back(ctx, RollbackRequest(to=again.batch_id, release=True))
    stages.run(ctx)
    assert loaded == ["", again.batch_id, again.batch_id]
