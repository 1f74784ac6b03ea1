"""What the tests of all decoders share: files to read, and the table that events give."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, Row, SparkSession

from sluice.config.formats import options_model
from sluice.manifest import SourceFile
from sluice.positions import encode_number
from sluice.types.columns import STRING, ColumnType
from spark_jobs.canonical import ENVELOPE
from spark_jobs.formats.base import Format

Table = dict[tuple[str, ...], dict[str, str | None]]


def jsonl(path: Path, records: Iterable[Any]) -> SourceFile:
    """Write records (text as it stands, anything else as JSON) and describe the file."""
    lines = [r if isinstance(r, str) else json.dumps(r) for r in records]
    path.write_text("".join(f"{line}\n" for line in lines))
    return SourceFile(key=path.name, url=path.as_uri(), size=path.stat().st_size)


def envelope_columns(df: DataFrame) -> list[str]:
    """The columns that every decoder returns, in order; some return more
    (`spark_jobs.canonical`)."""
    more = {"absent", "old_absent", "transaction", "ends", "detail"}
    assert set(df.columns) - set(ENVELOPE) <= more
    return [name for name in df.columns if name in ENVELOPE]


def table_name(row: Row) -> str:
    """A table as the expected files name it."""
    return ".".join(part for part in (row["database"], row["schema"], row["table"]) if part)


def fold(rows: Iterable[Row], key: list[str]) -> Table:
    """The rows that events leave, by position, with the old half before the new one."""
    table: Table = {}
    placed = sorted(
        enumerate(rows), key=lambda r: (r[1]["position"] or "1", r[1]["op"] != "delete", r[0])
    )
    for number, row in placed:
        image = row["after"] or row["before"]
        at = tuple(image[name] for name in key) if key else (str(number),)
        table.pop(at, None)
        if row["op"] != "delete":
            table[at] = image
    return table


def expected_tables(case: Path) -> list[dict[str, Any]]:
    """The tables of one `*.expected.json`."""
    tables: list[dict[str, Any]] = json.loads(case.read_text())["tables"]
    return tables


def assert_tables(rows: list[Row], expected: list[dict[str, Any]], fmt: Format) -> None:
    """Fold what a decoder gave and compare it by meaning with the expected tables."""
    assert {r["outcome"] for r in rows} == {"event"}
    assert {table_name(r) for r in rows} == {t["table"] for t in expected}
    defaults = options_model(fmt.name)()
    for table in expected:
        mine = [r for r in rows if table_name(r) == table["table"]]
        kinds = {
            c.name: c.type for r in mine if r["types"] for c in fmt.columns(r["types"], defaults)
        }
        folded = list(fold(mine, _key(mine, table)).values())
        wanted = [dict(zip(table["columns"], row, strict=True)) for row in table["rows"]]
        assert _meanings(folded, kinds) == _meanings(wanted, kinds), table["table"]


def _key(rows: list[Row], table: dict[str, Any]) -> list[str]:
    """The expected key, or the events' own where it names a column that the table has not."""
    if set(table["key"]) <= set(table["columns"]):
        return list(table["key"])
    return next(list(row["key"]) for row in rows if row["key"])


def _meanings(rows: Iterable[dict[str, Any]], kinds: dict[str, ColumnType]) -> list[str]:
    return sorted(
        repr(sorted((n, meaning(v, kinds.get(n, STRING))) for n, v in row.items())) for row in rows
    )


def meaning(value: Any, kind: ColumnType = STRING) -> Any:
    """A value without its spelling: numbers, instants and JSON by their content."""
    if value is None:
        return "NULL"
    text = value if isinstance(value, str) else json.dumps(value)
    if kind.name == "float":
        return repr(struct.unpack("f", struct.pack("f", float(text)))[0])
    for read in (_number, _instant, json.loads):
        try:
            return repr(read(text))
        except (ValueError, InvalidOperation):
            continue
    return repr(text)


def _number(text: str) -> Any:
    return Decimal(text).normalize()


def _instant(text: str) -> datetime:
    if len(text) < len("2024-01-01"):
        raise ValueError(text)
    parsed = datetime.fromisoformat(text)
    return parsed if parsed.tzinfo else parsed.replace(tzinfo=UTC)


def by_name(rows: Iterable[Row], name: Callable[[Row], str]) -> dict[str, Row]:
    """Rows by a name of the test's own; a name that comes twice is a mistake of the test."""
    found: dict[str, Row] = {}
    for row in rows:
        assert name(row) not in found
        found[name(row)] = row
    return found


def in_turn(rows: Iterable[Row], names: Sequence[str]) -> dict[str, Row]:
    """Rows by the names of the records that they were made of, one of each."""
    return by_name(rows, lambda row: names[row["ordinal"]])


def decode_named(
    spark: SparkSession, fmt: Format, folder: Path, records: Mapping[str, Any], **options: Any
) -> dict[str, Row]:
    """Records with names of the test's own, decoded in one read; each has to give one row."""
    given = options_model(fmt.name).model_validate(options)
    decoded = fmt.read(spark, (jsonl(folder / "all.jsonl", records.values()),), given)
    assert envelope_columns(decoded) == list(ENVELOPE)
    return in_turn(decoded.collect(), list(records))


def assert_event(row: Row, op: str) -> None:
    """An event of an operation gives no reason, and its text is not kept."""
    assert (row["outcome"], row["reason"], row["op"], row["raw"]) == ("event", None, op, None)


def assert_rejected(row: Row, reason: str, record: Any) -> None:
    """A reject has a reason and keeps its text: exactly, if the reader could not read it."""
    assert (row["outcome"], row["reason"]) == ("reject", reason)
    assert row["raw"] is not None
    if reason == "not_json":
        assert row["raw"] == record


def at(*numbers: int | str, kind: int = 2) -> str:
    """A position by its components, in the source's own order unless `kind` says another."""
    return ".".join([str(kind), *map(encode_number, numbers)])
