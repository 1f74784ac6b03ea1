"""Sample a batch before it is read: its first lines, without a Spark job."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from typing import Any, Final

from pyspark.sql import SparkSession

from sluice.manifest import SourceFile

_FILES: Final = 3
_LINES: Final = 100


def first_lines(spark: SparkSession, files: tuple[SourceFile, ...]) -> Iterator[str]:
    """Yield some lines of the first files."""
    for file in files[:_FILES]:
        yield from _first_lines(spark, file.url)


def _first_lines(spark: SparkSession, url: str) -> Iterator[str]:
    """Yield a file's first lines through Hadoop, which handles scheme and compression."""
    jvm: Any = spark._jvm
    conf = spark._jsc.hadoopConfiguration()
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
