"""Rows for people and programs: a table, JSON lines, CSV; nothing is rounded.

JSON has decimals, and integers beyond 2^53, as text; bytes as base64; timestamps in ISO 8601 with
microseconds, and `Z` if they have a zone; NaN and infinities by name. Tables and JSON escape
control characters, see `shown`; CSV has the bytes as they are.
"""

from __future__ import annotations

import base64
import csv
import json
import math
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any, Final, Literal, TextIO

import numpy as np
import pyarrow as pa
from rich.console import Console
from rich.table import Table
from rich.text import Text

from sluice.escaping import shown

Output = Literal["table", "jsonl", "csv"]
_EXACT_IN_JSON: Final = 1 << 53
_UNLIMITED: Final = 100_000


@contextmanager
def until_it_closes(pipe: TextIO) -> Iterator[TextIO]:
    """Write to a stream that may close early: a closed pipe, as with `| head`, is no error."""
    try:
        yield pipe
        pipe.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), pipe.fileno())


def write_rows(answer: pa.Table, output: Output, to: TextIO) -> None:
    """Write all rows in one form."""
    names = _distinct(answer.column_names)
    rows = (row for batch in answer.to_batches() for row in _rows(batch))
    _WRITERS[output](names, rows, to)


def _distinct(names: list[str]) -> list[str]:
    """Number repeated names, for one key per value: `SELECT a.id, b.id` gives id and id_1."""
    taken: list[str] = []
    for name in names:
        numbers = (f"{name}_{n}" for n in range(1, len(names) + 1))
        taken.append(name if name not in taken else next(n for n in numbers if n not in taken))
    return taken


def _rows(batch: pa.RecordBatch) -> Iterator[tuple[Any, ...]]:
    columns = [_values(batch.column(n), batch.schema.field(n)) for n in range(batch.num_columns)]
    return zip(*columns, strict=True)


def _values(column: pa.Array, field: pa.Field) -> list[Any]:
    """Return a column's values as JSON holds them."""
    kind = column.type
    if pa.types.is_timestamp(kind):
        return _instants(column, "us", "Z" if kind.tz else "")
    if pa.types.is_date(kind):
        return _instants(column, "D", "")
    if pa.types.is_float32(kind):
        return [
            None if v is None else as_json_value(float(str(np.float32(v))))
            for v in column.to_pylist()
        ]
    if (field.metadata or {}).get(b"integer"):
        return [None if v is None else as_json_value(int(v)) for v in column.to_pylist()]
    return [as_json_value(v) for v in column.to_pylist()]


def _instants(column: pa.Array, unit: str, zone: str) -> list[str | None]:
    """Return ISO texts for any year, also outside of Python's datetime."""
    kind = pa.date32() if unit == "D" else pa.timestamp("us")
    plain_kind = column.cast(pa.timestamp(column.type.unit)) if zone else column
    numbers = plain_kind.cast(kind, safe=False).cast(pa.int32() if unit == "D" else pa.int64())
    texts = np.datetime_as_string(
        numbers.fill_null(0).to_numpy(zero_copy_only=False).astype(f"datetime64[{unit}]")
    )
    nulls = column.is_null().to_pylist()
    return [None if null else f"{t}{zone}" for t, null in zip(texts, nulls, strict=True)]


def as_json_value(value: Any) -> Any:
    """Return one value as JSON holds it exactly."""
    if isinstance(value, bool) or value is None or isinstance(value, str):
        return value
    if isinstance(value, int):
        return value if abs(value) <= _EXACT_IN_JSON else str(value)
    if isinstance(value, float):
        return _float(value)
    if isinstance(value, datetime):
        return _timestamp(value)
    return _other(value)


def _float(value: float) -> float | str:
    if math.isnan(value):
        return "NaN"
    return value if math.isfinite(value) else ("Infinity" if value > 0 else "-Infinity")


def _timestamp(value: datetime) -> str:
    if value.tzinfo is None:
        return value.isoformat(timespec="microseconds")
    moment = value.astimezone(UTC).replace(tzinfo=None)
    return moment.isoformat(timespec="microseconds") + "Z"


def _other(value: Any) -> Any:
    if isinstance(value, Decimal):
        return format(value, "f")
    if isinstance(value, bytes):
        return base64.b64encode(value).decode("ascii")
    if isinstance(value, date | time):
        return value.isoformat()
    if isinstance(value, list):
        return [as_json_value(v) for v in value]
    if isinstance(value, dict):
        return {str(k): as_json_value(v) for k, v in value.items()}
    return str(value)


def _write_table(names: list[str], rows: Iterator[tuple[Any, ...]], to: TextIO) -> None:
    table = Table()
    for name in names:
        table.add_column(Text(shown(name)))
    for row in rows:
        table.add_row(*(Text("" if v is None else shown(_cell(v))) for v in row))
    Console(file=to, width=None if to.isatty() else _UNLIMITED).print(table)


def _write_jsonl(names: list[str], rows: Iterator[tuple[Any, ...]], to: TextIO) -> None:
    for row in rows:
        line = json.dumps(dict(zip(names, row, strict=True)), ensure_ascii=False)
        to.write(shown(line) + "\n")


def _write_csv(names: list[str], rows: Iterator[tuple[Any, ...]], to: TextIO) -> None:
    writer = csv.writer(to, lineterminator="\n")
    writer.writerow(names)
    for row in rows:
        writer.writerow("" if v is None else _cell(v) for v in row)


def _cell(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list | dict):
        return json.dumps(value, ensure_ascii=False)
    return str(value)


_WRITERS: Final[dict[Output, Callable[[list[str], Iterator[tuple[Any, ...]], TextIO], None]]] = {
    "table": _write_table,
    "jsonl": _write_jsonl,
    "csv": _write_csv,
}
