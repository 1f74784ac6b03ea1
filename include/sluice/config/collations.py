"""`collations:` and `null_keys:` of a table: key columns that are not compared by value.

The source treats 'abc' and 'ABC', or 'abc' and 'abc ', as one key, and events may carry either; or
NULL is a key value like any other. An extra column of Sluice has a form that is the same for all
equal values, and replaces the key column in the key. The key column itself has the newest event's
value.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Final, Literal

from pydantic import AfterValidator, Field

from sluice.names import OWN_COLUMNS
from sluice.source_names import stored_name

NOCASE: Final = "nocase"
RTRIM: Final = "rtrim"
NULL: Final = "null"

Collation = Literal["nocase", "rtrim", "nocase_rtrim"]


def _by_stored_name(value: dict[str, Collation]) -> dict[str, Collation]:
    if len({stored_name(name).lower() for name in value}) < len(value):
        raise ValueError("each column once (names are case-insensitive)")
    return {stored_name(name): rule for name, rule in value.items()}


def _stored_names(value: list[str]) -> list[str]:
    return [*map(stored_name, value)]


Collations = Annotated[
    dict[str, Collation],
    AfterValidator(_by_stored_name),
    Field(
        description="key column → nocase (case is ignored), rtrim (trailing blanks are ignored), "
        "nocase_rtrim (both)",
    ),
]
NullKeys = Annotated[
    list[str],
    AfterValidator(_stored_names),
    Field(description="key columns in which NULL is a value like any other"),
]

_COMPARED: Final = re.compile(
    rf"{re.escape(OWN_COLUMNS)}(?!_)(?:{NULL})?(?:{NOCASE})?(?:{RTRIM})?_(?P<column>.+)", re.DOTALL
)


def rules(collations: Mapping[str, str], null_keys: Iterable[str]) -> dict[str, str]:
    """Return the comparison rule of each key column that has one."""
    nulls = {name: "_".join(filter(None, (NULL, collations.get(name)))) for name in null_keys}
    return {**collations, **nulls}


def not_in_key(key: Sequence[str] | None, named: Iterable[str]) -> str:
    """Return the columns in `named` that a configured key lacks, joined; '' if none."""
    key_columns = {column.lower() for column in key or ()}
    return "" if key is None else ", ".join(n for n in named if n.lower() not in key_columns)


def in_key(key: Sequence[str] | None, named: Iterable[str]) -> str:
    """Return the columns in `named` that are part of a configured key, joined; '' if none."""
    key_columns = {column.lower() for column in key or ()}
    return ", ".join(n for n in named if n.lower() in key_columns)


def compared_name(column: str, rule: str) -> str:
    """Return the name of the column that replaces this one in the key."""
    return f"{OWN_COLUMNS}{rule.replace('_', '')}_{column}"


def source_name(column: str) -> str:
    """Return the source's name of a key column, also for one named by `compared_name`."""
    match = _COMPARED.fullmatch(column)
    return match["column"] if match else column
