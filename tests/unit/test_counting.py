"""Numbers of things in messages."""

from __future__ import annotations

from sluice.counting import are, counted


def test_one_thing_is_in_the_singular() -> None:
    assert [counted(n, "file") for n in (0, 1, 2)] == ["0 files", "1 file", "2 files"]
    assert counted(3000, "batch") == "3,000 batches"
    assert [are(n) for n in (0, 1, 2)] == ["are", "is", "are"]
