"""Numbers of things in messages."""

from __future__ import annotations

from sluice.counting import counted


def test_one_thing_is_in_the_singular() -> None:
    assert [counted(n, "file") for n in (0, 1, 2)] == ["0 files", "1 file", "2 files"]
    assert counted(3, "batch") == "3 batches"
