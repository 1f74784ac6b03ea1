"""`collations:` and `null_keys:` of a table: key columns that compare otherwise than by value.

Such a source takes 'abc' and 'ABC', or 'abc' and 'abc ', for one key, and events may bring either;
or NULL is a value of its key like any other. A column of Sluice's own stands beside the key column,
holds what all equal values have in common, and is the key in its place; the column itself holds
the value of the newest event.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Final, Literal

from pydantic import Field

from sluice.names import OWN_COLUMNS

NOCASE: Final = "nocase"
RTRIM: Final = "rtrim"
NULL: Final = "null"

Collation = Literal["nocase", "rtrim", "nocase_rtrim"]
Collations = Annotated[
    dict[str, Collation],
    Field(
        description="key column → nocase (case counts for nothing), rtrim (nor do blanks at the "
        "end), nocase_rtrim (neither does)",
    ),
]
NullKeys = Annotated[
    list[str], Field(description="key columns in which NULL is a value like any other")
]

_COMPARED: Final = re.compile(
    rf"{re.escape(OWN_COLUMNS)}(?!_)(?:{NULL})?(?:{NOCASE})?(?:{RTRIM})?_(?P<column>.+)", re.DOTALL
)


def rules(collations: Mapping[str, str], null_keys: Iterable[str]) -> dict[str, str]:
    """How each key column compares that does not by its value alone."""
    nulls = {name: "_".join(filter(None, (NULL, collations.get(name)))) for name in null_keys}
    return {**collations, **nulls}


def beside_key(key: Sequence[str] | None, named: Iterable[str]) -> str:
    """Columns that `collations` or `null_keys` name and a configured key has not; else nothing."""
    known = {column.lower() for column in key or ()}
    return "" if key is None else ", ".join(n for n in named if n.lower() not in known)


def of_key(key: Sequence[str] | None, named: Iterable[str]) -> str:
    """The columns among `named` that a configured key has; else nothing."""
    known = {column.lower() for column in key or ()}
    return ", ".join(n for n in named if n.lower() in known)


def compared_name(column: str, rule: str) -> str:
    """The name of the column that is the key in the place of this one."""
    return f"{OWN_COLUMNS}{rule.replace('_', '')}_{column}"


def source_name(column: str) -> str:
    """The source's name of a key column, be it one that `compared_name` has named."""
    found = _COMPARED.fullmatch(column)
    return found["column"] if found else column
