"""How to read a pipeline's files, as far as their bytes do not show it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from sluice.bounds import DEFAULT, MEBIBYTE, Bounds, rejects_of
from sluice.config.format_options import CsvOptions, DebeziumOptions, DtsAvroOptions
from sluice.config.pipeline import Pipeline
from sluice.containers.csv_rows import CsvStyle, style_of
from sluice.containers.framed import LAYOUTS

DOCUMENT_LIMIT: Final = 64 * MEBIBYTE


@dataclass(frozen=True)
class Reading:
    """How a pipeline's files are read.

    `limit`: bytes of the largest document. `tables`: the style of CSV rows, set if the files have
    rows of a table, so that they may be Parquet or CSV. `layout`: one of `framed.LAYOUTS` if files
    other than Avro containers have binary messages. `framing`: how bare Avro datums are separated,
    if files may have these, see `sluice.containers.datums`. `bounds`: what a file may not exceed.
    `thorough`: decode containers, to find a damaged one. `keys`: keep a key that precedes its
    record on a line. `avro`: whether the format has Avro containers. `timed`: file names state when
    their changes were written, and so order them.
    """

    limit: int = DOCUMENT_LIMIT
    tables: CsvStyle | None = None
    layout: str = ""
    framing: str = ""
    bounds: Bounds = DEFAULT
    thorough: bool = False
    keys: bool = True
    avro: bool = True
    timed: bool = False


def reading_of(pipeline: Pipeline) -> Reading:
    """Return how the files are read, by the pipeline's format and its options."""
    options = pipeline.format_options
    layout = options.layout if isinstance(options, DebeziumOptions) else None
    return Reading(
        limit=pipeline.max_document_bytes,
        tables=style_of(options) if isinstance(options, CsvOptions) else None,
        layout=layout if layout in LAYOUTS else "",
        framing=options.framing if isinstance(options, DtsAvroOptions) else "",
        bounds=_bounds_of(pipeline),
        keys=pipeline.wire.keyed,
        avro=pipeline.wire.avro,
        timed=pipeline.wire.timed_files,
    )


def _bounds_of(pipeline: Pipeline) -> Bounds:
    return Bounds(
        plain_bytes=pipeline.max_plain_bytes_per_file,
        ratio=pipeline.max_compression_ratio,
        staged_bytes=pipeline.max_staged_bytes_per_file,
        rejects=rejects_of(pipeline.max_bad_records),
    )
