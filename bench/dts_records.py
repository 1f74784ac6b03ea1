"""DTS Avro records: the schema as Alibaba describes it, and messages."""

from __future__ import annotations

from typing import Any

import fastavro

NAMESPACE = "com.alibaba.dts.formats.avro"
PARTS = ("year", "month", "day", "hour", "minute", "second", "millis")
VALUES: dict[str, dict[str, Any]] = {
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
SOURCE_TYPES = (
    "MySQL", "Oracle", "SQLServer", "PostgreSQL", "MongoDB", "Redis", "DB2", "PPAS", "DRDS",
    "HBASE", "HDFS", "FILE", "OTHER",
)  # fmt: skip
OPERATIONS = (
    "INSERT", "UPDATE", "DELETE", "DDL", "BEGIN", "COMMIT", "ROLLBACK", "ABORT", "HEARTBEAT",
    "CHECKPOINT", "COMMAND", "FILL", "FINISH", "CONTROL", "RDB", "NOOP", "INIT",
)  # fmt: skip


def named(kind: str, name: str, **rest: Any) -> dict[str, Any]:
    return {"namespace": NAMESPACE, "type": kind, "name": name, **rest}


def record(name: str, fields: dict[str, Any]) -> dict[str, Any]:
    return named("record", name, fields=[{"name": n, "type": t} for n, t in fields.items()])


def union(new_operations: tuple[str, ...] = (), born: bool = True) -> list[dict[str, Any]]:
    """record.avsc: a union of the named types, Record last."""
    values = [record(name, fields) for name, fields in VALUES.items()]
    values.append(named("enum", "EmptyObject", symbols=["NULL", "NONE"]))
    names = [f"{NAMESPACE}.{v['name']}" for v in values]
    image = ["null", "string", {"type": "array", "items": ["null", *names]}]
    operations = [*OPERATIONS, *new_operations]
    fields: dict[str, Any] = {
        "version": "int", "id": "long", "sourceTimestamp": "long", "sourcePosition": "string",
        "safeSourcePosition": "string", "sourceTxid": "string",
        "source": record("Source", {
            "sourceType": named("enum", "SourceType", symbols=[*SOURCE_TYPES]),
            "version": "string"}),
        "operation": named("enum", "Operation", symbols=operations),
        "objectName": ["null", "string"],
        "processTimestamps": ["null", {"type": "array", "items": "long"}],
        "tags": {"type": "map", "values": "string"},
        "fields": ["null", "string", {"type": "array", "items": f"{NAMESPACE}.Field"}],
        "beforeImages": image, "afterImages": image,
    }  # fmt: skip
    if born:
        fields["bornTimestamp"] = "long"
    field = record("Field", {"name": "string", "dataTypeNumber": "int"})
    return [field, *values, record("Record", fields)]


def flat(**kinds: Any) -> Any:
    """Record alone, with each named type in line where it is used first."""
    *types, top = union(**kinds)
    return fastavro.parse_schema(_in_line(top, {f"{NAMESPACE}.{t['name']}": t for t in types}))


def _in_line(node: Any, waiting: dict[str, Any]) -> Any:
    if isinstance(node, str):
        return _in_line(waiting.pop(node), waiting) if node in waiting else node
    if isinstance(node, list):
        return [_in_line(n, waiting) for n in node]
    fields = [{**f, "type": _in_line(f["type"], waiting)} for f in node.get("fields", [])]
    inner = {k: _in_line(node[k], waiting) for k in ("type", "items", "values") if k in node}
    return {**node, **inner, **({"fields": fields} if fields else {})}


NEW = flat()


def value(kind: str, *parts: Any) -> tuple[str, Any]:
    """A value of an image, its parts in the schema's order."""
    return f"{NAMESPACE}.{kind}", dict(zip(VALUES[kind], parts, strict=True))


def integer(number: Any) -> tuple[str, Any]:
    return value("Integer", 8, str(number))


def text(characters: str) -> tuple[str, Any]:
    return value("Character", "utf8mb4", characters.encode())


def message(operation: str, number: int = 5, **parts: Any) -> dict[str, Any]:
    """A record of `db.t` (id, v); `before` and `after` are lists of values or a text."""
    row = "before" in parts or isinstance(parts.get("after"), list)
    fields = parts.get("fields", [("id", 8), ("v", 253)] if row else None)
    if isinstance(fields, list):
        fields = [{"name": name, "dataTypeNumber": kind} for name, kind in fields]
    return {
        "version": 0, "id": number, "sourceTimestamp": parts.get("seconds", 1696984408),
        "sourcePosition": parts.get("position", "72469@78"), "safeSourcePosition": "72347@78",
        "sourceTxid": parts.get("tx", "0"),
        "source": {"sourceType": parts.get("source", "MySQL"), "version": "8.0.28"},
        "operation": operation, "objectName": parts.get("object", "db.t"),
        "processTimestamps": parts.get("processed"),
        "tags": parts.get("tags", {"pk_uk_info": '{"PRIMARY":["id"],"uk":["v"]}'}),
        "fields": fields, "beforeImages": parts.get("before"), "afterImages": parts.get("after"),
        "bornTimestamp": parts.get("born", 1696984408),
    }  # fmt: skip
