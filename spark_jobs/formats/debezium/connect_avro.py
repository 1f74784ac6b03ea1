"""Avro of Confluent's converter, read as Connect's JSON converter would have written it.

An Avro schema is turned back into the Connect schema that it was made from (`connect.name`,
`connect.parameters`, `connect.type`; a bare `logicalType` counts as Connect's own), and a value
into the JSON converter's text, so hints and types are the same in both encodings. Source:
AvroData of Confluent's Avro converter, read together with `connect.py`.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from sluice.containers.avro_check import PRIMITIVES
from sluice.errors import TerminalError
from spark_jobs.formats.common import avro
from spark_jobs.formats.common.avro import Node
from spark_jobs.formats.common.connect import DECIMAL, VARIABLE_DECIMAL
from spark_jobs.number_text import MOST_SCALE, decimal_text

_NAME: Final = "connect.name"
_PARAMETERS: Final = "connect.parameters"
_TYPE: Final = "connect.type"
_PRECISION: Final = "connect.decimal.precision"
_UNKNOWN_PRECISION: Final = 64
"""The precision that the converter writes where the connector gives none."""
_LOGICAL: Final = {
    ("bytes", "decimal"): DECIMAL,
    ("fixed", "decimal"): DECIMAL,
    ("int", "date"): "org.apache.kafka.connect.data.Date",
    ("int", "time-millis"): "org.apache.kafka.connect.data.Time",
    ("long", "time-micros"): "io.debezium.time.MicroTime",
    ("long", "timestamp-millis"): "org.apache.kafka.connect.data.Timestamp",
    ("long", "timestamp-micros"): "io.debezium.time.MicroTimestamp",
    ("long", "timestamp-nanos"): "io.debezium.time.NanoTimestamp",
    ("long", "local-timestamp-millis"): "org.apache.kafka.connect.data.Timestamp",
    ("long", "local-timestamp-micros"): "io.debezium.time.MicroTimestamp",
    ("long", "local-timestamp-nanos"): "io.debezium.time.NanoTimestamp",
}
_CONNECT: Final = {
    "int": "int32", "long": "int64", "float": "float32", "double": "float64",
    "boolean": "boolean", "string": "string", "enum": "string", "bytes": "bytes",
    "fixed": "bytes", "record": "struct", "array": "array", "map": "map",
}  # fmt: skip


@dataclass(frozen=True, eq=False)
class Datum:
    """A record's key or value where `applies` holds: a column and its schema."""

    applies: Column
    value: Column
    node: Node


@dataclass(frozen=True)
class Records:
    """Decoded records with their place.

    `keys` and `values` have an entry for each schema. `empty`: the value is null. `rejected`: why a
    record could not be decoded, else NULL. `raw`: the record's text.
    """

    rows: DataFrame
    keys: list[Datum]
    values: list[Datum]
    empty: Column
    rejected: Column
    raw: Column


def resolve(documents: Iterable[Any], where: str) -> Node:
    """Return the last schema of a list, with all named types inlined.

    Names become full names, logical types Connect's names. Raises TerminalError for an invalid
    schema, and, because of `avro.ContainsItselfError`, for one that no table can hold.
    """
    try:
        full = [_full(document, "") for document in documents]
        node: Node = avro.parse(json.dumps(full))["branches"][-1]
    except (ValueError, KeyError, TypeError) as error:
        raise TerminalError(f"{where}: no Avro schema that can be read ({error!r})") from error
    return node


def _full(node: Any, namespace: str) -> Any:
    if isinstance(node, list):
        return [_full(branch, namespace) for branch in node]
    if isinstance(node, str):
        return node if node in PRIMITIVES else _full_name(node, namespace)
    kind = node["type"]
    if not isinstance(kind, str):
        return _full(kind, namespace)
    if kind in ("array", "map"):
        inner = "items" if kind == "array" else "values"
        return {"type": kind, inner: _full(node[inner], namespace)}
    if kind in ("record", "enum", "fixed"):
        return _full_definition(node, node.get("namespace", namespace))
    return _named_as_connect(node) if kind in PRIMITIVES else _full_name(kind, namespace)


def _full_name(name: str, namespace: str) -> str:
    full = name if "." in name or not namespace else f"{namespace}.{name}"
    # Debezium keeps table names that begin with a digit in the namespace; Spark refuses these.
    return re.sub(r"(?<![^.])(?=\d)", "_", full)


def _full_definition(node: Node, namespace: str) -> Node:
    name = _full_name(node["name"], namespace)
    kept = {k: v for k, v in _named_as_connect(node).items() if k != "namespace"} | {"name": name}
    if node["type"] != "record":
        return kept
    within = name.rpartition(".")[0]
    fields = [f | {"type": _full(f["type"], within)} for f in node["fields"]]
    mark = {k: node[k] for k in (avro.INTERNAL_TYPE,) if k in node}
    return {"type": "record", "name": name, "fields": fields} | mark


def _named_as_connect(node: Node) -> Node:
    """Replace `logicalType` and its attributes by Connect's, so that Spark reads raw values."""
    kept = {k: v for k, v in node.items() if k != "logicalType"}
    name = _LOGICAL.get((node["type"], node.get("logicalType", "")))
    if name is None:
        return kept
    if name != DECIMAL:
        return {_NAME: name, **kept}
    parameters = {"scale": str(node.get("scale", 0))}
    if node.get("precision", _UNKNOWN_PRECISION) != _UNKNOWN_PRECISION:
        parameters[_PRECISION] = str(node["precision"])
    return {**kept, _NAME: name, _PARAMETERS: parameters | node.get(_PARAMETERS, {})}


def writer_schema(node: Node) -> Any:
    """Return an Avro schema that decodes `node` into raw numbers and bytes."""
    return _written(node, set())


def _written(node: Node, defined: set[str]) -> Any:
    kind = node["type"]
    if kind == "union":
        return [_written(branch, defined) for branch in node["branches"]]
    if kind in ("array", "map"):
        inner = "items" if kind == "array" else "values"
        return {"type": kind, inner: _written(node[inner], defined)}
    if kind not in ("record", "enum", "fixed"):
        return kind
    if node["name"] in defined:
        return node["name"]
    defined.add(node["name"])
    shape: Node = {k: node[k] for k in ("type", "name", "symbols", "size") if k in node}
    if kind == "record":
        fields = ((f["name"], _written(f["type"], defined)) for f in node["fields"])
        shape["fields"] = [{"name": name, "type": inner} for name, inner in fields]
    return shape


def row_schema(name: str, row: Node) -> dict[str, Any]:
    """Return a record as a struct field of a Connect schema."""
    fields = [_connect_field(field) for field in row["fields"]]
    return {"field": name, "type": "struct", "optional": True, "fields": fields}


def _connect_field(declared: Node) -> dict[str, Any]:
    node = declared["type"]
    value = avro.value_of(node)
    field = {"field": declared["name"], "optional": avro.nullable(node)}
    exact = _exact_default(value, declared.get("default"))
    if _is_text_decimal(value):
        return {**field, "type": "struct", _NAME: VARIABLE_DECIMAL, "default": exact}
    kind = _kind(value)
    details = {"name": _semantic(value), "parameters": value.get(_PARAMETERS)}
    details["default"] = exact or _default(value)
    details["items"] = _element(value["items"]) if kind == "array" else None
    return {**field, "type": kind, **{k: v for k, v in details.items() if v is not None}}


def _kind(value: Node) -> str:
    """Return the type's name in Connect: Avro lacks two of its numbers, and maps by number."""
    if avro.is_entries(value):
        return "map"
    return value.get(_TYPE) or _CONNECT.get(value["type"], "string")


def _element(node: Node) -> dict[str, Any]:
    """Return the type of a list's elements. Decimals of any scale stay bytes there."""
    value = avro.value_of(node)
    details = {"name": _semantic(value), "parameters": value.get(_PARAMETERS)}
    return {"type": _CONNECT.get(value["type"], "string"), **details}


def _semantic(value: Node) -> str | None:
    return value["name"] if value["type"] == "record" else value.get(_NAME)


def _default(value: Node) -> Any:
    """Return a default as in Connect's JSON: Avro writes each byte as a character."""
    default = value.get("connect.default")
    if value["type"] not in ("bytes", "fixed") or not isinstance(default, str):
        return default
    return base64.b64encode(default.encode("latin-1", "replace")).decode()


def _exact_default(value: Node, default: Any) -> str | None:
    """Return the default of a decimal that is read as text.

    It is the field's, not the type's: several columns may share a named type.
    """
    if _is_variable(value) and isinstance(default, dict):
        scale, raw = default["scale"], default["value"]
    elif _is_text_decimal(value) and isinstance(default, str):
        scale, raw = _scale(value), default
    else:
        return None
    whole = int.from_bytes(raw.encode("latin-1", "replace"), "big", signed=True)
    return format(Decimal(f"{whole}E{-scale}"), "f") if abs(scale) <= MOST_SCALE else None


def _is_variable(value: Node) -> bool:
    return avro.is_record(value, VARIABLE_DECIMAL)


def _is_text_decimal(value: Node) -> bool:
    """Whether a decimal's declared digits exceed 38, so that it is read as its exact text."""
    if value.get(_NAME) != DECIMAL:
        return False
    precision = int(value.get(_PARAMETERS, {}).get(_PRECISION, avro.MAX_DIGITS))
    return not 0 <= _scale(value) <= precision <= avro.MAX_DIGITS


def _scale(value: Node) -> int:
    return int(value.get(_PARAMETERS, {}).get("scale", 0))


def texts(values: Sequence[tuple[Column, Node]]) -> Column:
    """Return the exact texts of a row's columns, as in Connect's JSON.

    Decimals of any scale become plain numbers. One expression does so for all columns: it is so
    long that one for each column of a wide Oracle row would exceed the driver's memory.
    """
    typed = [(value, avro.value_of(node)) for value, node in values]
    numbers = [_unscaled(value, node) for value, node in typed]
    plain = [
        F.lit(None) if number else avro.text(*one)
        for one, number in zip(typed, numbers, strict=True)
    ]
    if not any(numbers):
        return F.array(*plain).cast("array<string>")
    nothing = (F.lit(None), F.lit(None))
    parts = [_part(text, *(number or nothing)) for text, number in zip(plain, numbers, strict=True)]
    return F.transform(
        F.array(*parts),
        lambda part: F.coalesce(part["text"], decimal_text(part["raw"], part["scale"]), _raw(part)),
    )


def _raw(part: Column) -> Column:
    """A number that is too long for plain text, as in Connect's JSON: it fits no column."""
    shown = F.to_json(F.struct(part["scale"], F.base64(part["raw"]).alias("value")))
    return F.when(part["raw"].isNotNull(), shown)


def text(value: Column, node: Node) -> Column:
    """Return the exact text of one value; see `texts`."""
    return F.get(texts([(value, node)]), F.lit(0))


def _unscaled(value: Column, node: Node) -> tuple[Column, Column] | None:
    """Return bytes and scale of a decimal that is read as text; None for any other value."""
    if _is_variable(node):
        return value["value"], value["scale"]
    return (value, F.lit(_scale(node))) if _is_text_decimal(node) else None


def _part(text: Column, raw: Column, scale: Column) -> Column:
    return F.struct(
        text.cast("string").alias("text"),
        raw.cast("binary").alias("raw"),
        scale.cast("int").alias("scale"),
    )
