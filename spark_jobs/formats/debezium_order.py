"""The orders of Debezium's connectors, as positions.

Source: formats.md 6.1. PostgreSQL by the pair of `source.sequence`, MySQL and MariaDB by (binlog
file number, pos, row), Oracle by (commit_scn, scn, rs_id, ssn), SQL Server by (commit_lsn,
change_lsn, event_serial_no), MongoDB by (ts_ms, ord); without these, by arrival.
"""

from __future__ import annotations

from functools import reduce
from operator import or_
from typing import Final

from pyspark.sql import Column
from pyspark.sql import functions as F

from sluice.positions import KIND_FULL_LOAD, KIND_SOURCE
from spark_jobs.canonical import number

_COMPONENT: Final = "_component_"


def components(connector: str | None) -> dict[str, Column]:
    """The texts of the position's components, by the connector that wrote the event.

    A component that an event must have and has not is '': then the event has no position. With
    `connector`, those of all the others' events are NULL.
    """
    orders = {"op = 'r'": _snapshot()} | {
        f"source.connector = '{name}'": order
        for name, order in _ORDERS.items()
        if connector in (None, name)
    }
    most = max(len(order) for order in orders.values())
    found = {}
    for index in range(most):
        parts = {c: (*order, *["NULL"] * most)[index] for c, order in orders.items()}
        cases = [f"WHEN {condition} THEN {part}" for condition, part in parts.items()]
        found[f"{_COMPONENT}{index}"] = F.expr(f"CASE {' '.join(cases)} END")
    return found


def position(count: int) -> Column:
    """The position, from `count` columns that `components` gave."""
    texts = [F.col(f"{_COMPONENT}{index}") for index in range(count)]
    numbers = [number(text) for text in texts]
    lacking = reduce(or_, (t.isNotNull() & n.isNull() for t, n in zip(texts, numbers, strict=True)))
    kind = F.expr(f"CASE WHEN op = 'r' THEN '{KIND_FULL_LOAD}' ELSE '{KIND_SOURCE}' END")
    return F.when(texts[0].isNotNull() & ~lacking, F.concat_ws(".", kind, *numbers))


def _required(text: str) -> str:
    return f"coalesce({text}, '')"


def _optional(text: str) -> str:
    return f"coalesce({text}, '0')"


def _hex(text: str, separator: str, index: int) -> str:
    """One of several hexadecimal numbers in a text, in decimal."""
    return f"conv(get(split({text}, '{separator}'), {index}), 16, 10)"


def _snapshot() -> tuple[str, ...]:
    """Below every change; a later snapshot of a row above an earlier one."""
    at = "coalesce(source.lsn, source.scn, source.pos)"
    read = "coalesce(ts_ns, concat(ts_us, '000'), concat(ts_ms, '000000'))"
    return tuple(
        _optional(f"CASE WHEN {text} RLIKE '^[0-9]+$' THEN {text} END") for text in (at, read)
    )


def _postgresql() -> tuple[str, ...]:
    """`sequence` is [last commit LSN, LSN]: alone, `lsn` goes back between transactions."""
    commit = "nullif(regexp_extract(source.sequence, '^.\"([0-9]+)\"', 1), '')"
    own = "nullif(regexp_extract(source.sequence, '\"([0-9]+)\".$', 1), '')"
    unpaired = "CASE WHEN source.sequence IS NULL THEN coalesce(source.lsn, '') ELSE '0' END"
    return f"coalesce({commit}, {unpaired})", f"coalesce({own}, source.lsn, '')"


def _mysql() -> tuple[str, ...]:
    file_number = "regexp_extract(source.file, '([0-9]+)$', 1)"
    return _required(file_number), _required("source.pos"), _optional("source.row")


def _oracle() -> tuple[str, ...]:
    rs_id = "regexp_replace(trim(source.rs_id), '^0x', '')"
    redo = (_optional(_hex(rs_id, "[.]", index)) for index in range(3))
    commit = "coalesce(source.commit_scn, source.scn, '')"
    return commit, _required("source.scn"), *redo, _optional("source.ssn")


def _sqlserver() -> tuple[str, ...]:
    lsns = ("source.commit_lsn", "source.change_lsn")
    halves = [_required(_hex(lsn, ":", index)) for lsn in lsns for index in range(3)]
    return *halves, _optional("source.event_serial_no")


_ORDERS: Final = {
    "postgresql": _postgresql(),
    "mysql": _mysql(),
    "mariadb": _mysql(),
    "oracle": _oracle(),
    "sqlserver": _sqlserver(),
    "mongodb": (_required("source.ts_ms"), _required("source.ord")),
}
CONNECTORS: Final = frozenset(_ORDERS)
