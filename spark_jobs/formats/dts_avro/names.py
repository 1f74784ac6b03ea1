"""The table of a DTS record, by its object name, its tags and its statement."""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column
from pyspark.sql import functions as F

from spark_jobs.formats.common.truncates import END, GAP, START
from spark_jobs.formats.dts_avro.schema import MYSQL

_TABLE: Final = r"(?:(`[^`]+`|[\w$]+)\s*\.\s*)?(`[^`]+`|[\w$]+)"
_TRUNCATE: Final = rf"{START}truncate(?:{GAP}table)?(?:{GAP}|(?=`)){_TABLE}{END}"
_IF: Final = r"(?:if\s+exists\s+)?"
_DROP: Final = rf"{START}drop{GAP}table{GAP}{_IF}{_TABLE}(?:\s+(?:restrict|cascade))?{END}"


def names_of_record() -> list[Column]:
    """Return database, schema and table; the tags of a sharded source have its logical names.

    TRUNCATE and DROP TABLE come as DDL on the database, with the table in the statement. A shard's
    TRUNCATE empties only a part of its logical table, so it stays DDL.
    """
    parts = F.transform(
        F.split("_object", r"\."), lambda part: F.regexp_replace(part, r"(?i)\\u002e", ".")
    )
    count = F.size(parts)
    of_table = F.when(count == 2, F.get(parts, F.lit(1))).when(count == 3, F.get(parts, F.lit(2)))
    logical, ddl = _tag("l_tb_name"), F.col("_op") == "DDL"
    statement = F.when(ddl & F.col("_source").isin(*MYSQL) & logical.isNull(), F.col("_statement"))
    prefix, truncated = (_stated(statement, _TRUNCATE, at) for at in (1, 2))
    home, dropped = (_stated(statement, _DROP, at) for at in (1, 2))
    return [
        F.coalesce(prefix, home, _tag("l_db_name"), F.get(parts, F.lit(0))).alias("_database"),
        F.when(count == 3, F.get(parts, F.lit(1))).alias("_schema"),
        F.coalesce(dropped, logical, F.nullif(of_table, F.lit(""))).alias("_table"),
        truncated.alias("_truncated"),
        count.alias("_depth"),
    ]


def _tag(name: str) -> Column:
    return F.nullif(F.col("_tags")[name], F.lit(""))


def _stated(statement: Column, pattern: str, at: int) -> Column:
    """Return a name in a statement, in lower case if the server stores names so."""
    bare = F.translate(F.regexp_extract(statement, pattern, at), "`", "")
    lowered = F.when(_tag("lowerCaseTableNames") == "true", F.lower(bare)).otherwise(bare)
    return F.nullif(lowered, F.lit(""))
