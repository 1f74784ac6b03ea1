"""Some of the files of a scan, read by themselves."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pyiceberg.table import DataScan, FileScanTask

if TYPE_CHECKING:
    import pyarrow as pa


def read_files(scan: DataScan, tasks: Sequence[FileScanTask]) -> pa.Table:
    """Return the rows of the scan that are in these of its files (`plan_files`), in the columns of
    the scan. Raises what the reader raises over a damaged file."""
    from pyiceberg.io.pyarrow import ArrowScan  # a second of imports, for a read only

    return ArrowScan(
        scan.table_metadata, scan.io, scan.projection(), scan.row_filter, scan.case_sensitive
    ).to_table(tasks)
