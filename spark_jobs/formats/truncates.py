"""TRUNCATEs that come as the text of a statement: of a whole table, or what nobody can follow."""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column
from pyspark.sql import functions as F

# A statement comes as text of any length: what is repeated is so few times, and never in two ways.
START: Final = r"(?isU)^\s*+(?:(?:(?>/\*.*?\*/)|(?:--|#)[^\n]*+\n)\s*+){0,9}+"
END: Final = r"(?:[\s;]++|(?>/\*.*?\*/)|(?:--|#)[^\n]*+){0,9}+$"
GAP: Final = r"(?:\s|(?>/\*.*?\*/)){1,99}+"
STATED: Final = rf"{START}truncate\b"
"""Statements that are a TRUNCATE, of whatever."""
_OF_A_PART: Final = rf"{START}alter{GAP}table\b.{{1,400}}?\btruncate{GAP}(?:sub)?partitions?\b"
UNTOLD: Final = rf"{STATED}|{_OF_A_PART}"
"""The same, and those of a table's partitions, which Oracle, MySQL and MariaDB alter it for."""
_PART: Final = r'(?:`[^`]++`|"[^"]++"|\[[^\]]++\]|[\w$#]++)'
_TABLE: Final = rf"(?:{_PART}\s*+\.\s*+){{0,2}}({_PART})"
# What may stand behind the table's name, and takes nothing from the statement: MariaDB, Oracle,
# PostgreSQL.
_MANNER: Final = (
    r"nowait|wait\s+\d+|(?:drop|reuse)(?:\s+all)?\s+storage"
    r"|(?:preserve|purge)\s+materialized\s+view\s+log|(?:restart|continue)\s+identity"
    r"|cascade|restrict"
)
_WHOLE: Final = (
    rf"{START}truncate(?:{GAP}table)?(?:{GAP}|(?=[`\"\[])){_TABLE}"
    rf"(?:{GAP}(?:{_MANNER})){{0,3}}{END}"
)


def empties(statement: Column, table: Column) -> Column:
    """Whether a statement is a TRUNCATE of this one table, all of it; false in doubt."""
    stated = F.btrim(F.regexp_extract(statement, _WHOLE, 1), F.lit('`"[]'))
    return F.coalesce((stated != "") & (F.lower(stated) == F.lower(table)), F.lit(False))
