"""Files of tables, looked through as landing does."""

from __future__ import annotations

import io
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from sluice.containers.csv_rows import CsvStyle
from sluice.landing.inspection import Inspection, Inspector
from sluice.landing.reading import Reading
from sluice.objects.store import LocalStore


def parquet_bytes() -> bytes:
    out = io.BytesIO()
    fields = [pa.field("id", pa.int64(), nullable=False), pa.field("n", pa.int32())]
    pq.write_table(pa.Table.from_pylist([{"id": 1}], pa.schema(fields)), out)
    return out.getvalue()


def look(root: Path, key: str, content: bytes, tables: CsvStyle | None) -> Inspection:
    landing = LocalStore(root / "landing")
    landing.put(key, content)
    (found,) = landing.list()
    reading = Reading(1 << 20, tables)
    return Inspector(landing, LocalStore(root / "staging"), "p/staged/", reading).inspect(found)
