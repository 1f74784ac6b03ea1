"""`partition_by` of a table: `col`, `days(col)`, `bucket(16, col)`, `truncate(4, col)`."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

TIME_TRANSFORMS: Final = ("years", "months", "days", "hours")
NUMBER_TRANSFORMS: Final = ("bucket", "truncate")

_COLUMN: Final = r"(?P<column>[^\s(),`]+|`[^`]+`)"
_PATTERN: Final = re.compile(
    rf"^\s*(?:(?P<transform>{'|'.join(TIME_TRANSFORMS)})\(\s*{_COLUMN}\s*\)"
    rf"|(?P<numbered>{'|'.join(NUMBER_TRANSFORMS)})\(\s*(?P<n>[1-9]\d{{0,8}})\s*,"
    rf"\s*{_COLUMN.replace('column', 'column_n')}\s*\)"
    rf"|{_COLUMN.replace('column', 'column_i')})\s*$"
)


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
