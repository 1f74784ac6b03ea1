"""Rows of which the source's log has parts: MySQL's and MariaDB's `binlog_row_image` other than
FULL, or Oracle's supplemental logging of less than all columns, as AWS DMS passes it on.

Source: MySQL's reference manual, `binlog_row_image`. NOBLOB leaves out a BLOB or TEXT that did not
change; MINIMAL has of an old row what tells it from others, of a new one what the statement set.
Nothing in the records says which of them it was, so an option does (`row_image: partial`).
"""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F

from spark_jobs.canonical import ALL_BUT, OP_DELETE, OP_UPDATE


def left_out(op: Column, old: Column, new: Column) -> dict[str, Column]:
    """`absent` and `old_absent` of rows that say nothing of the columns that they do not name.

    An insert names what its statement gave; it has no earlier value that could have stayed.
    """
    changes = op.isin(OP_UPDATE, OP_DELETE)
    return {
        "absent": F.when(op == OP_UPDATE, _all_but(F.map_keys(new))),
        "old_absent": F.when(changes, _all_but(F.map_keys(old))),
    }


def _all_but(names: Column) -> Column:
    return F.concat(F.array(F.lit(ALL_BUT)), names)
