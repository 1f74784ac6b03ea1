"""Values of Canal's messages that some senders spell in another way, in Canal's spelling."""

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
    """Rows with bytes as one character each, as Canal writes them; DRS writes lists of numbers."""

    def as_canal(name: Column, value: Column) -> Column:
        listed = value.rlike(_NUMBERS) & _of_column(F.col("mysqlType"), name).rlike(_BYTES)
        return F.coalesce(F.when(listed, _characters(value)), value)

    return F.transform(rows, lambda row: F.transform_values(row, as_canal))


def of_json(rows: Column) -> Column:
    """Rows with JSON as text. MariaDB's JSON is a LONGTEXT: Canal writes a character for each byte.

    Seen in Canal 1.1.7 for a column that the DDL calls JSON. MySQL's JSON comes as text (code 12).
    """
    codes = F.from_json("sqlType", IMAGE_TYPE)

    def as_text(name: Column, value: Column) -> Column:
        kind, code = (_of_column(described, name) for described in (F.col("mysqlType"), codes))
        of_bytes = (F.lower(kind) == _JSON) & (code == _BLOB)
        text = F.try_validate_utf8(decode(value, _CHARACTERS).cast("string"))
        return F.coalesce(F.when(of_bytes, text), value)

    may_be = F.exists(F.map_values("mysqlType"), lambda kind: F.lower(kind) == _JSON)
    mended = F.transform(rows, lambda row: F.transform_values(row, as_text))
    # The code first: few messages have it, and the types of all columns are costly to search.
    return F.when(F.col("sqlType").contains(_BLOB) & may_be, mended).otherwise(rows)


def _of_column(described: Column, name: Column) -> Column:
    """What a description says of a column: under its own spelling, else in any case."""
    alike = F.map_filter(described, lambda other, _: F.lower(other) == F.lower(name))
    # Nearly always the spelling is the row's: the quick case.
    return F.coalesce(F.try_element_at(described, name), F.get(F.map_values(alike), F.lit(0)))


def _characters(numbers: Column) -> Column:
    """The characters of a list of signed or unsigned bytes; NULL for any other list."""
    listed = F.from_json(numbers, "array<int>")
    are_bytes = F.forall(listed, lambda n: F.coalesce(n.between(-128, 255), F.lit(False)))
    text = F.array_join(F.transform(listed, lambda n: F.char(F.pmod(n, F.lit(256)))), "")
    return F.when(are_bytes, text)
