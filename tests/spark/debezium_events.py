"""Debezium's events in JSON for tests."""

from __future__ import annotations

from typing import Any

ROW = {"id": 1, "name": "a"}
# Of the connectors' option `unavailable.value.placeholder`.
DEFAULT_PLACEHOLDER = "__debezium_unavailable_value"


def source(connector: str = "mysql", **fields: Any) -> dict[str, Any]:
    """A `source` block of table `shop.t`; MySQL's place unless told."""
    place = {"file": "binlog.000009", "pos": 5, "row": 0} if connector == "mysql" else {}
    schema = {"schema": "public"} if connector in ("postgresql", "oracle", "sqlserver") else {}
    common = {"connector": connector, "db": "shop", "table": "t", "ts_ms": 1704164645678}
    return common | schema | place | fields


def event(op: str = "c", src: Any = None, **fields: Any) -> dict[str, Any]:
    """An event on `shop.t` with the images that its operation has."""
    images = {"before": ROW if op == "d" else None, "after": None if op == "d" else ROW}
    return images | {"op": op, "source": source() if src is None else src} | fields
