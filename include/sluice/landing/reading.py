"""How a pipeline's files are read, where their bytes alone do not tell."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from sluice.bounds import DEFAULT, MEBIBYTE, Bounds, rejects_of
from sluice.config.formats import CSV_NULLS, DATUM_FORMATS, KEYED_FORMATS, TABLE_FORMATS
from sluice.config.project import Pipeline
from sluice.containers import datums, framed
from sluice.containers.csv_rows import NOTHING, CsvStyle, style_of

DOCUMENT_LIMIT: Final = 64 * MEBIBYTE
_LAYOUT: Final = "layout"


@dataclass(frozen=True)
class Reading:
    """What a pipeline says of its files.

    `limit`: bytes of the largest document. `tables`: the files are rows of a table, so they may be
    Parquet, or CSV of this style. `layout`: one of `framed.LAYOUTS`, where what is no Avro
    container holds binary messages; `framing`: how files hold bare Avro datums, where they may, see
    `sluice.containers.datums`. `bounds`: what a file may not exceed.
    `thorough`: containers are decoded, for one of them cannot be. `keys`: a key that stands before
    its record on a line is kept.
    """

    limit: int = DOCUMENT_LIMIT
    tables: CsvStyle | None = None
    layout: str = ""
    framing: str = ""
    bounds: Bounds = DEFAULT
    thorough: bool = False
    keys: bool = True


PLAIN: Final = Reading()


def reading_of(pipeline: Pipeline) -> Reading:
    """From the pipeline's format and its options; raises ConfigError for a wrong one."""
    options = pipeline.format_options
    layout = str(options.get(_LAYOUT, ""))
    return Reading(
        limit=pipeline.max_document_bytes,
        tables=_style_of(pipeline) if pipeline.format in TABLE_FORMATS else None,
        layout=layout if layout in framed.LAYOUTS else "",
        framing=datums.framing_of(options) if pipeline.format in DATUM_FORMATS else "",
        bounds=_bounds_of(pipeline),
        keys=pipeline.format in KEYED_FORMATS,
    )


def _style_of(pipeline: Pipeline) -> CsvStyle:
    return style_of(pipeline.format_options, CSV_NULLS.get(pipeline.format, NOTHING))


def _bounds_of(pipeline: Pipeline) -> Bounds:
    return Bounds(
        plain_bytes=pipeline.max_plain_bytes_per_file,
        ratio=pipeline.max_compression_ratio,
        staged_bytes=pipeline.max_staged_bytes_per_file,
        rejects=rejects_of(pipeline.max_bad_records),
    )
