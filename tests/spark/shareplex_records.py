"""Records as SharePlex writes them."""

from __future__ import annotations

from typing import Any


def record(op: str | None, data: Any = None, key: Any = None, **meta: Any) -> dict[str, Any]:
    """A record on table `O.T` at scn 100, transaction 7.0.4, operation 2 of 3."""
    place = {"scn": "100", "trans": "7.0.4", "seq": 2, "idx": "2/3", "size": 3}
    header = {"op": op, "table": "O.T", "time": "2017-06-16T14:24:34", "userid": 84, **place}
    header = {name: value for name, value in (header | meta).items() if value is not ...}
    parts = {"meta": header, "data": data, "key": key}
    return {name: part for name, part in parts.items() if part is not None}


def change(scn: int, op: str, data: Any = None, key: Any = None, table: str = "O.ITEM") -> Any:
    """A change of its own transaction."""
    return record(op, data, key, table=table, scn=str(scn), trans=f"1.2.{scn}", seq=1, idx="1/1")
