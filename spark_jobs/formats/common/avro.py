"""Avro records as text: the types that Spark reads, and each value's exact text and column type.

Times, dates and decimals beyond 38 digits are read as their underlying numbers and bytes, so
nothing is rounded, rebased to a calendar or cut. The session's time zone has to be UTC.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from typing import Any, Final

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql import types as T

from sluice.containers.avro_check import full_name
from sluice.types.columns import STRING, ColumnType, decimal
from spark_jobs.evaluated_once import bound
from spark_jobs.number_text import shift_point, whole_number
from spark_jobs.values import ISO, decode

Node = dict[str, Any]

MAX_DIGITS: Final = 38
_RECORDS_AS_VALUES: Final = "value"
_PRIMITIVES: Final[dict[str, T.DataType]] = {
    "null": T.NullType(), "boolean": T.BooleanType(), "int": T.IntegerType(),
    "long": T.LongType(), "float": T.FloatType(), "double": T.DoubleType(),
    "string": T.StringType(), "enum": T.StringType(), "bytes": T.BinaryType(),
    "fixed": T.BinaryType(),
}  # fmt: skip
_NAMES: Final = {
    "boolean": "boolean", "int": "int", "long": "bigint", "float": "float", "double": "double",
}  # fmt: skip
_LOGICAL: Final = {
    ("int", "date"): ColumnType("date"),
    ("int", "time-millis"): ColumnType("time"),
    ("long", "time-micros"): ColumnType("time"),
    ("long", "timestamp-millis"): ColumnType("timestamp"),
    ("long", "timestamp-micros"): ColumnType("timestamp"),
    ("long", "timestamp-nanos"): ColumnType("timestamp", "ns"),
    ("long", "local-timestamp-millis"): ColumnType("timestamp_ntz"),
    ("long", "local-timestamp-micros"): ColumnType("timestamp_ntz"),
    ("long", "local-timestamp-nanos"): ColumnType("timestamp_ntz", "ns"),
}
INTERNAL_TYPE: Final = "connect.internal.type"
"""The property with which Confluent's AvroData marks an entry of a named map."""
_ENTRY: Final = "MapEntry"
_ENTRY_FULL_NAME: Final = f"io.confluent.connect.avro.{_ENTRY}"
_ENTRY_FIELDS: Final = ("key", "value")
_UNIFIED: Final = {
    "varchar": "string", "timestampTz": "timestamp", "datetime": "timestamp_ntz",
    "calendarDate": "date", "year": "int",
}  # fmt: skip
_TEXTS: Final = frozenset(("string", "enum"))
_PAIR: Final = ("\ue000", "\ue001", "\ue002")
"""Names of a struct's fields that make its JSON one that `_with_pairs` can tell from any other."""
_OPEN: Final[Node] = {"type": "record"}
"""Stands for a record while its fields are resolved."""
_MOST_MILLIS: Final = (2**63 - 1) // 1000
"""Beyond this number of milliseconds Spark fails the batch instead of making a timestamp."""


class ContainsItselfError(ValueError):
    """A type contains itself: no table column can hold it."""


def parse(text: str) -> Node:
    """Parse a schema's JSON and replace named types by their definitions.

    Raises ContainsItselfError, and ValueError for a type that is not defined.
    """
    return _resolve(json.loads(text), "", {})


def _resolve(node: Any, namespace: str, named: dict[str, Node]) -> Node:
    if isinstance(node, list):
        return {"type": "union", "branches": [_resolve(n, namespace, named) for n in node]}
    if isinstance(node, str):
        return _named(node, namespace, named)
    if not isinstance(node["type"], str):
        return _resolve(node["type"], namespace, named)
    if node["type"] == "record":
        return _record(node, namespace, named)
    if node["type"] in ("array", "map"):
        inner = "items" if node["type"] == "array" else "values"
        return {"type": node["type"], inner: _resolve(node[inner], namespace, named)}
    node = _without_wrong_decimal(node)
    if node["type"] in ("enum", "fixed"):
        _register(node, namespace, named, node)
    return node if node["type"] in _PRIMITIVES else _named(node["type"], namespace, named)


def _named(name: str, namespace: str, named: dict[str, Node]) -> Node:
    if name in _PRIMITIVES:
        return {"type": name}
    definition = named.get(f"{namespace}.{name}") or named.get(name)
    if definition is _OPEN:
        raise ContainsItselfError(f"the Avro type {name!r} contains itself")
    if definition is None:
        raise ValueError(f"the Avro type {name!r} is not defined before it is used")
    return definition


def _register(node: Node, namespace: str, named: dict[str, Node], resolved: Node) -> None:
    """Register a type by its full name, and by its bare name, which some writers use."""
    full = full_name(node, namespace)
    named[full] = named[full.rpartition(".")[2]] = resolved


def _record(node: Node, namespace: str, named: dict[str, Node]) -> Node:
    full = full_name(node, namespace)
    named[full], inner = _OPEN, full.rpartition(".")[0]
    kept = {k: node[k] for k in ("type", "name", INTERNAL_TYPE) if k in node}
    fields = [
        {k: f[k] for k in ("name", "default") if k in f}
        | {"type": _resolve(f["type"], inner, named)}
        for f in node["fields"]
    ]
    resolved = kept | {"namespace": inner, "fields": fields}
    _register(node, namespace, named, resolved)
    return resolved


def _without_wrong_decimal(node: Node) -> Node:
    """Drop an invalid decimal type: Avro's specification ignores invalid logical types."""
    wrong = _is_decimal(node) and not _has_digits(node)
    return {k: v for k, v in node.items() if not (wrong and k == "logicalType")}


def _has_digits(node: Node) -> bool:
    precision, scale = node.get("precision"), node.get("scale", 0)
    if not (isinstance(precision, int) and isinstance(scale, int) and 0 <= scale <= precision):
        return False
    bits = 8 * node["size"] - 1 if node["type"] == "fixed" else math.inf
    return 0 < precision <= math.log10(2) * bits


def reader_schema(text: str) -> str | None:
    """Return the schema with invalid decimals and those beyond 38 digits as bytes; None if none.

    Spark refuses such a decimal even if only its bytes are requested.
    """
    schema = json.loads(text)
    plain = _without_wide_decimals(schema)
    return None if plain == schema else json.dumps(plain)


def _without_wide_decimals(node: Any) -> Any:
    if isinstance(node, list):
        return [_without_wide_decimals(n) for n in node]
    if not isinstance(node, dict):
        return node
    node = _without_wrong_decimal(node)
    wide = _is_decimal(node) and node["precision"] > MAX_DIGITS
    kept = {k: v for k, v in node.items() if not (wide and k == "logicalType")}
    return {k: v if k == "default" else _without_wide_decimals(v) for k, v in kept.items()}


def nullable(node: Node) -> bool:
    """Whether the value can be null."""
    return node["type"] == "null" or any(b["type"] == "null" for b in node.get("branches", ()))


def value_of(node: Node) -> Node:
    """Return the type without null; a union that Spark reads as one number is that number."""
    if node["type"] != "union":
        return node
    branches = [b for b in node["branches"] if b["type"] != "null"]
    kinds = {b["type"] for b in branches}
    if kinds in ({"int", "long"}, {"float", "double"}):
        return {"type": "long" if "long" in kinds else "double"}
    if not branches:
        return {"type": "null"}
    return branches[0] if len(branches) == 1 else {"type": "union", "branches": branches}


def spark_type(node: Node) -> T.DataType:
    """Return the Spark type that reads a value without loss."""
    node = value_of(node)
    kind = node["type"]
    if kind == "record":
        return T.StructType(
            [T.StructField(f["name"], spark_type(f["type"])) for f in node["fields"]]
        )
    if kind == "union":
        members = enumerate(node["branches"])
        return T.StructType([T.StructField(f"member{i}", spark_type(b)) for i, b in members])
    if kind == "array":
        return T.ArrayType(spark_type(node["items"]))
    if kind == "map":
        return T.MapType(T.StringType(), spark_type(node["values"]))
    if _is_decimal(node) and node["precision"] <= MAX_DIGITS:
        return T.DecimalType(node["precision"], node.get("scale", 0))
    return _PRIMITIVES[kind]


def column_type(node: Node, records: str = "json") -> ColumnType:
    """Return the column type for a value; records, arrays and maps are JSON text."""
    node = value_of(node)
    kind = node["type"]
    if records == _RECORDS_AS_VALUES and _unified(node):
        return ColumnType(_unified(node))
    if _is_decimal(node):
        fits = node["precision"] <= MAX_DIGITS
        return decimal(node["precision"], node.get("scale", 0)) if fits else STRING
    if kind in ("bytes", "fixed"):
        return ColumnType("binary", "base64")
    plain = ColumnType(_NAMES.get(kind, "string"))
    return _LOGICAL.get((kind, node.get("logicalType", "")), plain)


def text(value: Column, node: Node, records: str = "json") -> Column:
    """Return a value's exact text, NULL for null; `column_type` is the type to parse it as."""
    node = value_of(node)
    if records == _RECORDS_AS_VALUES and _unified(node):
        return _UNIFIED_TEXTS[node["name"]](value)
    if node["type"] in ("record", "array", "map"):
        shown = F.to_json(_plain(value, node), {"ignoreNullFields": "false"})
        return _with_pairs(shown) if _holds_pairs(node) else shown
    return _plain(value, node).cast("string")


def _plain(value: Column, node: Node) -> Column:
    """Return a value in the form that JSON should show."""
    node = value_of(node)
    kind = node["type"]
    if kind == "record":
        fields = [_plain(value[f["name"]], f["type"]).alias(f["name"]) for f in node["fields"]]
        return F.when(value.isNotNull(), F.struct(*fields))
    if kind == "union":
        members = enumerate(node["branches"])
        return F.coalesce(*(text(value[f"member{i}"], b) for i, b in members))
    if kind == "array":
        shown = _pair if _is_pairs(node) else _plain
        return F.transform(value, lambda v: shown(v, node["items"]))
    if kind == "map":
        return F.transform_values(value, lambda _, v: _plain(v, node["values"]))
    if _is_decimal(node) and node["precision"] > MAX_DIGITS:
        return F.when(value.isNotNull(), _wide_decimal(value, node.get("scale", 0)))
    if kind in ("bytes", "fixed") and not _is_decimal(node):
        return F.base64(value)
    return _logical(value, kind, node.get("logicalType", ""))


def is_entries(node: Node) -> bool:
    """Whether a list is a map of Kafka Connect: Avro's own has no keys but texts.

    Source: `isMapEntry` of Confluent's AvroData, which knows the record of an entry by its full
    name or, in a named map, by a property.
    """
    entry = node.get("items", node)
    if node["type"] != "array" or entry["type"] != "record":
        return False
    known = full_name(entry, "") == _ENTRY_FULL_NAME or entry.get(INTERNAL_TYPE) == _ENTRY
    return known and tuple(fields_of(entry)) == _ENTRY_FIELDS


def _is_pairs(node: Node) -> bool:
    """Whether a list is such a map whose keys are no texts: only of these Connect's JSON converter
    writes pairs."""
    return is_entries(node) and value_of(fields_of(node["items"])["key"])["type"] not in _TEXTS


def _holds_pairs(node: Node) -> bool:
    """Whether a value has such a map anywhere; members of unions are texts of their own."""
    node = value_of(node)
    inner = [field["type"] for field in node.get("fields", ())]
    inner += [node[name] for name in ("items", "values") if name in node]
    return _is_pairs(node) or any(map(_holds_pairs, inner))


def _pair(value: Column, entry: Node) -> Column:
    """Return an entry of such a map in the form that `_with_pairs` replaces: Spark's lists cannot
    hold values of two types."""
    fields = fields_of(entry)
    parts = [_plain(value[name], fields[name]) for name in _ENTRY_FIELDS]
    parts.append(F.lit(None).cast("string"))
    return F.struct(*(part.alias(mark) for part, mark in zip(parts, _PAIR, strict=True)))


def _with_pairs(shown: Column) -> Column:
    """Replace the entries by lists of two, as Connect's JSON converter writes them.

    No text has these marks in JSON: its quotes are escaped.
    """
    begin, middle, end = _PAIR
    marks = {f'{{"{begin}":': "[", f',"{middle}":': ",", f',"{end}":null}}': "]"}
    for mark, part in marks.items():
        shown = F.replace(shown, F.lit(mark), F.lit(part))
    return shown


def _logical(value: Column, kind: str, logical: str) -> Column:
    if (kind, logical) not in _LOGICAL or logical.endswith("-nanos"):
        return value
    if logical == "date":
        return F.date_from_unix_date(value).cast("string")
    if logical.startswith("time-"):
        unit = "ms" if logical.endswith("millis") else "us"
        clock = decode(value.cast("string"), ColumnType("time", unit))
        return F.when(value.isNotNull(), clock)
    zone = "" if logical.startswith("local-") else "'Z'"
    if logical.endswith("micros"):
        return F.date_format(F.timestamp_micros(value), ISO + zone)
    # A number out of range keeps its own text, which then does not fit the column.
    shown = F.date_format(F.timestamp_millis(value), ISO + zone)
    in_range = value.between(-_MOST_MILLIS, _MOST_MILLIS)
    return F.when(in_range, shown).otherwise(value.cast("string"))


def _is_decimal(node: Node) -> bool:
    return node.get("type") in ("bytes", "fixed") and node.get("logicalType") == "decimal"


def _unified(node: Node) -> str:
    """Return the type of one of Datastream's records that stand for one value; '' of any other."""
    return _UNIFIED.get(node["name"], "") if node["type"] == "record" else ""


def _local_time(value: Column) -> Column:
    date = _logical(value["date"], "int", "date")
    return F.concat(date, F.lit("T"), _logical(value["time"], "long", "time-micros"))


def _calendar_date(value: Column) -> Column:
    date = F.format_string("%04d-%02d-%02d", value["year"], value["month"], value["day"])
    return F.when(value.isNotNull(), date)


_UNIFIED_TEXTS: Final[dict[str, Callable[[Column], Column]]] = {
    "varchar": lambda value: value["value"],
    "timestampTz": lambda value: _logical(value["timestamp"], "long", "timestamp-micros"),
    "datetime": _local_time,
    "calendarDate": _calendar_date,
    "year": lambda value: value["year"].cast("string"),
}
"""Datastream's records that stand for one value (its page "Unified types"). They tell the logical
types of their fields in two ways, so these are not looked at."""


def is_record(node: Node, name: str) -> bool:
    """Whether a type is the record of that name."""
    return bool(node["type"] == "record" and node["name"] == name)


def _wide_decimal(raw: Column, scale: int) -> Column:
    return bound(whole_number(raw), lambda whole: shift_point(whole, F.lit(scale)))


def fields_of(node: Node) -> dict[str, Node]:
    """Return a record's fields by name."""
    return {f["name"]: f["type"] for f in node["fields"]}
