"""Which process holds a lease, and whether it is dead."""

from __future__ import annotations

import os
import socket
import subprocess
from pathlib import Path

import pytest

from sluice.ledger import leases
from sluice.ledger.leases import ANY_PUBLISHER, holder_in_words, is_dead, this_holder


def test_holders_are_dead_only_when_that_is_sure() -> None:
    assert not is_dead(this_holder())
    assert not is_dead("elsewhere/1:1:1")
    assert not is_dead("")
    host = this_holder().split(":")[0]
    assert is_dead(f"{host}:{2**22 + 1}:77")
    assert is_dead(f"{host}:{os.getpid()}:1")


def test_a_holder_is_named_as_its_process_is_found() -> None:
    assert holder_in_words(this_holder()) == f"process {os.getpid()} on {socket.gethostname()}"
    assert holder_in_words(ANY_PUBLISHER) == ANY_PUBLISHER


def test_a_process_of_another_machine_of_the_same_name_is_no_dead_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    host = this_holder().split(":")[0]
    other = tmp_path / "boot_id"
    other.write_text("another\n")
    monkeypatch.setattr(leases, "BOOT_ID", other)
    assert not is_dead(f"{host}:{2**22 + 1}:77")


def test_a_process_that_is_hidden_is_not_taken_for_dead(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where /proc is mounted with `hidepid`, it shows nothing of other users' processes."""
    with subprocess.Popen(["sleep", "60"]) as child:
        holder = f"{this_holder().split(':')[0]}:{child.pid}:{started(child.pid)}"
        monkeypatch.setattr(leases, "PROC", tmp_path)
        while_alive = is_dead(holder)
        child.kill()
    assert (while_alive, is_dead(holder)) == (False, True)


def started(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]
