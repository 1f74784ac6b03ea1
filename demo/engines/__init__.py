"""What each engine would write for the shop's changes: one file an engine."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from demo.engines import datastream, debezium, streamx
from demo.shop import Change

Writer = Callable[[list[Change]], list[Any]]
WRITERS: Final[dict[str, Writer]] = {
    "debezium": debezium.write,
    "datastream": datastream.write,
    "streamx": streamx.write,
}
