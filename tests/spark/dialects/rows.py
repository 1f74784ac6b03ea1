"""Plain rows: what a dump or an export holds, in CSV and Parquet, by arrival or by a column."""

from __future__ import annotations

from typing import Any

from tests.reference import Change
from tests.spark.dialects.base import Dialect, images, serial
from tests.spark.dialects.tables import CONTAINERS, TableRow

ORDER = "seq"


def tell(change: Change, database: str, sent: int) -> list[TableRow]:
    """One row a change; its folder names the table."""
    _, after = images(change)
    return [TableRow(f"{database}_{change.table}", after)]


def tell_ordered(change: Change, database: str, sent: int) -> list[TableRow]:
    """The same with a column that orders."""
    _, after = images(change)
    return [TableRow(f"{database}_{change.table}", after | {ORDER: serial(change)})]


def _dialect(container: str, **more: Any) -> Dialect:
    return Dialect(
        f"rows{' by arrival' if 'by_arrival' in more else ''} in {container}", "rows",
        truncates=False, only_rows=True, source_table="{database}_{table}", table_name="{table}",
        content=CONTAINERS[container], file=lambda row, at: f"{row.table}/{at:03}.{container}",
        **more,
    )  # fmt: skip


DIALECTS = tuple(
    dialect
    for container in CONTAINERS
    for dialect in (
        _dialect(container, tell=tell, by_arrival=True),
        _dialect(container, tell=tell_ordered, options={"order_column": ORDER}, besides=(ORDER,)),
    )
)
