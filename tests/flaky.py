"""A proxy in front of a server that fails as networks and busy object stores do.

Every request has a connection of its own, so that each fails by itself, as drawn from a seed.
"""

from __future__ import annotations

import random
import socket
import struct
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from typing import Final

_HEAD_ENDS: Final = b"\r\n\r\n"
_PIECE: Final = 1 << 16
_SLOW_SECONDS: Final = 0.5
_BUSY: Final = b"<Error><Code>SlowDown</Code><Message>Reduce your request rate.</Message></Error>"
_DENIED: Final = b"<Error><Code>AccessDenied</Code><Message>Access Denied</Message></Error>"
_CONFLICT: Final = (
    b"<Error><Code>ConditionalRequestConflict</Code><Message>Conflict.</Message></Error>"
)
_BROKEN: Final = b"<Error><Code>InternalError</Code><Message>Try again.</Message></Error>"
FATES: Final = ("busy", "reset", "cut", "slow")


@dataclass
class Flaky:
    """Settings of the proxy; `share` of the requests get one of the `fates`. Both may be changed at
    any time.

    `told` counts the fates. A GET of a path that ends with `denied` is refused, with one of
    `broken` it is an error of the server, and with one of `cut` it returns a part of the object,
    once. `conflicts`: number of conditional writes that are answered with a conflict; `throttled`:
    number of reads that are answered as busy.
    """

    port: int
    upstream: tuple[str, int]
    share: float
    rng: random.Random
    fates: tuple[str, ...] = FATES
    told: dict[str, int] = field(default_factory=dict)
    denied: str = ""
    broken: tuple[str, ...] = ()
    cut: set[str] = field(default_factory=set)
    conflicts: int = 0
    throttled: int = 0

    def draw(self) -> str:
        """The fate of the next request; empty for none."""
        fate = self.rng.choice(self.fates) if self.rng.random() < self.share else ""
        self.told[fate] = self.told.get(fate, 0) + 1
        return fate


@contextmanager
def flaky(upstream: tuple[str, int], share: float, seed: int) -> Iterator[Flaky]:
    """Serve on 127.0.0.1 until the block ends."""
    with closing(socket.create_server(("127.0.0.1", 0))) as listener:
        found = Flaky(listener.getsockname()[1], upstream, share, random.Random(seed))
        threading.Thread(target=_accept, args=(listener, found), daemon=True).start()
        yield found


def _accept(listener: socket.socket, found: Flaky) -> None:
    with suppress(OSError):  # the listener is closed
        while True:
            client, _ = listener.accept()
            threading.Thread(target=_serve, args=(client, found), daemon=True).start()


def _serve(client: socket.socket, found: Flaky) -> None:
    with closing(client), suppress(OSError):
        head, _, rest = _until_head(client).partition(_HEAD_ENDS)
        if not head:
            return
        method, path, *_ = head.decode("latin-1").split(" ", 2)
        if found.denied and method == "GET" and path.partition("?")[0].endswith(found.denied):
            client.sendall(_answer(_DENIED, "403 Forbidden"))
            return
        if method == "GET" and path.partition("?")[0].endswith(found.broken):
            client.sendall(_answer(_BROKEN, "500 Internal Server Error"))
            return
        if method == "GET" and (cut := {p for p in found.cut if path.endswith(p)}):
            found.cut -= cut
            _cut_short(client, found.upstream, _once(head) + _HEAD_ENDS + rest)
            return
        if found.conflicts and b"if-none-match:" in head.lower():
            found.conflicts -= 1
            _drain(client, head, rest)
            client.sendall(_answer(_CONFLICT, "409 Conflict"))
            return
        if found.throttled and method in ("GET", "HEAD"):
            found.throttled -= 1
            client.sendall(_answer(_BUSY))
            return
        fate = found.draw()
        if fate == "reset":
            _reset(client)
        elif fate == "busy":
            _drain(client, head, rest)
            client.sendall(_answer(_BUSY))
        else:
            time.sleep(_SLOW_SECONDS if fate == "slow" else 0)
            _forward(client, found.upstream, _once(head) + _HEAD_ENDS + rest, cut=fate == "cut")


def _until_head(client: socket.socket) -> bytes:
    data = b""
    while _HEAD_ENDS not in data and (piece := client.recv(_PIECE)):
        data += piece
    return data


def _once(head: bytes) -> bytes:
    """The head of a request after which the connection ends."""
    lines = [n for n in head.split(b"\r\n") if not n.lower().startswith(b"connection:")]
    return b"\r\n".join([*lines, b"Connection: close"])


def _answer(body: bytes, status: str = "503 Slow Down") -> bytes:
    head = f"HTTP/1.1 {status}\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    return head.encode() + body


def _drain(client: socket.socket, head: bytes, rest: bytes) -> None:
    """Take the request's body, which a client sends before it looks for an answer."""
    lengths = [n for n in head.lower().split(b"\r\n") if n.startswith(b"content-length:")]
    left = int(lengths[0].split(b":")[1]) - len(rest) if lengths else 0
    if b"100-continue" in head.lower():
        return
    while left > 0 and (piece := client.recv(min(left, _PIECE))):
        left -= len(piece)


def _reset(client: socket.socket) -> None:
    client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


def _forward(client: socket.socket, upstream: tuple[str, int], sent: bytes, cut: bool) -> None:
    with closing(socket.create_connection(upstream)) as server:
        server.sendall(sent)
        threading.Thread(target=_pump, args=(client, server), daemon=True).start()
        if not cut:
            _pump(server, client)
            return
        answer = _until_head(server)
        client.sendall(answer[: max(len(answer) * 2 // 3, 1)])
        # The other thread still reads here, and a socket in use is not closed by closing it.
        client.shutdown(socket.SHUT_RDWR)


def _cut_short(client: socket.socket, upstream: tuple[str, int], sent: bytes) -> None:
    with closing(socket.create_connection(upstream)) as server:
        server.sendall(sent)
        answer = b""
        while piece := server.recv(_PIECE):
            answer += piece
        client.sendall(answer[:-1])


def _pump(source: socket.socket, sink: socket.socket) -> None:
    with suppress(OSError):
        while piece := source.recv(_PIECE):
            sink.sendall(piece)
