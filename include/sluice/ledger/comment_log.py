"""Comments on targets from the DDL of each batch: the ledger's table `sluice.comments`.

As with renames, a batch's comments count once it is published.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import asdict, dataclass, fields
from typing import Final

from pyiceberg.catalog import Catalog

from sluice.catalog.client import find_table
from sluice.ledger import ddl_log
from sluice.ledger.tables import COMMENTS
from sluice.names import LEDGER_NAMESPACE

_NO_TABLE: Final = ""


@dataclass(frozen=True)
class CommentStatement:
    """The comment that a statement sets on a target's column, or on the target (`column_name`
    None).

    `comment` None: the comment is removed. `turn`: the order among comments at one position.
    """

    namespace: str
    table_name: str
    position: str
    turn: int
    column_name: str | None
    comment: str | None
    batch_id: str = ""

    @property
    def place(self) -> tuple[str, int, str]:
        """The sort key: of two comments on one column, the one with the higher key is used."""
        return self.position, self.turn, self.comment or ""


def record(
    catalog: Catalog, pipeline: str, batch_id: str, stated: Collection[CommentStatement]
) -> None:
    """Write a batch's comments, also when it has none, in place of an earlier attempt's."""
    if stated or find_table(catalog, LEDGER_NAMESPACE, COMMENTS) is not None:
        nothing = asdict(CommentStatement("", _NO_TABLE, "", 0, None, None))
        ddl_log.record(catalog, COMMENTS, (pipeline, batch_id), list(map(asdict, stated)), nothing)


def recorded(catalog: Catalog, pipeline: str) -> list[CommentStatement]:
    """Return the comments of a pipeline's batches, published or not."""
    rows = ddl_log.recorded(catalog, COMMENTS, pipeline)
    names = [field.name for field in fields(CommentStatement)]
    stored = (CommentStatement(**{name: row[name] for name in names}) for row in rows)
    return [one for one in stored if one.table_name != _NO_TABLE]
