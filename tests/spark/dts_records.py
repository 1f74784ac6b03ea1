"""DTS Avro records for tests: values of any kind, messages as bytes, files."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import fastavro
from pyspark.sql import Row

from bench.dts_records import NAMESPACE, NEW, PARTS, flat, integer, message, text, value
from sluice.containers import datums
from sluice.manifest import SourceFile

OLD = flat(born=False)
ROW = [integer(1), text("a")]
NONE, NULL = "NONE", "NULL"  # the symbols of EmptyObject


def clock(*parts: int | None) -> dict[str, int | None]:
    """A DateTime; parts that are left out are null."""
    return dict(zip(PARTS, (*parts, *[None] * 7)[:7], strict=True))


def when(*parts: int | None) -> tuple[str, Any]:
    return f"{NAMESPACE}.DateTime", clock(*parts)


def of_one(*values: Any, **parts: Any) -> dict[str, Any]:
    """An INSERT whose columns are named c0, c1, … and have these values."""
    fields = [(f"c{n}", 253) for n in range(len(values))]
    return message("INSERT", after=list(values), fields=fields, tags={}, **parts)


def characters(*pairs: tuple[str, bytes]) -> dict[str, Any]:
    return of_one(*(value("Character", charset, raw) for charset, raw in pairs))


def values(row: Row) -> list[str | None]:
    """The columns c0, c1, … in their order, which a map does not keep."""
    return [row["after"][f"c{n}"] for n in range(len(row["after"]))]


def datum(found: dict[str, Any], schema: Any = NEW) -> bytes:
    """A message as Kafka has it."""
    out = io.BytesIO()
    fastavro.schemaless_writer(out, schema, found)
    return out.getvalue()


def prefixed(*found: bytes) -> bytes:
    """Datums one behind the other, each after its length."""
    return b"".join(len(d).to_bytes(4, "big") + d for d in found)


def bare_file(path: Path, found: list[bytes]) -> SourceFile:
    """Datums as landing hands them on."""
    with path.open("wb") as out:
        datums.write_container(out, found, b"0123456789abcdef")
    return described(path, datums.SCHEMA)


def container(path: Path, schema: Any, found: list[Any]) -> SourceFile:
    """An object container as some writer left it."""
    with path.open("wb") as out:
        fastavro.writer(out, schema, found)
    with path.open("rb") as stream:
        written = fastavro.reader(stream).metadata["avro.schema"]
    return described(path, written)


def described(path: Path, schema: str) -> SourceFile:
    return SourceFile(
        key=path.name, url=path.as_uri(), size=path.stat().st_size, container="avro",
        avro_schema=schema,
    )  # fmt: skip
