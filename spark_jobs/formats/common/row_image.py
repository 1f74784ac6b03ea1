"""Rows that the source logs in part: MySQL's and MariaDB's `binlog_row_image` other than FULL, or
Oracle's supplemental logging of some columns, as AWS DMS passes it on.

Source: MySQL's reference manual, `binlog_row_image`. NOBLOB leaves out a BLOB or TEXT that did not
change; MINIMAL logs the identifying columns of the old row and the columns that the statement set.
Records do not say which mode it was, so an option does (`row_image: partial`).
"""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F

from spark_jobs.canonical import OP_DELETE, OP_UPDATE, all_but


def absent_columns(op: Column, old: Column, new: Column) -> dict[str, Column]:
    """Return `absent` and `old_absent` for rows whose missing columns were not logged.

    An insert has none: there is no earlier value to keep.
    """
    changes = op.isin(OP_UPDATE, OP_DELETE)
    return {
        "absent": F.when(op == OP_UPDATE, all_but(F.map_keys(new))),
        "old_absent": F.when(changes, all_but(F.map_keys(old))),
    }
