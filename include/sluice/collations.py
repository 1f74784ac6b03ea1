"""`collations:` of a table: key columns whose texts the source compares otherwise than by bytes.

Such a source takes 'abc' and 'ABC', or 'abc' and 'abc ', for one key, and events may bring either.
A column of Sluice's own stands beside the key column, holds what all equal texts have in common,
and is the key in its place; the column itself holds the text of the newest event.
"""

from __future__ import annotations

import re
from typing import Annotated, Final, Literal

from pydantic import Field

from sluice.names import OWN_COLUMNS

NOCASE: Final = "nocase"
RTRIM: Final = "rtrim"
NOCASE_RTRIM: Final = "nocase_rtrim"

Collation = Literal["nocase", "rtrim", "nocase_rtrim"]
Collations = Annotated[
    dict[str, Collation],
    Field(
        description="key column → nocase (case counts for nothing), rtrim (nor do blanks at the "
        "end), nocase_rtrim (neither does)",
    ),
]

_WORDS: Final = {name.replace("_", ""): name for name in (NOCASE, RTRIM, NOCASE_RTRIM)}
_COMPARED: Final = re.compile(
    rf"{re.escape(OWN_COLUMNS)}(?:{'|'.join(_WORDS)})_(?P<column>.+)", re.DOTALL
)


def compared_name(column: str, collation: str) -> str:
    """The name of the column that is the key in the place of this one."""
    return f"{OWN_COLUMNS}{collation.replace('_', '')}_{column}"


def source_name(column: str) -> str:
    """The source's name of a key column, be it one that `compared_name` has named."""
    found = _COMPARED.fullmatch(column)
    return found["column"] if found else column
