"""A landing folder and a staging folder for tests."""

from __future__ import annotations

import base64
import io
from pathlib import Path
from typing import Any

import fastavro

from sluice.landing.inspection import Inspection, Inspector
from sluice.landing.reading import Reading
from sluice.objects.store import LocalStore

LINES = b'{"a":1}\n{"a":2}\n'
READING = Reading()
ROWS = [{"id": n, "t": "x" * 100} for n in range(2000)]
AVRO_SCHEMA = {
    "type": "record",
    "name": "row",
    "fields": [{"name": "id", "type": "long"}, {"name": "t", "type": "string"}],
}


def avro_bytes() -> bytes:
    out = io.BytesIO()
    fastavro.writer(out, AVRO_SCHEMA, ROWS, sync_interval=10_000)
    return out.getvalue()


class Lake:
    """A landing folder and a staging folder."""

    def __init__(self, root: Path) -> None:
        self.landing = LocalStore(root / "landing")
        self.staging = LocalStore(root / "staging")

    def look(
        self, content: bytes, key: str = "x/file.jsonl", limit: int = 1 << 20, **more: Any
    ) -> Inspection:
        """`more`: of `Reading`."""
        self.landing.put(key, content)
        found = next(o for o in self.landing.list() if o.key == key)
        return self.inspector(Reading(limit, **more)).inspect(found)

    def inspector(self, reading: Reading = READING) -> Inspector:
        return Inspector(self.landing, self.staging, "shop/staged/", reading)

    def staged(self, look: Inspection) -> bytes:
        assert look.file.staged
        name = look.file.url.removeprefix(f"file://{self.staging.folder}/")
        assert name.startswith("shop/staged/")
        return self.staging.get(name)


def reasons(look: Inspection) -> list[tuple[int, str]]:
    return [(r.record, r.reason) for r in look.rejects]


def raw(look: Inspection, number: int = 0) -> bytes:
    return base64.b64decode(look.rejects[number].raw_base64)
