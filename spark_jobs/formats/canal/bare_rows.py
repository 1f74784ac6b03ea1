"""Messages with a row where Canal's have a list of rows, as SeaTunnel writes them.

Source: apache/seatunnel#6955. They are not read: only the file reader keeps the exact text of
numbers, and it takes one shape of a field.
"""

from __future__ import annotations

from functools import reduce
from operator import or_

from pyspark.sql import Column
from pyspark.sql import functions as F


def has_bare_row(line: Column) -> Column:
    """Whether `data` or `old` of a line that did not fit is an object; false without a line."""
    sides = (F.get_json_object(line, f"$.{name}").startswith("{") for name in ("data", "old"))
    bare = reduce(or_, (F.coalesce(side, F.lit(False)) for side in sides))
    return F.when(line.isNotNull(), bare).otherwise(F.lit(False))
