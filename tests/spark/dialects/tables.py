"""Rows of a table as files that are not JSON: CSV as RFC 4180 has it, and Parquet."""

from __future__ import annotations

import io
from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from tests.spark.dialects.base import Row

NULLS = ("", "NULL")
NUMBER, AMOUNT = pa.int32(), pa.decimal128(10, 2)
TYPES = {
    "id": NUMBER, "x": NUMBER, "BI_id": NUMBER, "BI_x": NUMBER, "amount": AMOUNT,
    "_execute_time_": pa.timestamp("ms", "UTC"),
}  # fmt: skip


@dataclass(frozen=True)
class TableRow:
    """A row of a file that is of one table: `kind` tells files of it apart."""

    table: str
    values: Row
    kind: str = ""


def csv_file(records: list[TableRow]) -> bytes:
    """NULL is a field with nothing in it; a text that reads like it, or ends a field, is quoted."""
    names = list(records[0].values)
    lines = [names, *([_field(record.values[name]) for name in names] for record in records)]
    return "".join(",".join(line) + "\r\n" for line in lines).encode()


def _field(value: Any) -> str:
    if value is None:
        return ""
    text = str(value)
    plain = text not in NULLS and not set(text) & set(',"\r\n')
    return text if plain else '"' + text.replace('"', '""') + '"'


def parquet_file(records: list[TableRow]) -> bytes:
    """With the types of the source's columns; what is not listed is text."""
    schema = pa.schema([(name, TYPES.get(name, pa.string())) for name in records[0].values])
    columns = [_column([r.values[f.name] for r in records], f.type) for f in schema]
    sink = io.BytesIO()
    pq.write_table(pa.table(columns, schema), sink, row_group_size=3)
    return sink.getvalue()


def _column(values: Iterable[Any], kind: pa.DataType) -> pa.Array:
    if kind == AMOUNT:
        values = [None if value is None else Decimal(value) for value in values]
    elif pa.types.is_string(kind):
        values = [None if value is None else str(value) for value in values]
    return pa.array(values, kind)


CONTAINERS = {"csv": csv_file, "parquet": parquet_file}
