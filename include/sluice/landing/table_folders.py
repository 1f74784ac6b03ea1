"""Which table a file is of, where its folders tell that and not its records."""

from __future__ import annotations

import re
from typing import Final

from sluice.config.format_options import RowsOptions
from sluice.config.project import Pipeline
from sluice.ledger.claims import Content

_PARTITION: Final = re.compile(r".*=.*")
_DATE: Final = re.compile(r"[\d_-]+")
CHANGES_FILE: Final = re.compile(r"\d{8}-\d+\.")
"""How AWS DMS calls a file of changes: by when its first one was written."""


def folders(key: str) -> list[str]:
    """The folders of an object's key, outermost first, without those of partitions, and of dates
    behind them: a schema may be called by a number, as tenants are."""
    parts = [part for part in key.split("/")[:-1] if not _PARTITION.fullmatch(part)]
    while parts and _DATE.fullmatch(parts[-1]):
        parts.pop()
    return parts


def content_of(pipeline: Pipeline) -> Content:
    """What files with the same records have in common: their bytes, and the table that is told.

    The same bytes in the folders of two tables are rows of either, and those of two times are
    changes of either.
    """
    options, wire = pipeline.format_options, pipeline.wire
    stated = isinstance(options, RowsOptions) and options.table
    naming = 0 if stated else wire.table_folders

    def content(key: str, checksum: str) -> str:
        named = folders(key)[-naming:] if naming and checksum else []
        timed = wire.timed_files and checksum
        time = CHANGES_FILE.match(key.rpartition("/")[2]) if timed else None
        return "\n".join((checksum, *named, *([time[0]] if time else [])))

    return content
