"""Compaction of the ledger: one file a table, without rows that say the same as a later one.

Every renewal of a lease is a row. Of a batch, file or publication that stayed in a state only the
last row of that state says anything; the states it went through stay on record.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
from pyiceberg.catalog import Catalog

from sluice.ledger.tables import BATCHES, FILES, PUBLICATIONS, LedgerTables

_SAME_STATE: Final = {
    FILES: ("pipeline", "object_key", "batch_id", "state"),
    BATCHES: ("pipeline", "batch_id", "attempt", "state"),
    PUBLICATIONS: ("pipeline", "batch_id", "attempt", "namespace", "table_name", "state"),
}


@dataclass(frozen=True)
class Compacted:
    """How many rows a table of the ledger had, and has (dry run: would have)."""

    before: int
    after: int


def compact_ledger(catalog: Catalog, name: str, dry_run: bool = False) -> Compacted:
    """Compact one table of the ledger, unless somebody writes it meanwhile."""

    def shrink(rows: Any) -> Any:
        return last_of_each_state(rows, _SAME_STATE[name])

    return Compacted(*LedgerTables(catalog).compact(name, shrink, dry_run))


def last_of_each_state(rows: Any, columns: tuple[str, ...]) -> Any:
    """The rows of an Arrow table that have the highest `seq` of all that agree in `columns`."""
    listed = (rows.column(name).to_pylist() for name in (*columns, "seq"))
    last: dict[tuple[Any, ...], tuple[int, int]] = {}
    for place, (*key, seq) in enumerate(zip(*listed, strict=True)):
        last[tuple(key)] = max(last.get(tuple(key), (seq, place)), (seq, place))
    return rows.take(pa.array(sorted(place for _, place in last.values()), pa.int64()))
