"""Comments of targets in the ledger: what the DDL of each batch said, `sluice.comments`.

As with renames, what is said counts once its batch is published.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any, Final

from pyiceberg.catalog import Catalog
from pyiceberg.table import Table

from sluice.catalog.client import find_table
from sluice.catalog.patience import retry
from sluice.ledger.scans import scan
from sluice.ledger.tables import COMMENTS, Decision, LedgerTables, Row, equals
from sluice.names import LEDGER_NAMESPACE

_NOWHERE: Final = ""


@dataclass(frozen=True)
class ToldComment:
    """What a statement at a position says of a target's column, or of the target; `comment` None:
    that it has none. `turn`: its place among what is said at that position."""

    namespace: str
    table_name: str
    position: str
    turn: int
    column_name: str | None
    comment: str | None
    batch_id: str = ""

    @property
    def place(self) -> tuple[str, int, str]:
        """By which of two that speak of one column the later one counts."""
        return self.position, self.turn, self.comment or ""


def record(catalog: Catalog, pipeline: str, batch_id: str, told: Collection[ToldComment]) -> None:
    """Write what a batch says, and be it nothing, in the place of what an earlier attempt at it
    did."""
    if told or find_table(catalog, LEDGER_NAMESPACE, COMMENTS) is not None:
        rows = [{**asdict(one), "pipeline": pipeline, "batch_id": batch_id} for one in told]
        LedgerTables(catalog).append(COMMENTS, partial(_unless_there, rows, pipeline, batch_id))


def _unless_there(rows: list[Row], pipeline: str, batch_id: str, table: Table) -> Decision[None]:
    there = [r for r in _newest(_of_pipeline(table, pipeline)) if r["batch_id"] == batch_id]
    nothing = asdict(ToldComment(_NOWHERE, _NOWHERE, _NOWHERE, 0, None, None))
    said = rows or ([{**nothing, "pipeline": pipeline, "batch_id": batch_id}] if there else [])
    known, wanted = ({tuple(row[n] for n in nothing) for row in some} for some in (there, said))
    return ([] if known == wanted else said), None


def recorded(catalog: Catalog, pipeline: str) -> list[ToldComment]:
    """What the batches of a pipeline said, published or not."""
    rows = retry(lambda: _rows(catalog, pipeline), also=(FileNotFoundError,))
    fields = ToldComment.__dataclass_fields__
    told = (ToldComment(**{name: row[name] for name in fields}) for row in _newest(rows))
    return [one for one in told if one.table_name != _NOWHERE]


def _rows(catalog: Catalog, pipeline: str) -> list[dict[str, Any]]:
    table = find_table(catalog, LEDGER_NAMESPACE, COMMENTS)
    return [] if table is None else _of_pipeline(table, pipeline)


def _of_pipeline(table: Table, pipeline: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = scan(table, equals("pipeline", pipeline)).to_pylist()
    return found


def _newest(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """What the last attempt at each batch wrote."""
    last = {row["batch_id"]: row["seq"] for row in sorted(rows, key=lambda row: row["seq"])}
    return [row for row in rows if row["seq"] == last[row["batch_id"]]]
