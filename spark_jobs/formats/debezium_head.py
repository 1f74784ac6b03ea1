"""How a batch's first event is written, from a look at the beginning of its files."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Final

from pyspark.sql import SparkSession

from sluice.manifest import SourceFile
from spark_jobs.formats.firstlines import first_lines

FORMS: Final = ("", "payload.", "value.", "value.payload.")


@dataclass(frozen=True)
class Head:
    """Where in a record the envelope is, one of `FORMS`, and the connector that wrote it."""

    form: str
    connector: str


def read_head(spark: SparkSession, files: tuple[SourceFile, ...]) -> Head | None:
    """The form of the first event among the first lines of the files; None where none is there."""
    heads = map(_head, first_lines(spark, files))
    return next((head for head in heads if head), None)


def _head(line: str) -> Head | None:
    try:
        record = json.loads(line)
    except (ValueError, RecursionError):
        return None
    for form in FORMS:
        source = _at(record, f"{form}source")
        if isinstance(source, dict):
            return Head(form, str(source.get("connector", "")))
    return None


def _at(record: Any, path: str) -> Any:
    for part in path.split("."):
        record = record.get(part) if isinstance(record, dict) else None
    return record
