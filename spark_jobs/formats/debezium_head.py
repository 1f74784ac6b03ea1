"""How a batch's first event is written, from a look at the beginning of its files."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from typing import Any, Final

from pyspark.sql import SparkSession

from sluice.manifest import SourceFile

FORMS: Final = ("", "payload.", "value.", "value.payload.")
_LINES: Final = 100


@dataclass(frozen=True)
class Head:
    """Where in a record the envelope is, one of `FORMS`, and the connector that wrote it."""

    form: str
    connector: str


def read_head(spark: SparkSession, files: tuple[SourceFile, ...]) -> Head | None:
    """The form of the first event among the first lines of the files; None where none is there."""
    for file in files[:3]:
        for line in _first_lines(spark, file.url):
            found = _head(line)
            if found:
                return found
    return None


def _first_lines(spark: SparkSession, url: str) -> Iterator[str]:
    """The first lines of a file, through Hadoop, which knows the scheme and the compression."""
    jvm = spark._jvm  # type: ignore[attr-defined]
    conf = spark._jsc.hadoopConfiguration()  # type: ignore[attr-defined]
    path = jvm.org.apache.hadoop.fs.Path(url)
    codec = jvm.org.apache.hadoop.io.compress.CompressionCodecFactory(conf).getCodec(path)
    with closing(path.getFileSystem(conf).open(path)) as opened:
        stream = codec.createInputStream(opened) if codec else opened
        reader = jvm.java.io.BufferedReader(jvm.java.io.InputStreamReader(stream, "UTF-8"))
        for _ in range(_LINES):
            line = reader.readLine()
            if line is None:
                return
            yield line


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
