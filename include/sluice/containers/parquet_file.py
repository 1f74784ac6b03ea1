"""Parquet files: check them, and describe their columns as an Avro schema to decode both alike."""

from __future__ import annotations

import json
import os
from collections import deque
from collections.abc import Iterator
from typing import Any, BinaryIO, Final

import pyarrow as pa
import pyarrow.parquet as pq

from sluice.bounds import Bounds
from sluice.containers.compression import BOMB, TOO_MANY_ROWS, DamageError

MAGIC: Final = b"PAR1"
DAMAGED: Final = "damaged_parquet"
BAD_CODEC: Final = "unknown_parquet_codec"
INT96: Final = "int96"
_NESTED_INT96: Final = f"{INT96} inside a group"

_PLAIN: Final = {
    "null": "null", "bool": "boolean", "int8": "int", "int16": "int", "int32": "int",
    "int64": "long", "uint8": "int", "uint16": "int", "uint32": "long", "float": "float",
    "double": "double", "string": "string", "large_string": "string", "string_view": "string",
    "binary": "bytes", "large_binary": "bytes", "binary_view": "bytes",
}  # fmt: skip
_LOGICAL: Final = {
    "date32[day]": ("int", "date"),
    "date64[ms]": ("int", "date"),
    "time32[ms]": ("int", "time-millis"),
    "time64[us]": ("long", "time-micros"),
}
_READ: Final = frozenset({*_PLAIN.values(), "record", "array", "map"})
# Spark does not ship their libraries.
_UNREAD_CODECS: Final = frozenset({"BROTLI", "LZO"})
_LISTS: Final = (
    pa.ListType, pa.LargeListType, pa.FixedSizeListType, pa.ListViewType, pa.LargeListViewType,
)  # fmt: skip
_NO_LZO: Final = "LZO"
_UNITS: Final = {"ms": "millis", "us": "micros", "ns": "nanos"}


def is_codec_known(stream: BinaryIO) -> bool:
    """Whether Spark supports the columns' codecs; the file's footer has to be sound.

    Raises ValueError if the metadata of a column is damaged or encrypted. Reading it from such a
    file would crash pyarrow, so a row of each group is read first.
    """
    file = pq.ParquetFile(stream)
    footer = file.metadata
    for number in range(footer.num_row_groups):
        try:
            next(file.iter_batches(batch_size=1, row_groups=[number]), None)
        except (pa.ArrowException, OSError) as error:
            if _NO_LZO in str(error):
                return False
            raise ValueError(str(error)) from error
    groups = (footer.row_group(i) for i in range(footer.num_row_groups))
    used = {group.column(i).compression for group in groups for i in range(group.num_columns)}
    return not used & _UNREAD_CODECS


def refuse_bomb(stream: BinaryIO, bounds: Bounds) -> None:
    """Raise DamageError, not trusted, if a sound footer states more than `bounds` allow."""
    footer = pq.ParquetFile(stream).metadata
    groups = [footer.row_group(i) for i in range(footer.num_row_groups)]
    rows = sum(max(group.num_rows, 0) for group in groups)
    plain = sum(max(group.total_byte_size, 0) for group in groups)
    packed = stream.seek(0, os.SEEK_END)
    if bounds.has_too_many_rows(packed, rows):
        raise DamageError(TOO_MANY_ROWS, trusted=False)
    if bounds.exceeds_ratio(packed, plain):
        raise DamageError(BOMB, trusted=False)


def read_through(stream: BinaryIO) -> None:
    """Decode the whole file; ValueError if that fails."""
    try:
        deque(pq.ParquetFile(stream).iter_batches(), maxlen=0)
    except (pa.ArrowException, OSError) as error:
        raise ValueError(str(error)) from error


def avro_schema(stream: BinaryIO) -> str:
    """Return the columns as the fields of an Avro record; ValueError for a damaged footer.

    Unsigned 64-bit numbers are decimals of 20 digits. A type that Avro lacks keeps its own name,
    which `refuse_unread` refuses. 96-bit timestamps (INT96) are marked.
    """
    try:
        footer = pq.ParquetFile(stream).schema
    except (pa.ArrowException, OSError) as error:
        raise ValueError(str(error)) from error
    leaves = [footer.column(i) for i in range(len(footer.names))]
    columns = footer.to_arrow_schema()
    paths = [leaf.path for leaf in leaves if leaf.physical_type == "INT96"]
    # A column's own name may have a dot.
    old = {path if path in columns.names else path.split(".")[0]: path for path in paths}
    fields = [_field(field, old.get(field.name, "")) for field in columns]
    return json.dumps({"type": "record", "name": "row", "fields": fields})


def refuse_unread(schema: str) -> None:
    """Raise ValueError, with column and type, if a type in an `avro_schema` kept its own name."""
    for field in json.loads(schema)["fields"]:
        for kind in _unread(field["type"]):
            raise ValueError(
                f"column {field['name']!r} has the Parquet type {kind}, which is not read"
            )


def _unread(node: Any) -> Iterator[str]:
    if isinstance(node, list):
        for branch in node:
            yield from _unread(branch)
    elif node != "null":
        if node["type"] not in _READ:
            yield node["type"]
        yield from _unread([field["type"] for field in node.get("fields", ())])
        yield from _unread(node.get("items", node.get("values", [])))


def _field(field: pa.Field, old: str) -> dict[str, Any]:
    node = _node(field.type, field.name)
    if old == field.name:
        node = _logical("long", "timestamp-micros") | {INT96: True}
    elif old:
        node = {"type": _NESTED_INT96}  # it cannot be told apart when read
    return {"name": field.name, "type": ["null", node] if field.nullable else node}


def _node(kind: pa.DataType, path: str) -> dict[str, Any]:
    kind = _stored(kind)
    if pa.types.is_decimal(kind):
        return _decimal(kind.precision, kind.scale)
    if pa.types.is_uint64(kind):
        return _decimal(20, 0)
    if pa.types.is_timestamp(kind):
        local = "" if kind.tz else "local-"
        return _logical("long", f"{local}timestamp-{_UNITS[kind.unit]}")
    if pa.types.is_fixed_size_binary(kind):
        return {"type": "bytes"}
    if pa.types.is_nested(kind):
        return _nested(kind, path)
    name = str(kind)
    return _logical(*_LOGICAL[name]) if name in _LOGICAL else {"type": _PLAIN.get(name, name)}


def _stored(kind: pa.DataType) -> pa.DataType:
    """Return the type as stored; the footer also has the writer's own type for it."""
    if isinstance(kind, pa.BaseExtensionType):
        return kind.storage_type
    if pa.types.is_duration(kind):
        return pa.int64()
    return kind.value_type if pa.types.is_dictionary(kind) else kind


def _nested(kind: pa.DataType, path: str) -> dict[str, Any]:
    if pa.types.is_struct(kind):
        fields = [{"name": f.name, "type": _inner(f, path)} for f in kind]
        return {"type": "record", "name": path, "fields": fields}
    if isinstance(kind, _LISTS):
        return {"type": "array", "items": _inner(kind.value_field, path)}
    if pa.types.is_map(kind) and _node(kind.key_type, path) == {"type": "string"}:
        return {"type": "map", "values": _inner(kind.item_field, path)}
    return {"type": f"map with keys of {kind.key_type}" if pa.types.is_map(kind) else str(kind)}


def _inner(field: pa.Field, path: str) -> Any:
    return ["null", _node(field.type, f"{path}.{field.name}")]


def _decimal(precision: int, scale: int) -> dict[str, Any]:
    return _logical("bytes", "decimal") | {"precision": precision, "scale": scale}


def _logical(kind: str, name: str) -> dict[str, Any]:
    return {"type": kind, "logicalType": name}
