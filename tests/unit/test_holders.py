"""Who holds a lease, and whether he is dead."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from sluice.ledger import leases
from sluice.ledger.leases import is_dead, this_holder


def test_holders_are_dead_only_when_that_is_sure() -> None:
    assert not is_dead(this_holder())
    assert not is_dead("elsewhere/1:1:1")
    assert not is_dead("")
    host = this_holder().split(":")[0]
    assert is_dead(f"{host}:{2**22 + 1}:77")
    assert is_dead(f"{host}:{os.getpid()}:1")


def test_a_process_of_another_machine_of_the_same_name_is_no_dead_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    host = this_holder().split(":")[0]
    other = tmp_path / "boot_id"
    other.write_text("another\n")
    monkeypatch.setattr(leases, "BOOT_ID", other)
    assert not is_dead(f"{host}:{2**22 + 1}:77")
