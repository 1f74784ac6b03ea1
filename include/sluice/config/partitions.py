"""`partition_by` of a table: `col`, `days(col)`, `bucket(16, col)`, `truncate(4, col)`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from sluice.types.columns import parse_type

TIME_TRANSFORMS: Final = ("years", "months", "days", "hours")
NUMBER_TRANSFORMS: Final = ("bucket", "truncate")

_COLUMN: Final = r"(?P<column>[^\s(),`]+|`[^`]+`)"
_PATTERN: Final = re.compile(
    rf"^\s*(?:(?P<transform>{'|'.join(TIME_TRANSFORMS)})\(\s*{_COLUMN}\s*\)"
    rf"|(?P<numbered>{'|'.join(NUMBER_TRANSFORMS)})\(\s*(?P<n>[1-9]\d{{0,8}})\s*,"
    rf"\s*{_COLUMN.replace('column', 'column_n')}\s*\)"
    rf"|{_COLUMN.replace('column', 'column_i')})\s*$"
)
# The types that each transform accepts, by Iceberg's specification ("Partition Transforms").
_TIMES: Final = frozenset({"timestamp", "timestamp_ntz"})
_DAYS: Final = _TIMES | {"date"}
_EXACT: Final = frozenset({"int", "bigint", "decimal", "string", "binary"})
_TAKES: Final[Mapping[str, frozenset[str]]] = {
    "years": _DAYS, "months": _DAYS, "days": _DAYS, "hours": _TIMES, "truncate": _EXACT,
    "bucket": _EXACT | _DAYS,
}  # fmt: skip


@dataclass(frozen=True)
class Partition:
    """One partition field; `transform` is `identity` for a bare column."""

    column: str
    transform: str = "identity"
    argument: int | None = None

    @property
    def sql(self) -> str:
        """The field in the syntax of Spark SQL's PARTITIONED BY."""
        column = f"`{self.column}`"
        if self.transform == "identity":
            return column
        inner = column if self.argument is None else f"{self.argument}, {column}"
        return f"{self.transform}({inner})"

    @property
    def shown(self) -> str:
        """The field for people."""
        inner = self.column if self.argument is None else f"{self.argument}, {self.column}"
        return f"{self.transform}({inner})"


def unfit(fields: Iterable[Partition], types: Mapping[str, str]) -> Iterator[str]:
    """Yield what is wrong with each field whose transform does not accept its column's Spark type;
    columns without a type are left out."""
    for field in fields:
        takes, kind = _TAKES.get(field.transform), types.get(field.column)
        if takes is not None and kind is not None and parse_type(kind).name not in takes:
            allowed = ", ".join(sorted(takes))
            yield f"{field.shown}, and {field.column} is {kind}: it takes {allowed} alone"


def parse_partition(text: str) -> Partition:
    """Parse one partition field; raises ValueError listing what is allowed."""
    match = _PATTERN.match(text)
    if not match:
        raise ValueError(
            f"col, {', '.join(f'{t}(col)' for t in TIME_TRANSFORMS)}, bucket(n, col) "
            f"or truncate(n, col)"
        )
    if match["numbered"]:
        return Partition(match["column_n"].strip("`"), match["numbered"], int(match["n"]))
    if match["transform"]:
        return Partition(match["column"].strip("`"), match["transform"])
    return Partition(match["column_i"].strip("`"))
