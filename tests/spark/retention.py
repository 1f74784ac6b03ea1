"""A batch whose changes expire, as retention does it once they are old."""

from __future__ import annotations

from sluice.names import PROP_FLOOR
from tests.spark.sandbox import Sandbox


def forget(lake: Sandbox, batch_id: str, name: str = "orders") -> None:
    """Expire a batch's changes of one table: the floor first, then the changes."""
    table = lake.catalog.load_table(("shop__cdc", f"{name}__changes"))
    mine = f"_batch_id = '{batch_id}'"
    forgotten = table.scan(row_filter=mine).to_arrow()["_position"].to_pylist()
    target = lake.catalog.load_table(("shop", name))
    with target.transaction() as change:
        change.set_properties({PROP_FLOOR: max(forgotten)})
    table.delete(mine)
