"""Files that are not what was written."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq


def damage_page(file: Path) -> None:
    """Overwrite the pages of a Parquet file's first column, and leave what describes them."""
    column = pq.read_metadata(file).row_group(0).column(0)
    start = column.dictionary_page_offset or column.data_page_offset
    content = bytearray(file.read_bytes())
    content[start : start + column.total_compressed_size] = bytes(column.total_compressed_size)
    file.write_bytes(content)
