"""Names from files: which of them may become names of tables or columns, and what a column is
called whose name is taken.

A table's name becomes a folder, and names are shown to people. Records with a name that could leave
its folder, or change what a terminal shows, go to quarantine.
"""

from __future__ import annotations

from typing import Final

from sluice.escaping import shown
from sluice.names import OWN_COLUMNS, RESERVED_COLUMNS

LONGEST: Final = 128
LONGEST_BYTES: Final = 200
# Iceberg's own columns, in any table.
ICEBERG_COLUMNS: Final = frozenset(
    (
        "_file", "_pos", "_deleted", "_spec_id", "_partition", "_row_id",
        "_last_updated_sequence_number", "_change_type", "_change_ordinal", "_commit_snapshot_id",
    )
)  # fmt: skip
_TAKEN: Final = RESERVED_COLUMNS | ICEBERG_COLUMNS
_OF_SOURCE: Final = "__source"


def is_column_name(name: str) -> bool:
    """Whether a column may have this name: not empty, bounded in length, only
    visible characters."""
    return (
        0 < len(name) <= LONGEST
        and len(name.encode(errors="surrogatepass")) <= LONGEST_BYTES
        and shown(name) == name
    )


def is_table_name(name: str) -> bool:
    """Whether a table may have this name, which also becomes a folder."""
    return is_column_name(name) and not set(name) & {"/", "\\"} and name not in (".", "..")


def is_reserved(name: str) -> bool:
    """Whether Sluice or Iceberg uses the name itself, in any case, as Spark ignores case."""
    folded = name.lower()
    return folded in _TAKEN or folded.startswith(OWN_COLUMNS)


def stored_name(name: str) -> str:
    """Return the name that a source's column has in its table: `_op` is `_op__source` there.

    A name that begins like those of Sluice's own columns has no other: `is_reserved` is still true.
    """
    return f"{name}{_OF_SOURCE}" if name.lower() in _TAKEN else name
