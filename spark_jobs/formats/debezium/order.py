"""Positions of Debezium's records, by the connector's own order.

See docs/formats/debezium.md, "Order". PostgreSQL orders by (last commit's LSN, LSN), MySQL and
MariaDB by (binlog file number, pos, row), Oracle by (commit_scn, scn, rs_id, ssn, row_id) or inside
an scn by lcr_position, SQL Server by (commit_lsn, change_lsn, event_serial_no) or inside a commit
by arrival, MongoDB by (ts_ms, ord) and inside a transaction by arrival, TiCDC by commit_ts; without
these, by arrival.
"""

from __future__ import annotations

from functools import reduce
from operator import or_
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from sluice.config.format_options import BY_ARRIVAL, DebeziumOptions
from sluice.positions import KIND_FULL_LOAD, KIND_SOURCE, encode_number
from spark_jobs.formats.common.scans import ARRIVAL
from spark_jobs.position_text import number

_COMPONENT, _NUMBER = "_component_", "_number_"
_POSTGRESQL: Final = "postgresql"
MONGODB: Final = "mongodb"
_SQLSERVER: Final = "sqlserver"
_TICDC: Final = "TiCDC"
_ALL: Final = ("connector", "db", "schema", "table", "collection", "ts_ms", "ts_us", "txId")
_POS_DIGITS: Final = 20
# Longer, and so higher, than any place in a log; for rows without a place.
_NO_PLACE: Final = f"'{'9' * 40}'"
_FILE_NUMBER: Final = "regexp_extract(source.file, '(?<![0-9])([0-9]++)$', 1)"
_SHARED: Final = {
    "mongodb": "coalesce(source.txnNumber, source.lsid) IS NOT NULL",
    "oracle": "coalesce(source.rs_id, source.lcr_position) IS NULL",
    _SQLSERVER: "TRUE",
}
KEYSPACE: Final = "keyspace"
"""Vitess' field for the database; its `db` is empty, and its order is arrival."""
CAPTURED: Final = "value_capture_type"
"""Spanner's field for what it sends of a row: all of it, or the changes; its order is arrival."""
OWNER: Final = "owner"
"""oracdc's field for the schema; its order is arrival."""
KEY_NAMES: Final = "pkNames"
"""The field of Huawei's DataArts for the names of the key; its order is arrival."""
VERSION: Final = "version"
"""The connector's version: all that distinguishes YugabyteDB's logical one from PostgreSQL's."""
SNAPSHOT: Final = "snapshot"
"""Whether a record is of a snapshot; `false` or missing for changes."""
_AMONG_CHANGES: Final = f"source.{SNAPSHOT} = 'incremental' AND source.sequence IS NOT NULL"
_ROW_ID: Final = """CASE WHEN source.rs_id IS NOT NULL AND source.row_id IS NOT NULL
    THEN conv(hex(xxhash64(source.row_id)), 16, 10) END"""
"""The address of a row that LogMiner reports, as a number. The connector never fills `ssn`, so
changes of several rows by one statement share a place of the redo log, and this distinguishes them.
Without a place arrival does, which the address must not overrule."""
_LCR_DIGITS: Final = 16
_LCR_PARTS: Final = 4


def sharing(options: DebeziumOptions) -> frozenset[str]:
    """The connectors whose events may share a place in the source's log.

    SQL Server is among them if the option says so: its changes then have no place inside their
    commit.
    """
    by_arrival = options.sqlserver_order == BY_ARRIVAL
    return frozenset(_SHARED) if by_arrival else frozenset(_SHARED) - {_SQLSERVER}


def _components(connector: str | None, shared: frozenset[str]) -> dict[str, Column]:
    """The texts of the position's components, by the connector that wrote the event.

    A required component that is missing is '', and the event has no position. With `connector`,
    components are NULL for events of any other.
    """
    orders = {_read(connector): _snapshot(connector)} | {
        f"source.connector = '{name}'": order
        for name, order in _orders(shared).items()
        if connector in (None, name)
    }
    most = max(len(order) for order in orders.values())
    components = {}
    for index in range(most):
        parts = {c: (*order, *["NULL"] * most)[index] for c, order in orders.items()}
        cases = [f"WHEN {condition} THEN {part}" for condition, part in parts.items()]
        components[f"{_COMPONENT}{index}"] = F.expr(f"CASE {' '.join(cases)} END")
    return components


def _orders(shared: frozenset[str]) -> dict[str, tuple[str, ...]]:
    by_commit = {_SQLSERVER: _lsn("source.commit_lsn")} if _SQLSERVER in shared else {}
    return _ORDERS | by_commit


def with_position(events: DataFrame, connector: str | None, shared: frozenset[str]) -> DataFrame:
    """Add `position`, in steps, so that Spark computes each text once.

    Events that share a place in the source's log go by arrival, where there is that column: those
    of a transaction of MongoDB, of an scn of an Oracle connector without finer places, and of a
    commit of SQL Server where it is `shared`.
    """
    parts = _components(connector, shared)
    read = F.expr(_read(connector))
    numbers = {f"{_NUMBER}{i}": _number(name, i, read) for i, name in enumerate(parts)}
    position = _position(len(parts), read)
    if ARRIVAL in events.columns:
        among = F.concat(position, F.lit("."), ARRIVAL)
        position = F.when(F.expr(_shares_place(connector, shared)), among).otherwise(position)
    numbered = events.withColumns(dict(parts)).withColumns(numbers)
    return numbered.withColumn("position", position)


def _shares_place(connector: str | None, shared: frozenset[str]) -> str:
    """SQL for whether an event may share its place in the source's log with others."""
    conditions = [
        f"source.connector = '{name}' AND {shares}"
        for name, shares in _SHARED.items()
        if name in shared and connector in (None, name)
    ]
    return f"op <> 'r' AND ({' OR '.join(conditions) or 'FALSE'})"


def _read(connector: str | None) -> str:
    """SQL for whether a record is a snapshot's row that ranks below every change.

    Rows of PostgreSQL's incremental snapshots have a place among the changes, and contain all
    changes below it: these must not be applied to them again.
    """
    if connector not in (None, _POSTGRESQL):
        return "op = 'r'"
    return f"op = 'r' AND NOT coalesce({_AMONG_CHANGES}, FALSE)"


def _position(count: int, read: Column) -> Column:
    texts = [F.col(f"{_COMPONENT}{index}") for index in range(count)]
    numbers = [F.col(f"{_NUMBER}{index}") for index in range(count)]
    missing = reduce(or_, (t.isNotNull() & n.isNull() for t, n in zip(texts, numbers, strict=True)))
    kind = F.when(read, F.lit(KIND_FULL_LOAD)).otherwise(F.lit(KIND_SOURCE))
    return F.when(numbers[0].isNotNull() & ~missing, F.concat_ws(".", kind, *numbers))


def _number(component: str, index: int, read: Column) -> Column:
    """A component as written in a position; one that a full-load row lacks is 0."""
    encoded = number(F.col(component))
    zero = F.when(read, F.lit(encode_number(0)))
    return F.coalesce(encoded, zero) if index < len(_snapshot(None)) else encoded


def source_fields(connector: str | None) -> tuple[str, ...]:
    """The fields of `source` to read: those of one connector's order, without one all."""
    orders = [fields for name, fields in _FIELDS.items() if connector in (None, name)]
    others = () if connector else (KEYSPACE, CAPTURED, OWNER, KEY_NAMES, VERSION)
    return tuple(dict.fromkeys((*_ALL, *others, *(f for order in orders for f in order))))


def _required(text: str) -> str:
    return f"coalesce({text}, '')"


def _optional(text: str) -> str:
    return f"coalesce({text}, '0')"


def _hex(text: str, separator: str, index: int) -> str:
    """SQL for one of several hexadecimal numbers in a text, in decimal; NULL beyond 64 bits."""
    part = f"get(split({text}, '{separator}'), {index})"
    return f"conv(regexp_extract({part}, '^[0-9a-fA-F]{{1,16}}$', 0), 16, 10)"


def _snapshot(connector: str | None) -> tuple[str, ...]:
    """The order of a snapshot's rows, below every change: a later snapshot of a row wins.

    A row without a place is of an incremental snapshot, taken after the first one. The binary log's
    file and offset are joined into one number, for other connectors have one.
    """
    pos = f"lpad(source.pos, {_POS_DIGITS}, '0')"
    at_binlog = f"concat(coalesce({_FILE_NUMBER}, ''), {pos})"
    places = {"lsn": "source.lsn", "scn": "source.scn", "pos": at_binlog}
    texts = [text for name, text in places.items() if name in source_fields(connector)]
    # Offset 0 of a binary log without a name is no place.
    nonzero = [f"nullif(trim(LEADING '0' FROM {text}), '')" for text in texts]
    at = f"coalesce({', '.join([*nonzero, _NO_PLACE])})"
    return at, "coalesce(ts_ns, concat(ts_us, '000'), concat(ts_ms, '000000'))"


def _postgresql() -> tuple[str, ...]:
    """`sequence` is ["last commit LSN","LSN"]: alone, `lsn` goes back between transactions.

    Up to version 1.6 both halves are the last commit's, and only `lsn` orders the changes of a
    transaction. Before the first commit after a start the first half is null: the LSN is used for
    both, for these changes are above all earlier commits. Cutting at the quotes costs a quarter of
    a pattern.
    """
    own = """coalesce(source.lsn, CASE WHEN endswith(source.sequence, '"]')
        THEN substring_index(substring_index(source.sequence, '"', -2), '"', 1) END, '')"""
    commit = f"""CASE WHEN startswith(source.sequence, '["')
        THEN substring(substring_index(source.sequence, '"', 2), 3) ELSE {own} END"""
    return commit, f"CASE WHEN op = 'r' THEN {_before(commit, own)} ELSE {own} END"


def _before(commit: str, own: str) -> str:
    """SQL for the own LSN of a row of an incremental snapshot, which carries another record's LSN.

    In read-only snapshots that record is the change that ended the window. It is sent after the
    rows and may change one of them (Debezium's `EventDispatcher` calls `processMessage` of
    PostgresReadOnlyIncrementalSnapshotChangeEventSource before it sends the change). So a row is
    put one byte before it, where no record of the log begins. At the last commit itself it is put
    before all that follows: a transaction that overlaps may begin in the log below it.

    It is in a lambda, for which Spark generates no code: few records need it, and the code for
    every record must stay small enough to be compiled.
    """
    earlier = "coalesce(CAST(try_cast(at AS bigint) - 1 AS string), '')"
    return f"""get(transform(array({own}),
        at -> CASE WHEN at = {commit} THEN '0' ELSE {earlier} END), 0)"""


def _mysql() -> tuple[str, ...]:
    return _required(_FILE_NUMBER), _required("source.pos"), _optional("source.row")


def _oracle() -> tuple[str, ...]:
    """LogMiner's place in the redo log, or XStream's position, which is ordered by its bytes."""
    rs_id = "regexp_replace(trim(source.rs_id), '^0x', '')"
    redo = (_optional(_hex(rs_id, "[.]", index)) for index in range(_LCR_PARTS - 1))
    places = zip((*redo, _optional("source.ssn")), map(_lcr, range(_LCR_PARTS)), strict=True)
    within = (f"CASE WHEN source.lcr_position IS NULL THEN {a} ELSE {b} END" for a, b in places)
    return _commit_scn(), _required("source.scn"), *within, _ROW_ID


def _commit_scn() -> str:
    """SQL for the greater of `commit_scn` and `scn`: changes come before their commit.

    In a cluster (RAC), Debezium 1.9.5 to 2.2 writes the last commit of the change's redo thread,
    which may be an older transaction's. Its `scn` then orders the change correctly among those of
    its row, which is locked until the commit.
    """
    own, commit = (f"try_cast(source.{n} AS decimal(38,0))" for n in ("scn", "commit_scn"))
    stated = "coalesce(source.commit_scn, source.scn, '')"
    return f"CASE WHEN {own} > {commit} THEN source.scn ELSE {stated} END"


def _lcr(index: int) -> str:
    """SQL for eight bytes of XStream's position; a shorter one is filled up with zeros."""
    digits = f"rpad(source.lcr_position, {_LCR_PARTS * _LCR_DIGITS}, '0')"
    part = f"substring({digits}, {index * _LCR_DIGITS + 1}, {_LCR_DIGITS})"
    return _required(_hex(part, ":", 0))


def _sqlserver() -> tuple[str, ...]:
    lsns = (*_lsn("source.commit_lsn"), *_lsn("source.change_lsn"))
    return *lsns, _optional("source.event_serial_no")


def _lsn(text: str) -> tuple[str, ...]:
    return tuple(_required(_hex(text, ":", index)) for index in range(3))


_ORDERS: Final = {
    _POSTGRESQL: _postgresql(),
    "mysql": _mysql(),
    "mariadb": _mysql(),
    "oracle": _oracle(),
    _SQLSERVER: _sqlserver(),
    "mongodb": (_required("source.ts_ms"), _required("source.ord")),
    _TICDC: (_required("source.commit_ts"),),
}
_FIELDS: Final = {
    _POSTGRESQL: ("lsn", "sequence", SNAPSHOT),
    "mysql": ("file", "pos", "row"),
    "mariadb": ("file", "pos", "row"),
    "oracle": ("commit_scn", "scn", "rs_id", "ssn", "lcr_position", "row_id"),
    _SQLSERVER: ("commit_lsn", "change_lsn", "event_serial_no"),
    "mongodb": ("ord", "txnNumber", "lsid"),
    _TICDC: ("commit_ts",),
}
CONNECTORS: Final = frozenset(_ORDERS)
