"""A child process with a time limit, and the end of its output."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from types import FrameType
from typing import IO, Final, NoReturn

# A driver's result is its last line of output, which names every table of a batch.
MOST_OUTPUT: Final = 64 << 20
MOST_ERRORS: Final = 1 << 20
_CHUNK_BYTES: Final = 1 << 16
_GRACE_SECONDS: Final = 10.0
SIGNALS: Final = 128
"""A shell's exit code for a process that a signal ended is this plus the signal's number."""


@dataclass(frozen=True)
class ChildResult:
    """How a child ended; `code` None: it was stopped when its time was up."""

    code: int | None
    output: str
    errors: str


def run_child(
    command: Sequence[str], environment: Mapping[str, str], seconds: float
) -> ChildResult:
    """Run a command for at most `seconds`, then stop it with its child processes.

    The last MOST_OUTPUT bytes of its output and MOST_ERRORS of its errors are kept.
    """
    child = subprocess.Popen(
        command,
        env=dict(environment),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    code: int | None = None
    try:
        assert child.stdout is not None
        assert child.stderr is not None
        output, errors = _Tail(child.stdout, MOST_OUTPUT), _Tail(child.stderr, MOST_ERRORS)
        with suppress(subprocess.TimeoutExpired):
            code = child.wait(seconds)
    finally:
        # An interrupt of this process does not reach the child, which has its own session.
        _stop(child)
    return ChildResult(code, output.text(), errors.text())


def stop_children_when_ended() -> None:
    """Let SIGTERM, and a closing terminal, end this process as Ctrl-C does: with its child.

    A signal that is ignored, as under `nohup`, stays ignored.
    """
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is signal.SIG_DFL:
            signal.signal(number, _exit)


def _exit(number: int, _: FrameType | None) -> NoReturn:
    raise SystemExit(SIGNALS + number)


def _stop(child: subprocess.Popen[bytes]) -> None:
    """Stop the rest of the child's process group, with SIGTERM first."""
    if child.returncode is not None:
        return
    for number in (signal.SIGTERM, signal.SIGKILL):
        with suppress(ProcessLookupError, subprocess.TimeoutExpired):
            os.killpg(child.pid, number)
            child.wait(_GRACE_SECONDS)
    with suppress(ProcessLookupError):
        os.killpg(child.pid, signal.SIGKILL)


class _Tail:
    """Reads a pipe to its end and keeps the last `most` bytes."""

    def __init__(self, pipe: IO[bytes], most: int) -> None:
        self._pipe, self._most = pipe, most
        self._kept = bytearray()
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self) -> None:
        with self._pipe:
            while chunk := os.read(self._pipe.fileno(), _CHUNK_BYTES):
                self._kept += chunk
                if len(self._kept) > 2 * self._most:
                    del self._kept[: -self._most]

    def text(self) -> str:
        """Return the kept text, once the pipe is closed."""
        self._thread.join(_GRACE_SECONDS)
        return bytes(self._kept[-self._most :]).decode(errors="replace")
