"""The holder of a lease: a process, named so that others on its machine can see that it died."""

from __future__ import annotations

import os
import socket
import uuid
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Final

from sluice.ledger.rows import BatchRow


@dataclass(frozen=True)
class Lease:
    """Who holds a batch, and for how many seconds after its last renewal."""

    holder: str
    seconds: float


# Distinguishes two hosts of one name, such as clones of an image.
BOOT_ID: Final = Path("/proc/sys/kernel/random/boot_id")
PROC: Final = Path("/proc")
_ALIVE: Final = "alive"
ANY_PUBLISHER: Final = "whoever publishes"
"""The holder of a loaded batch whose publisher is not known yet; it never counts as dead."""


def this_holder() -> str:
    """Name this process as `host:pid:start`; the start time distinguishes processes that had
    the same pid."""
    return f"{_machine()}:{os.getpid()}:{_started(os.getpid())}"


def holder_in_words(holder: str) -> str:
    """Return the process and host of a holder, as an operator looks for them."""
    machine, _, process = holder.partition(":")
    if not process:
        return holder  # none yet, see ANY_PUBLISHER
    return f"process {process.partition(':')[0]} on {machine.partition('/')[0]}"


def new_attempt() -> str:
    """Return a name that no other attempt has."""
    return uuid.uuid4().hex[:10]


def leased(row: BatchRow, lease: Lease, now: datetime) -> BatchRow:
    """Return the row with the lease, which runs from `now`."""
    until = now + timedelta(seconds=lease.seconds)
    return replace(row, holder=lease.holder, lease_until=until, at=now)


def is_dead(holder: str) -> bool:
    """Whether the holder ran on this machine and its process is gone; False in case of doubt."""
    machine, _, process = holder.partition(":")
    pid, _, started = process.partition(":")
    if machine != _machine() or not pid.isdecimal():
        return False
    return _started(int(pid)) not in (started, _ALIVE)


def _machine() -> str:
    """Return host, boot and process namespace: machines may share a name, and containers share a
    boot without sharing pids."""
    try:
        boot = BOOT_ID.read_text().strip()
        namespace = os.stat("/proc/self/ns/pid").st_ino
    except OSError:
        boot, namespace = "", 0
    return f"{socket.gethostname().replace(':', '_')}/{boot}/{namespace}"


def _started(pid: int) -> str:
    """Return when the process started, in the kernel's ticks; `_ALIVE` if it exists and /proc does
    not show it, "" if there is no such process."""
    try:
        stat = (PROC / str(pid) / "stat").read_text()
    except OSError:
        return _alive(pid)
    state, *fields = stat.rpartition(")")[2].split()
    return "" if state in "ZX" else fields[18]


def _alive(pid: int) -> str:
    """Return `_ALIVE` or "", for a machine without /proc, or whose /proc hides other users'
    processes (proc(5), `hidepid`)."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return ""
    except PermissionError:
        pass
    return _ALIVE
