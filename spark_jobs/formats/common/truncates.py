"""TRUNCATEs that arrive as DDL text: of a whole table, or of something that cannot be applied."""

from __future__ import annotations

import re
from typing import Final

from pyspark.sql import Column
from pyspark.sql import functions as F

# Statements can be of any length: repetitions are bounded and unambiguous, against backtracking.
_LEAD: Final = r"^\s*+(?:(?:(?>/\*.*?\*/)|(?:--|#)[^\n]*+\n)\s*+){0,9}+"
START: Final = rf"(?isU){_LEAD}"
END: Final = r"(?:[\s;]++|(?>/\*.*?\*/)|(?:--|#)[^\n]*+){0,9}+$"
GAP: Final = r"(?:\s|(?>/\*.*?\*/)){1,99}+"
_STATED: Final = rf"{_LEAD}truncate\b"
"""Statements that are a TRUNCATE of anything, without the flags, which differ by language."""
_OF_A_PART: Final = rf"{START}alter{GAP}table\b.{{1,400}}?\btruncate{GAP}(?:sub)?partitions?\b"
UNCLEAR: Final = rf"(?isU){_STATED}|{_OF_A_PART}"
"""TRUNCATEs, and ALTER TABLE of Oracle, MySQL and MariaDB that truncates partitions."""
_PART: Final = r'(?:`[^`]++`|"[^"]++"|\[[^\]]++\]|[\w$#]++)'
_TABLE: Final = rf"(?:{_PART}\s*+\.\s*+){{0,2}}({_PART})"
# Options after the table's name that leave it a TRUNCATE of the whole table: MariaDB, Oracle,
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


def is_stated(statement: str) -> bool:
    """Whether a statement is a TRUNCATE of anything, in Python, where `U` is no flag but a rule."""
    return re.match(_STATED, statement, re.IGNORECASE | re.DOTALL) is not None


def empties(statement: Column, table: Column) -> Column:
    """Whether a statement is a TRUNCATE of exactly this table, all of it; false in doubt."""
    stated = F.btrim(F.regexp_extract(statement, _WHOLE, 1), F.lit('`"[]'))
    return F.coalesce((stated != "") & (F.lower(stated) == F.lower(table)), F.lit(False))
