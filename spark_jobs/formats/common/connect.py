"""Kafka Connect schemas as column types, with Debezium's semantic names."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

from sluice.types.columns import LISTED, STRING, UNSCALED, VARIABLE, ColumnType, decimal, listed
from spark_jobs.formats.base import SourceColumn
from spark_jobs.number_text import MOST_SCALE

NULL: Final = r'(null|\{\s*"schema"\s*:\s*null\s*,\s*"payload"\s*:\s*null\s*\})'
"""A null value in JSON, bare or with a null schema."""
DECIMAL: Final = "org.apache.kafka.connect.data.Decimal"
VARIABLE_DECIMAL: Final = "io.debezium.data.VariableScaleDecimal"
_UUID: Final = "io.debezium.data.Uuid"
_NO_UUID: Final = "00000000-0000-0000-0000-000000000000"
_MOMENTS: Final = frozenset(("date", "timestamp", "timestamp_ntz"))
_STRUCTURED: Final = "io.debezium.time.Structured"
_EPOCH_DAY: Final = {"year": "1970", "month": "1", "day": "1"}
_CLOCK: Final = ("hour", "minute", "second", "nanos", "picoseconds")
_EPOCH: Final = re.compile(r"0|1970-01-01([T ]00:00:00(\.0+)?)?Z?")
_PLAIN: Final = {
    "int8": ColumnType("int"), "int16": ColumnType("int"), "int32": ColumnType("int"),
    "int64": ColumnType("bigint"), "float": ColumnType("float"), "float32": ColumnType("float"),
    "double": ColumnType("double"), "float64": ColumnType("double"),
    "boolean": ColumnType("boolean"), "bytes": ColumnType("binary", "base64"),
}  # fmt: skip
_TYPES: Final = frozenset((*_PLAIN, "string", "struct", "array", "map"))
_SEMANTIC: Final = {
    "org.apache.kafka.connect.data.Date": ColumnType("date", "days"),
    "org.apache.kafka.connect.data.Time": ColumnType("time", "ms"),
    "org.apache.kafka.connect.data.Timestamp": ColumnType("timestamp_ntz", "ms"),
    "io.debezium.time.Date": ColumnType("date", "days"),
    "io.debezium.time.Time": ColumnType("time", "ms"),
    "io.debezium.time.MicroTime": ColumnType("time", "us"),
    "io.debezium.time.NanoTime": ColumnType("time", "ns"),
    "io.debezium.time.Timestamp": ColumnType("timestamp_ntz", "ms"),
    "io.debezium.time.MicroTimestamp": ColumnType("timestamp_ntz", "us"),
    "io.debezium.time.NanoTimestamp": ColumnType("timestamp_ntz", "ns"),
    "io.debezium.time.ZonedTimestamp": ColumnType("timestamp"),
    "io.debezium.time.IsoDate": ColumnType("date"),
    "io.debezium.time.IsoTimestamp": ColumnType("timestamp_ntz"),
    VARIABLE_DECIMAL: ColumnType("string", VARIABLE),
}  # fmt: skip


class _Number(str):
    """A number of a schema as it is spelt there: a default is compared with values by its text,
    and a float or a decimal would spell it in another way."""

    __slots__ = ()


def row_columns(types: str, *, numeric: bool) -> list[SourceColumn]:
    """Return the columns of the envelope's `after`, or of `before`; [] without either.

    `numeric`: decimals are plain numbers (the converter's `decimal.format=NUMERIC`).
    """
    fields = row_fields(types, ("after", "before"))
    kinds = [connect_type(f) for f in fields]
    if numeric:
        kinds = [replace(k, encoding="") if _is_decimal(k) else k for k in kinds]
    return [source_column(f, k) for f, k in zip(fields, kinds, strict=True)]


def _is_decimal(kind: ColumnType) -> bool:
    unscaled = (UNSCALED, f"{LISTED}string[{UNSCALED}")
    return kind.name == "decimal" or kind.encoding.startswith(unscaled)


def row_fields(types: str, images: Sequence[str]) -> list[dict[str, Any]]:
    """Return the fields of the first of these images in the envelope's schema.

    Fields whose type is not Connect's are left out: the schema is damaged there.
    """
    fields = json.loads(types, parse_float=_Number, parse_int=_Number).get("fields") or []
    structs = {f.get("field"): f for f in fields if f.get("type") == "struct"}
    row: dict[str, Any] = next((structs[n] for n in images if structs.get(n)), {})
    return [field for field in row.get("fields", []) if str(field["type"]) in _TYPES]


def source_column(field: dict[str, Any], kind: ColumnType) -> SourceColumn:
    """Return a field as a column of this type."""
    default = field.get("default")
    text = None if default is None else _text(default)
    return SourceColumn(
        name=field["field"],
        type=kind,
        default=None if text is None or _is_made_up(field, kind, text) else text,
    )


def _is_made_up(field: dict[str, Any], kind: ColumnType, default: str) -> bool:
    """Whether Debezium put a default in place of an expression: `now()`, `gen_random_uuid()`.

    The zero or empty text that it puts for other expressions may also be a real default.
    """
    if field.get("name") == _UUID:
        return default == _NO_UUID
    if str(field.get("name")).startswith(_STRUCTURED):
        return _is_epoch(field["default"])
    return kind.name in _MOMENTS and _EPOCH.fullmatch(default) is not None


def _is_epoch(parts: Any) -> bool:
    """Whether parts of `time.precision.mode=structured` are 1970-01-01, at midnight if at all."""
    dated = isinstance(parts, dict) and {n: str(parts.get(n)) for n in _EPOCH_DAY} == _EPOCH_DAY
    return dated and all(str(parts.get(name, 0)) == "0" for name in _CLOCK)


def connect_type(field: dict[str, Any]) -> ColumnType:
    """Return a Connect field's type; a value without an Iceberg type stays text."""
    name = field.get("name")
    if name == DECIMAL:
        return _connect_decimal(field.get("parameters") or {})
    if name in _SEMANTIC:
        return _SEMANTIC[name]
    if field["type"] == "array":
        return listed(_element_type(field.get("items")))
    return _PLAIN.get(str(field["type"]), STRING)


def _element_type(items: Any) -> ColumnType:
    """Return how a list's elements are written; text where they need no conversion."""
    if not isinstance(items, dict):
        return STRING
    if items.get("name") == DECIMAL:
        return ColumnType("string", f"{UNSCALED}{_scale(items.get('parameters') or {})}")
    return _SEMANTIC.get(str(items.get("name")), STRING)


def _connect_decimal(parameters: dict[str, str]) -> ColumnType:
    scale = _scale(parameters)
    precision = int(parameters.get("connect.decimal.precision", 38))
    if 0 <= scale <= precision <= 38:
        return decimal(precision, scale, "base64")
    return ColumnType("string", f"{UNSCALED}{scale}")


def _scale(parameters: dict[str, str]) -> int:
    scale = int(parameters.get("scale", 0))
    if abs(scale) > MOST_SCALE:
        raise ValueError(f"no decimal has a scale of {scale}")
    return scale


def _text(value: object) -> str:
    return value if isinstance(value, str) else _json(value)


def _json(value: object) -> str:
    """Return JSON as Connect's converter writes a value: compact, numbers as they are spelt."""
    if isinstance(value, dict):
        return "{" + ",".join(f"{_json(name)}:{_json(part)}" for name, part in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(_json, value)) + "]"
    if isinstance(value, _Number):
        return str(value)
    return json.dumps(value, ensure_ascii=False)
