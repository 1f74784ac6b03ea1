"""Oracle GoldenGate, JSON, from a trail with compressed updates."""

from __future__ import annotations

from tests.reference import Change
from tests.spark.dialects.base import (
    Dialect,
    Row,
    ident,
    images,
    key,
    sent_columns,
    serial,
    whole_inserts,
)


def tell(change: Change, database: str, sent: int) -> list[Row]:
    """One record a change."""
    change = whole_inserts(change)
    before, after = images(change)
    op = {"r": "I", "c": "I", "u": "U", "d": "D", "t": "T"}[change.op]
    sides = {"before": before, "after": sent_columns(change)}
    if change.op == "u" and not before:
        sides["before"] = ident(change)
    told = {name: row for name, row in sides.items() if row}
    return [{
        "table": f"{database}.{change.table}", "op_type": op, "op_ts": "2020-05-13 17:26:27.936000",
        "current_ts": f"2020-05-13T17:26:{sent:02d}.120000", "pos": f"{serial(change):020d}",
        "primary_keys": key(change) if after or before else ["id"], **told,
    }]  # fmt: skip


DIALECT = Dialect("ogg", "ogg", tell, table_name="{schema}_{table}")
