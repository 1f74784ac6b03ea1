"""Avro as Confluent's converter writes Connect's schemas: read as Connect's JSON would show them.

An Avro schema becomes the Connect schema that it was made of (`connect.name`,
`connect.parameters`, `connect.type`; a bare `logicalType` counts as Connect's own), and a value the
text that the JSON converter gives for it, so hints and types are the same in both encodings.
Source: AvroData of Confluent's Avro converter, read together with `connect.py`.
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
from spark_jobs.formats import avro
from spark_jobs.formats.avro import Node
from spark_jobs.formats.connect import DECIMAL, VARIABLE_DECIMAL
from spark_jobs.number_text import MOST_SCALE, decimal_text

NAME: Final = "connect.name"
PARAMETERS: Final = "connect.parameters"
_PRECISION: Final = "connect.decimal.precision"
_UNKNOWN_PRECISION: Final = 64
"""What the converter writes where the connector does not tell the precision."""
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
    """What a record's key or value is where `mine` holds: a column and its schema."""

    mine: Column
    value: Column
    node: Node


@dataclass(frozen=True)
class Records:
    """Decoded records with their place, whatever they were carried in.

    `empty`: the value is null; `refused`: why a record could not be decoded, else NULL; `raw`: its
    text. `keys` and `values` have an entry a schema.
    """

    rows: DataFrame
    keys: list[Datum]
    values: list[Datum]
    empty: Column
    refused: Column
    raw: Column


def resolve(documents: Iterable[Any], where: str) -> Node:
    """The last schema of a list, with the types of all put in where they are used.

    Names are made full, logical types become Connect's names. Raises TerminalError for what is no
    schema, and for a type that contains itself: no table can hold it.
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
    # Debezium leaves a table's name in the namespace that begins with a digit; Spark refuses it.
    return re.sub(r"(?<![^.])(?=\d)", "_", full)


def _full_definition(node: Node, namespace: str) -> Node:
    name = _full_name(node["name"], namespace)
    kept = {k: v for k, v in _named_as_connect(node).items() if k != "namespace"} | {"name": name}
    if node["type"] != "record":
        return kept
    within = name.rpartition(".")[0]
    fields = [f | {"type": _full(f["type"], within)} for f in node["fields"]]
    return {"type": "record", "name": name, "fields": fields}


def _named_as_connect(node: Node) -> Node:
    """`logicalType` and its attributes as Connect's; the values themselves stay raw."""
    kept = {k: v for k, v in node.items() if k != "logicalType"}
    name = _LOGICAL.get((node["type"], node.get("logicalType", "")))
    if name is None:
        return kept
    if name != DECIMAL:
        return {NAME: name, **kept}
    parameters = {"scale": str(node.get("scale", 0))}
    if node.get("precision", _UNKNOWN_PRECISION) != _UNKNOWN_PRECISION:
        parameters[_PRECISION] = str(node["precision"])
    return {**kept, NAME: name, PARAMETERS: parameters | node.get(PARAMETERS, {})}


def writer_schema(node: Node) -> Any:
    """A schema that decodes what `node` describes into raw numbers and bytes."""
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
    """A record as a struct field of a Connect schema."""
    fields = [_connect_field(field) for field in row["fields"]]
    return {"field": name, "type": "struct", "optional": True, "fields": fields}


def _connect_field(declared: Node) -> dict[str, Any]:
    node = declared["type"]
    value = avro.value_of(node)
    field = {"field": declared["name"], "optional": avro.nullable(node)}
    exact = _exact_default(value, declared.get("default"))
    if _is_text_decimal(value):
        return {**field, "type": "struct", NAME: VARIABLE_DECIMAL, "default": exact}
    kind = value.get("connect.type") or _CONNECT.get(value["type"], "string")
    told = {"name": _semantic(value), "parameters": value.get(PARAMETERS)}
    told["default"] = exact or _default(value)
    told["items"] = _element(value["items"]) if value["type"] == "array" else None
    return {**field, "type": kind, **{k: v for k, v in told.items() if v is not None}}


def _element(node: Node) -> dict[str, Any]:
    """What a list is of. Its decimals of any scale are the bytes that they are."""
    value = avro.value_of(node)
    told = {"name": _semantic(value), "parameters": value.get(PARAMETERS)}
    return {"type": _CONNECT.get(value["type"], "string"), **told}


def _semantic(value: Node) -> str | None:
    return value["name"] if value["type"] == "record" else value.get(NAME)


def _default(value: Node) -> Any:
    """A default as Connect's JSON has it: Avro writes bytes as one character each."""
    default = value.get("connect.default")
    if value["type"] not in ("bytes", "fixed") or not isinstance(default, str):
        return default
    return base64.b64encode(default.encode("latin-1", "replace")).decode()


def _exact_default(value: Node, default: Any) -> str | None:
    """The default of a decimal that is read as its text, from the field, so of one column alone."""
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
    """A decimal that is known not to fit 38 digits: it is read as its exact text."""
    if value.get(NAME) != DECIMAL:
        return False
    precision = int(value.get(PARAMETERS, {}).get(_PRECISION, avro.MAX_DIGITS))
    return not 0 <= _scale(value) <= precision <= avro.MAX_DIGITS


def _scale(value: Node) -> int:
    return int(value.get(PARAMETERS, {}).get("scale", 0))


def texts(values: Sequence[tuple[Column, Node]]) -> Column:
    """The exact texts of a row's columns, as Connect's JSON has them.

    Decimals of any scale are plain numbers. One expression makes them for all columns: it is so
    long that with one for each a row of Oracle's numbers would not fit into the driver.
    """
    read = [(value, avro.value_of(node)) for value, node in values]
    numbers = [_unscaled(value, node) for value, node in read]
    plain = [
        F.lit(None) if number else avro.text(*one)
        for one, number in zip(read, numbers, strict=True)
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
    """A number that is too long to be shown, as Connect's JSON has it: it fits no column."""
    shown = F.to_json(F.struct(part["scale"], F.base64(part["raw"]).alias("value")))
    return F.when(part["raw"].isNotNull(), shown)


def text(value: Column, node: Node) -> Column:
    """The exact text of one value; see `texts`."""
    return F.get(texts([(value, node)]), F.lit(0))


def _unscaled(value: Column, node: Node) -> tuple[Column, Column] | None:
    """Bytes and scale of a decimal that is shown as its text; None for anything else."""
    if _is_variable(node):
        return value["value"], value["scale"]
    return (value, F.lit(_scale(node))) if _is_text_decimal(node) else None


def _part(text: Column, raw: Column, scale: Column) -> Column:
    return F.struct(
        text.cast("string").alias("text"),
        raw.cast("binary").alias("raw"),
        scale.cast("int").alias("scale"),
    )
