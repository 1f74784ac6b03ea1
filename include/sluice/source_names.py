"""Names that come from files: which of them may name a table or a column of the lake.

A table's name becomes a folder, and any name is shown to people, so a name that could leave its
folder, or change what a terminal shows, names nothing: its records go to quarantine.
"""

from __future__ import annotations

from typing import Final

from sluice.escaping import shown
from sluice.names import OWN_COLUMNS, RESERVED_COLUMNS

LONGEST: Final = 128
LONGEST_BYTES: Final = 200
# What Iceberg keeps for columns of its own, in any table.
ICEBERG_COLUMNS: Final = frozenset(
    (
        "_file", "_pos", "_deleted", "_spec_id", "_partition", "_row_id",
        "_last_updated_sequence_number", "_change_type", "_change_ordinal", "_commit_snapshot_id",
    )
)  # fmt: skip
_RESERVED: Final = RESERVED_COLUMNS | ICEBERG_COLUMNS


def is_column_name(name: str) -> bool:
    """True for a name that a column may have: not empty, of bounded length, of what can be seen."""
    return (
        0 < len(name) <= LONGEST
        and len(name.encode(errors="surrogatepass")) <= LONGEST_BYTES
        and shown(name) == name
    )


def is_table_name(name: str) -> bool:
    """The same for a table, whose name is also a folder's."""
    return is_column_name(name) and not set(name) & {"/", "\\"} and name not in (".", "..")


def is_reserved(name: str) -> bool:
    """True for a name that Sluice or Iceberg keeps for itself; to Spark it is one in any case."""
    folded = name.lower()
    return folded in _RESERVED or folded.startswith(OWN_COLUMNS)
