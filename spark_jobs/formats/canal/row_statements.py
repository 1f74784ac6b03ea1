"""Statements about rows, which Canal sends as messages of type QUERY.

Where the server logs the text of statements beside their rows (MySQL's
`binlog_rows_query_log_events`, MariaDB's `binlog_annotate_row_events`), Canal sends that text too,
with `isDdl` false. With `isDdl` true it stands instead of rows that the server did not log, and
Canal's parser could not read it. Source: Canal's LogEventConvert, `parseRowsQueryEvent` and
`parseQueryEvent`.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column
from pyspark.sql import functions as F

from spark_jobs.formats.common.truncates import GAP, START

_OF_ROWS: Final = rf"{START}(?:insert|replace|update|delete|with|load{GAP}(?:data|xml))\b"
_QUERY: Final = "QUERY"
_TRUE: Final = "true"


def beside_rows() -> Column:
    """Whether a message is a statement whose rows have messages of their own; never NULL."""
    return _is_of_rows() & ~_is_ddl()


def instead_of_rows() -> Column:
    """Whether a message is a statement whose rows were not logged; never NULL."""
    return _is_of_rows() & _is_ddl()


def _is_of_rows() -> Column:
    stated = F.when(F.col("type") == _QUERY, F.col("sql").rlike(_OF_ROWS))
    return F.coalesce(stated, F.lit(False))


def _is_ddl() -> Column:
    return F.lower("isDdl").eqNullSafe(_TRUE)
