"""Values of Canal's messages that some senders write in another way, as Canal itself has them."""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column
from pyspark.sql import functions as F

from sluice.types.columns import ColumnType
from sluice.types.mysql import BYTES
from spark_jobs.canonical import IMAGE_TYPE
from spark_jobs.values import decode

_BYTES: Final = rf"(?i)^\s*({'|'.join(BYTES)})\b"
_JSON: Final = "json"
# `java.sql.Types.BLOB`
_BLOB: Final = "2004"
_CHARACTERS: Final = ColumnType("binary", "latin1")
_NUMBERS: Final = r"^\[[\d\s,+-]*\]$"


def of_listed_bytes(rows: Column) -> Column:
    """Rows with bytes as Canal has them, one character a byte; DRS lists their numbers."""

    def as_canal(name: Column, value: Column) -> Column:
        listed = F.col("mysqlType")[name].rlike(_BYTES) & value.rlike(_NUMBERS)
        return F.coalesce(F.when(listed, _characters(value)), value)

    return F.transform(rows, lambda row: F.transform_values(row, as_canal))


def of_json(rows: Column) -> Column:
    """Rows with JSON as text: of MariaDB's, a LONGTEXT to it, Canal has a character for each byte.

    Seen of Canal 1.1.7, of a column that its DDL calls JSON. MySQL's JSON comes as text (12).
    """
    codes = F.from_json("sqlType", IMAGE_TYPE)

    def as_text(name: Column, value: Column) -> Column:
        of_bytes = (F.lower(F.col("mysqlType")[name]) == _JSON) & (codes[name] == _BLOB)
        text = F.try_validate_utf8(decode(value, _CHARACTERS).cast("string"))
        return F.coalesce(F.when(of_bytes, text), value)

    may_be = F.exists(F.map_values("mysqlType"), lambda kind: F.lower(kind) == _JSON)
    mended = F.transform(rows, lambda row: F.transform_values(row, as_text))
    # The code first: few messages have one, and only of these every column's type is looked at.
    return F.when(F.col("sqlType").contains(_BLOB) & may_be, mended).otherwise(rows)


def _characters(numbers: Column) -> Column:
    """NULL where it is no list of bytes, with a sign or without: then it is characters itself."""
    listed = F.from_json(numbers, "array<int>")
    are_bytes = F.forall(listed, lambda n: F.coalesce(n.between(-128, 255), F.lit(False)))
    text = F.array_join(F.transform(listed, lambda n: F.char(F.pmod(n, F.lit(256)))), "")
    return F.when(are_bytes, text)
