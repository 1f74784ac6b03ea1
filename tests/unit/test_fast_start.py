"""A command starts without what it does not need."""

from __future__ import annotations

import subprocess
import sys

READS_A_TABLE = """
import sys
from sluice.fast_start import without_pandas
without_pandas()
import pyiceberg.io.pyarrow, pyarrow as pa, duckdb
rows = pa.table({"n": [1, 2]})
connection = duckdb.connect()
connection.register("rows", rows)
print(connection.sql("SELECT max(n) FROM rows").to_arrow_table().column(0)[0])
print("pandas" in sys.modules)
"""


def test_arrow_and_duckdb_answer_without_pandas() -> None:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", READS_A_TABLE],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.split() == ["2", "False"]
