"""Which of Debezium's records are events, and the reasons why others are not.

See docs/formats/debezium.md, "Operations"; the source is Debezium's documentation of the records
that its connectors emit beside changes.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Final

from pyspark.sql import Column
from pyspark.sql import functions as F

from spark_jobs.canonical import (
    OP_DELETE,
    OP_TRUNCATE,
    OUTCOME_EVENT,
    OUTCOME_IGNORE,
    OUTCOME_REJECT,
)
from spark_jobs.formats.common.envelope import names_in
from spark_jobs.formats.debezium import documents as debezium_documents
from spark_jobs.formats.debezium.head import FORMS, MARKER, SEEMING, SIGNS, TIMES
from spark_jobs.formats.debezium.order import CAPTURED, SNAPSHOT, VERSION

FLATTENED: Final = ("__op", "__deleted")
"""Fields that the transform ExtractNewRecordState may add when it removes the envelope."""
STATEMENT: Final = "ddl IS NOT NULL OR (op IS NULL AND tableChanges IS NOT NULL)"
"""Whether a record is a schema change; SQL Server and Db2 send no text of the statement."""
_STRAY_ROW: Final = "after IS NOT NULL OR (before IS NOT NULL AND key IS NULL)"
"""Whether a record without an operation has a row; a tombstone may have its key as `before`."""
_KEY: Final = r'"name" *: *"[^"]*[.]Key"'
"""The name of a key's schema in Connect."""
_CELL: Final = '^[{].*"set": *(true|false) *[}]$'
"""A value of Cassandra's connector and of both of YugabyteDB's: `set` distinguishes a value that
stayed from one that became NULL."""
_OLD_CELL: Final = '^[{] *"value":.*[}]$'
"""A value of older versions of YugabyteDB's gRPC connector."""


def _all(cell: str) -> str:
    """SQL for whether all values of a row are such cells: a single one may be the source's JSON."""
    values = "map_values(coalesce(after, before))"
    return f"array_min(transform({values}, value -> value RLIKE '{cell}'))"


_CELLS: Final = f"""source.connector IN ('cassandra', 'scylla')
    OR (source.connector = 'yugabytedb' AND {_all(_OLD_CELL)})
    OR (source.connector = 'postgresql' AND contains(source.{VERSION}, '.yb.') AND {_all(_CELL)})"""
_PARTS: Final = f"""op = 'u' AND source.connector = 'spanner'
    AND source.{CAPTURED} IN ('OLD_AND_NEW_VALUES', 'NEW_VALUES')"""
"""Whether a NULL in an update of Spanner may be a value that stayed."""
IS_HEARTBEAT: Final = "isHeartbeat"
"""The field by which Huawei's DataArts marks changes of the table that gets its heartbeats."""
_HEARTBEAT_ROW: Final = "heartbeat_row"
_OF_SNAPSHOT: Final = "snapshot_schema"
_PASSED: Final = (
    "logical_message", *SEEMING, *debezium_documents.IGNORE_REASONS, _HEARTBEAT_ROW, _OF_SNAPSHOT,
)  # fmt: skip


Reason = tuple[str, str]
"""A condition on a record, and the reason that it gives; both SQL."""


def reason(
    connector: str | None,
    rejected: Reason,
    columns: frozenset[str],
    others: frozenset[str],
    table: str,
) -> Column:
    """Why a record is no event, by the flat columns and `kind`; NULL for an event.

    `connector`: reject the events of all others. `rejected`: the first reason. `columns`: the flat
    ones. `others`: kinds of records that are not what they seem, see `misread`. `table`: SQL for a
    change's table.
    """
    reasons = (
        rejected,
        *_first_reasons(connector, columns),
        *_reasons_of_changes(table),
        (STATEMENT, _snapshot_or_null(connector)),
        ("op IS NOT NULL", "concat('unknown_op:', op)"),
        (_STRAY_ROW, "'not_an_envelope'"),
        (f"types RLIKE '{_KEY}'", "'key_without_value'"),
        *_reasons_of_others(columns, others),
    )
    cases = " ".join(f"WHEN {condition} THEN {why}" for condition, why in reasons)
    return F.expr(f"CASE {cases} ELSE 'not_an_envelope' END")


def _first_reasons(connector: str | None, columns: frozenset[str]) -> Iterator[Reason]:
    """Yield the reasons that come before what a record holds."""
    if connector:
        yield f"source.connector <> '{connector}'", "'other_connector'"
    document = debezium_documents.IGNORED_AS
    if document in columns:
        yield f"{document} IS NOT NULL", document
    if IS_HEARTBEAT in columns:
        yield f"kind IS NOT NULL AND {IS_HEARTBEAT} = 'true'", f"'{_HEARTBEAT_ROW}'"
    yield "op = 'm'", "'logical_message'"
    if not connector:  # images that do not hold the row; only checked before tables are known
        yield f"kind IS NOT NULL AND ({_CELLS})", "'cell_envelope'"
        yield _PARTS, "'row_not_sent'"


def _reasons_of_changes(table: str) -> Iterator[Reason]:
    """Yield the reasons that changes may have; NULL for one that has none of these."""
    lacks_image = f"""CASE kind WHEN '{OP_TRUNCATE}' THEN FALSE
        WHEN '{OP_DELETE}' THEN before IS NULL ELSE after IS NULL END"""
    yield """kind IS NOT NULL AND startswith(ts_ms, '{"')""", "'avro_json_encoding'"
    yield f"kind IS NOT NULL AND {lacks_image}", "'image_missing'"
    yield f"kind IS NOT NULL AND coalesce({table}, '') = ''", "'table_missing'"
    yield "kind IS NOT NULL", "NULL"


def _snapshot_or_null(connector: str | None) -> str:
    """SQL for the reason of a schema change: a snapshot writes DROP and CREATE for each of its
    tables, at the place of its rows."""
    return "NULL" if connector else f"IF(source.{SNAPSHOT} <> 'false', '{_OF_SNAPSHOT}', NULL)"


def _reasons_of_others(columns: frozenset[str], others: frozenset[str]) -> Iterator[Reason]:
    """Yield the reasons of records without an operation, a statement or a row."""
    marker, tombstone, heartbeat = (
        "not_an_envelope" if kind in others else kind for kind in SEEMING
    )
    yield "status IN ('BEGIN', 'END')", f"'{marker}'"
    yield "key IS NOT NULL", f"'{tombstone}'"
    if columns.issuperset(FLATTENED):
        yield from ((f"{name} IS NOT NULL", "'flattened_event'") for name in FLATTENED)
    yield "ts_ms IS NOT NULL AND source IS NULL AND status IS NULL", f"'{heartbeat}'"


def outcome() -> Column:
    """The record's outcome, by its column `reason`."""
    passed = ", ".join(f"'{reason}'" for reason in _PASSED)
    return F.expr(
        f"""CASE WHEN reason IS NULL THEN '{OUTCOME_EVENT}'
        WHEN reason IN ({passed}) THEN '{OUTCOME_IGNORE}' ELSE '{OUTCOME_REJECT}' END"""
    )


def holds_more(line: Column) -> Column:
    """Whether a record that looks like a heartbeat (times alone) or a transaction marker has other
    fields too, as a row without its envelope has.

    One with all of SIGNS is a marker whatever else it has.
    """
    inner = (F.get_json_object(line, f"$.{form.removesuffix('.')}") for form in FORMS[:0:-1])
    record = F.coalesce(*(F.when(part.startswith("{"), part) for part in inner), line)
    names = names_in(record)
    marks = F.array_contains(names, "status")
    allowed = F.when(marks, _listed(MARKER)).otherwise(_listed(TIMES))
    looks_empty = marks | F.array_contains(names, "ts_ms")
    others, lacks = F.array_except(names, allowed), F.array_except(_listed(SIGNS), names)
    return F.coalesce(looks_empty & (F.size(others) > 0) & (F.size(lacks) > 0), F.lit(False))


def _listed(names: Collection[str]) -> Column:
    return F.array(*map(F.lit, sorted(names)))
