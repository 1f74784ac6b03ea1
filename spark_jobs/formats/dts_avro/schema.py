"""The schema of DTS Avro records (record.avsc), for containers and for bare datums."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from pyspark.sql import Column
from pyspark.sql import functions as F

FULL_LOAD: Final = "INIT"
MYSQL: Final = ("MySQL", "DRDS")
POSTGRESQL: Final = ("PostgreSQL", "PPAS")
OPERATIONS: Final = (
    "INSERT", "UPDATE", "DELETE", "DDL", "BEGIN", "COMMIT", "ROLLBACK", "ABORT", "HEARTBEAT",
    "CHECKPOINT", "COMMAND", "FILL", "FINISH", "CONTROL", "RDB", "NOOP", FULL_LOAD,
)  # fmt: skip
SOURCES: Final = (
    "MySQL", "Oracle", "SQLServer", "PostgreSQL", "MongoDB", "Redis", "DB2", "PPAS", "DRDS",
    "HBASE", "HDFS", "FILE", "OTHER",
)  # fmt: skip
PARTS: Final = ("year", "month", "day", "hour", "minute", "second", "millis")
# Unions become structs with a field for each branch, by its name.
UNIONS_BY_NAME: Final = {
    "enableStableIdentifiersForUnionType": "true",
    "stableIdentifierPrefixForUnionType": "",
}
# Appended to each bare datum, in bytes that no number ends with; the record must end before it.
END: Final = bytes(range(0x90, 0xA0))
_BORN: Final = "^((?:[89A-F].){0,9}[0-7].)"
_UNKNOWN: Final = "UNKNOWN"
_BRANCHES: Final[dict[str, dict[str, Any]]] = {
    "Integer": {"precision": "int", "value": "string"},
    "Character": {"charset": "string", "value": "bytes"},
    "Decimal": {"value": "string", "precision": "int", "scale": "int"},
    "Float": {"value": "double", "precision": "int", "scale": "int"},
    "Timestamp": {"timestamp": "long", "millis": "int"},
    "DateTime": {part: ["null", "int"] for part in PARTS},
    "TimestampWithTimeZone": {"value": "DateTime", "timezone": "string"},
    "BinaryGeometry": {"type": "string", "value": "bytes"},
    "TextGeometry": {"type": "string", "value": "string"},
    "BinaryObject": {"type": "string", "value": "bytes"},
    "TextObject": {"type": "string", "value": "string"},
}
_NAMESPACE: Final = "com.alibaba.dts.formats.avro"


EXACT_NUMBERS: Final = ("Integer", "Decimal")
BINARY_VALUES: Final = tuple(n for n, fields in _BRANCHES.items() if "bytes" in fields.values())
JSON_WRAPPED: Final = "wrapped:struct<bytes:string,array:string>"


def _json_structs() -> dict[str, str]:
    """Return each type's struct in JSON.

    `printed` is a number's own text and `wrapped` are bytes in an object of their own, see
    `json_records`.
    """
    structs: dict[str, str] = {}
    for name, fields in _BRANCHES.items():
        parts = (
            f"{field}:{structs['DateTime'] if kind == 'DateTime' else _json_kind(kind)}"
            for field, kind in fields.items()
        )
        printed = ",printed:string" if name in (*EXACT_NUMBERS, "Float") else ""
        wrapped = f",{JSON_WRAPPED}" if name in BINARY_VALUES else ""
        structs[name] = f"struct<{','.join(parts)}{printed}{wrapped}>"
    return structs


def _json_kind(kind: Any) -> str:
    return {"bytes": "string", "long": "bigint"}.get(
        str(kind), "int" if isinstance(kind, list) else str(kind)
    )


JSON_CLOCK: Final = _json_structs()["DateTime"]
JSON_VALUE: Final = ",".join(
    f"{name}:{kind}" for name, kind in {**_json_structs(), "EmptyObject": "string"}.items()
)


def record_schema(bare: bool) -> str:
    """Return the reader's schema: record.avsc without unneeded fields.

    Containers are resolved against it, so an unknown enum symbol becomes UNKNOWN. For bare datums
    enums are their numbers, and `end` takes what follows `afterImages` with the appended mark.
    """
    fields = {"name": "string", "dataTypeNumber": "int"}
    types: dict[str, Any] = {
        "version": "int", "id": "long", "sourceTimestamp": "long", "sourcePosition": "string",
        "safeSourcePosition": "string", "sourceTxid": "string",
        "source": _record(
            "Source", {"sourceType": _enum("SourceType", SOURCES, bare), "version": "string"}
        ),
        "operation": _enum("Operation", OPERATIONS, bare),
        "objectName": ["null", "string"],
        "processTimestamps": ["null", {"type": "array", "items": "long"}],
        "tags": {"type": "map", "values": "string"},
        "fields": ["null", "string", {"type": "array", "items": _record("Field", fields)}],
        "beforeImages": _image(*_named(), _empty()),
        "afterImages": _image(*_BRANCHES, "EmptyObject"),
    }  # fmt: skip
    if bare:
        types["end"] = {"type": "fixed", "name": "End", "size": len(END)}
    return json.dumps({**_record("Record", types), "namespace": _NAMESPACE})


def _image(*branches: Any) -> list[Any]:
    """Return the schema of an image; Avro defines a type at its first use and then names it."""
    return ["null", "string", {"type": "array", "items": ["null", *branches]}]


def _named() -> list[dict[str, Any]]:
    return [_record(name, fields) for name, fields in _BRANCHES.items()]


def _empty() -> dict[str, Any]:
    return {"type": "enum", "name": "EmptyObject", "symbols": ["NULL", "NONE"]}


def _record(name: str, fields: Mapping[str, Any]) -> dict[str, Any]:
    listed = [{"name": field, "type": kind} for field, kind in fields.items()]
    return {"type": "record", "name": name, "fields": listed}


def _enum(name: str, symbols: tuple[str, ...], bare: bool) -> Any:
    if bare:
        return "int"
    return {
        "type": "enum", "name": name, "symbols": [*symbols, _UNKNOWN], "default": _UNKNOWN,
    }  # fmt: skip


def ends(end: Column) -> Column:
    """Whether the mark follows directly, or after one whole `bornTimestamp`."""
    born = F.length(F.regexp_extract(end, _BORN, 1))
    rest = F.substr(end, born + 1)
    return F.coalesce(F.startswith(F.lit(END.hex().upper()), rest), F.lit(False))
