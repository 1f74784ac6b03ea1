"""Histories, and targets that keep deleted rows, in the reference's terms."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

from sluice import names
from tests import reference
from tests.spark.histories import as_rows, spelled
from tests.spark.sandbox import Sandbox

ORIGIN = datetime(2001, 9, 9, 1, 46, 40, tzinfo=UTC)  # 10**12 ms, where the sources' clocks begin


def clock(at: datetime | None) -> int | None:
    """A time by the source's clock."""
    return None if at is None else round((at - ORIGIN).total_seconds() * 1000)


def comparable(versions: Iterable[reference.Version]) -> list[reference.Row]:
    """The reference's versions, as the two below have them."""
    rows = [spelled(v.values) | {"since": v.since, "until": v.until} for v in versions]
    return sorted(map(reference.row, rows), key=repr)


def histories(lake: Sandbox, table: str) -> list[reference.Row]:
    """A history; its own marks have to agree with each other."""
    rows = lake.rows(f"{table}__history", metadata=True)
    for row in rows:
        assert row["_is_current"] == (row["_valid_to"] is None) == (row["_position_to"] is None)
        assert row["_position_to"] is None or row["_position_to"] > row["_position"]
    return _clocked(rows, "_valid_from", "_valid_to")


def newest(lake: Sandbox, table: str) -> list[reference.Row]:
    """A target that keeps deleted rows."""
    rows = lake.rows(table, metadata=True)
    for row in rows:
        assert row["_is_deleted"] == (row["_deleted_at"] is not None)
        assert row["_is_deleted"] == (row["_deleted_position"] is not None)
    return _clocked(rows, "_source_ts", "_deleted_at")


def _clocked(rows: list[dict[str, Any]], since: str, until: str) -> list[reference.Row]:
    times = [{"since": clock(r[since]), "until": clock(r[until])} for r in rows]
    data = [{k: v for k, v in r.items() if k not in names.RESERVED_COLUMNS} for r in rows]
    return as_rows([row | time for row, time in zip(data, times, strict=True)])
