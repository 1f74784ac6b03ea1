"""Comments of targets in the ledger: what the DDL of each batch said, `sluice.comments`.

As with renames, what is said counts once its batch is published.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import asdict, dataclass
from typing import Final

from pyiceberg.catalog import Catalog

from sluice.catalog.client import find_table
from sluice.ledger import ddl_log
from sluice.ledger.tables import COMMENTS
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
        nothing = asdict(ToldComment(_NOWHERE, _NOWHERE, _NOWHERE, 0, None, None))
        ddl_log.record(catalog, COMMENTS, (pipeline, batch_id), list(map(asdict, told)), nothing)


def recorded(catalog: Catalog, pipeline: str) -> list[ToldComment]:
    """What the batches of a pipeline said, published or not."""
    rows = ddl_log.recorded(catalog, COMMENTS, pipeline)
    fields = ToldComment.__dataclass_fields__
    told = (ToldComment(**{name: row[name] for name in fields}) for row in rows)
    return [one for one in told if one.table_name != _NOWHERE]
