"""How a batch's first event is written, from a look at the beginning of its files."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from pyspark.sql import SparkSession

from sluice.manifest import SourceFile
from spark_jobs.formats.first_lines import first_lines
from spark_jobs.formats.tombstones import TOMBSTONE

FORMS: Final = ("", "payload.", "value.", "value.payload.")
TRANSACTION_MARKER: Final = "transaction_marker"
HEARTBEAT: Final = "heartbeat"
SEEMING: Final = (TRANSACTION_MARKER, TOMBSTONE, HEARTBEAT)
"""What records are that tell of no change by what little they hold."""
_TOLD_BY: Final = {"ts_ms": HEARTBEAT, "status": TRANSACTION_MARKER}
TIMES: Final = frozenset({"ts_ms", "ts_us", "ts_ns"})
MARKER: Final = TIMES | {"status", "id", "event_count", "data_collections"}
"""What a transaction's marker may have, and a heartbeat."""


@dataclass(frozen=True)
class Head:
    """Where in a record the envelope is, one of `FORMS`, and the connector that wrote it."""

    form: str
    connector: str

    @property
    def described(self) -> bool:
        """Whether a schema may stand beside the envelope."""
        return self.form.endswith("payload.")


def read_head(spark: SparkSession, files: tuple[SourceFile, ...]) -> Head | None:
    """The form of the first event among the first lines of the files; None where none is there."""
    heads = map(_head, first_lines(spark, files))
    return next((head for head in heads if head), None)


def misread(spark: SparkSession, files: tuple[SourceFile, ...]) -> frozenset[str]:
    """Of records that are no events, those which the first lines have of another make.

    A row without its envelope may have a column `ts_ms`, as a heartbeat has, and other tools than
    Kafka's call the value beside a key otherwise: none of that may pass for a record of nothing.
    """
    return frozenset(kind for line in first_lines(spark, files) for kind in _others(line))


def _others(line: str) -> Iterator[str]:
    record = record_of(line)
    if "key" in record and "value" not in record and len(record) > 1:
        yield TOMBSTONE
    forms = (field_at(record, form.removesuffix(".")) for form in reversed(FORMS) if form)
    inner = next((found for found in forms if isinstance(found, dict)), record)
    if inner.keys() <= MARKER:  # what a heartbeat has is among it
        return
    yield from (kind for name, kind in _TOLD_BY.items() if name in inner)


def record_of(line: str) -> dict[str, Any]:
    """A line's record; one without fields where it is none."""
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _head(line: str) -> Head | None:
    record = record_of(line)
    for form in FORMS:
        source = field_at(record, f"{form}source")
        if isinstance(source, dict):
            return Head(form, str(source.get("connector", "")))
    return None


def field_at(record: Any, path: str) -> Any:
    """The value at a dotted path; None where there is none."""
    for part in path.split("."):
        record = record.get(part) if isinstance(record, dict) else None
    return record
