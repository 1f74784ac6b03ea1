"""The table of a file by its folders, for formats whose records do not name it, and the order of
files whose names are times.

Source: AWS DMS's documentation of Amazon S3 as a target.
"""

from __future__ import annotations

import re
from typing import Final

from sluice.config.format_options import RowsOptions
from sluice.config.pipeline import Pipeline
from sluice.ledger.claims import ContentKey

_PARTITION: Final = re.compile(r".*=.*")
_DATE: Final = re.compile(r"[\d_-]+")
CHANGES_FILE: Final = re.compile(r"(\d{8}|CDC_TXN)-\d+\.")
"""A file of changes by AWS DMS: its name is the time of its first change."""
TRANSACTIONS: Final = "written_with_PreserveTransactions"
_TRANSACTIONS_FILE: Final = re.compile(r"CDC_TXN-\d+\.")
_DAY, _MONTH, _YEAR = "(?:0[1-9]|[12][0-9]|3[01])", "(?:0[1-9]|1[0-2])", "20[0-9]{2}"
# DatePartitionSequence DDMMYYYY and MMYYYYDD, with any DatePartitionDelimiter.
_YEAR_LAST: Final = re.compile(
    rf"((?:.*/)?)({_DAY}[/_-]?{_MONTH}[/_-]?{_YEAR}|{_MONTH}[/_-]?{_YEAR}[/_-]?{_DAY})"
    r"/([0-9]{8}-[0-9]+\.[^/]*)"
)


def folders(key: str) -> list[str]:
    """Return the folders of an object's key, outermost first, without partitions and final dates.

    Only final ones count as dates: a schema's name may be a number, such as a tenant's.
    """
    parts = [part for part in key.split("/")[:-1] if not _PARTITION.fullmatch(part)]
    while parts and _DATE.fullmatch(parts[-1]):
        parts.pop()
    return parts


def name_in_order(key: str) -> str:
    """Return the name by which a file whose name is a time is sorted.

    It is the key, but folders of dates that do not begin with the year are put after the file's
    name.
    """
    return _YEAR_LAST.sub(r"\1\3/\2", key) if _YEAR_LAST.fullmatch(key) else key


def holds_transactions(key: str) -> bool:
    """Whether a file has the changes of all tables (`PreserveTransactions`), without
    columns' names."""
    return _TRANSACTIONS_FILE.match(key.rpartition("/")[2]) is not None


def content_of(pipeline: Pipeline) -> ContentKey:
    """Return the function that identifies files with the same records: by bytes and table.

    Equal bytes in the folders of two tables are rows of both, and those of two times are changes of
    both.
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
