"""The form of a batch's first event, read from the beginning of its files."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from pyspark.sql import SparkSession

from sluice.manifest import SourceFile
from spark_jobs.formats.common.first_lines import first_lines
from spark_jobs.formats.debezium.tombstones import TOMBSTONE

FORMS: Final = ("", "payload.", "value.", "value.payload.")
TRANSACTION_MARKER: Final = "transaction_marker"
HEARTBEAT: Final = "heartbeat"
SEEMING: Final = (TRANSACTION_MARKER, TOMBSTONE, HEARTBEAT)
"""Kinds of records without a change, recognised by their few fields."""
_KIND_BY_FIELD: Final = {"ts_ms": HEARTBEAT, "status": TRANSACTION_MARKER}
TIMES: Final = frozenset({"ts_ms", "ts_us", "ts_ns"})
SIGNS: Final = frozenset({"status", "id", "event_count", "data_collections"})
"""The fields that make a record a transaction marker, whatever a newer version adds to them."""
MARKER: Final = TIMES | SIGNS
"""The fields of a transaction marker; those of a heartbeat are among them."""


@dataclass(frozen=True)
class Head:
    """The place of the envelope in a record, one of `FORMS`, and the connector that wrote it."""

    form: str
    connector: str

    @property
    def described(self) -> bool:
        """Whether there may be a schema beside the envelope."""
        return self.form.endswith("payload.")


def read_head(spark: SparkSession, files: tuple[SourceFile, ...]) -> Head | None:
    """Return the form of the first event among the files' first lines; None without one."""
    heads = map(_head, first_lines(spark, files))
    return next((head for head in heads if head), None)


def misread(spark: SparkSession, files: tuple[SourceFile, ...]) -> frozenset[str]:
    """Return the kinds of `SEEMING` that the first lines only seem to have.

    A row without its envelope may have a column `ts_ms`, as a heartbeat has, and some tools have
    another name for the value beside a key: such records must not be ignored as empty.
    """
    return frozenset(kind for line in first_lines(spark, files) for kind in _others(line))


def _others(line: str) -> Iterator[str]:
    record = record_of(line)
    if "key" in record and "value" not in record and len(record) > 1:
        yield TOMBSTONE
    forms = (field_at(record, form.removesuffix(".")) for form in reversed(FORMS) if form)
    inner = next((part for part in forms if isinstance(part, dict)), record)
    if inner.keys() <= MARKER or inner.keys() >= SIGNS:  # a heartbeat's are among a marker's
        return
    yield from (kind for name, kind in _KIND_BY_FIELD.items() if name in inner)


def record_of(line: str) -> dict[str, Any]:
    """Return a line's JSON object; an empty one for anything else."""
    try:
        parsed = json.loads(line)
    except (ValueError, RecursionError):
        return {}
    return parsed if isinstance(parsed, dict) else {}


def _head(line: str) -> Head | None:
    record = record_of(line)
    for form in FORMS:
        source = field_at(record, f"{form}source")
        if isinstance(source, dict):
            return Head(form, str(source.get("connector") or ""))
    return None


def field_at(record: Any, path: str) -> Any:
    """Return the value at a dotted path; None without one."""
    for part in path.split("."):
        record = record.get(part) if isinstance(record, dict) else None
    return record
