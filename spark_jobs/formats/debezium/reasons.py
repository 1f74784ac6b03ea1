"""Which of Debezium's records are events, and the reasons why others are not.

See docs/formats/debezium.md, "Operations"; the source is Debezium's documentation of the records
that its connectors emit beside changes.
"""

from __future__ import annotations

from collections.abc import Collection
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
from spark_jobs.formats.debezium.head import FORMS, MARKER, SEEMING, TIMES
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


_CELLS: Final = f"""source.connector = 'cassandra'
    OR (source.connector = 'yugabytedb' AND {_all(_OLD_CELL)})
    OR (source.connector = 'postgresql' AND contains(source.{VERSION}, '.yb.') AND {_all(_CELL)})"""
_PARTS: Final = f"""op = 'u' AND source.connector = 'spanner'
    AND source.{CAPTURED} IN ('OLD_AND_NEW_VALUES', 'NEW_VALUES')"""
"""Whether a NULL in an update of Spanner may be a value that stayed."""
_OF_SNAPSHOT: Final = "snapshot_schema"
_PASSED: Final = ("logical_message", *SEEMING, *debezium_documents.IGNORE_REASONS, _OF_SNAPSHOT)


def reason(
    connector: str | None,
    rejected: str,
    columns: frozenset[str],
    others: frozenset[str],
    table: str,
) -> Column:
    """Why a record is no event, by the flat columns and `kind`; NULL for an event.

    `connector`: reject the events of all others. `rejected`: the first condition, as SQL.
    `columns`: the flat ones. `others`: kinds of records that are not what they seem, see `misread`.
    `table`: SQL for a change's table.
    """
    marker, tombstone, heartbeat = (
        "not_an_envelope" if kind in others else kind for kind in SEEMING
    )
    document = debezium_documents.IGNORED_AS
    partial = f"WHEN {document} IS NOT NULL THEN {document}" if document in columns else ""
    remains = [f"WHEN {name} IS NOT NULL THEN 'flattened_event'" for name in FLATTENED]
    flattened = " ".join(remains) if columns.issuperset(FLATTENED) else ""
    other = f"WHEN source.connector <> '{connector}' THEN 'other_connector'" if connector else ""
    strange = "" if connector else _strange()
    # A snapshot writes DROP and CREATE for each of its tables, at the place of its rows.
    snapshot = "NULL" if connector else f"IF(source.{SNAPSHOT} <> 'false', '{_OF_SNAPSHOT}', NULL)"
    needs = f"""CASE kind WHEN '{OP_TRUNCATE}' THEN FALSE WHEN '{OP_DELETE}' THEN before IS NULL
        ELSE after IS NULL END"""
    return F.expr(
        f"""CASE WHEN {rejected} {other} {partial}
        WHEN op = 'm' THEN 'logical_message' {strange}
        WHEN kind IS NOT NULL THEN CASE WHEN startswith(ts_ms, '{{"') THEN 'avro_json_encoding'
            WHEN {needs} THEN 'image_missing'
            WHEN coalesce({table}, '') = '' THEN 'table_missing' END
        WHEN {STATEMENT} THEN {snapshot}
        WHEN op IS NOT NULL THEN concat('unknown_op:', op)
        WHEN {_STRAY_ROW} THEN 'not_an_envelope'
        WHEN types RLIKE '{_KEY}' THEN 'key_without_value'
        WHEN status IN ('BEGIN', 'END') THEN '{marker}'
        WHEN key IS NOT NULL THEN '{tombstone}'
        {flattened}
        WHEN ts_ms IS NOT NULL AND source IS NULL THEN '{heartbeat}'
        ELSE 'not_an_envelope' END"""
    )


def _strange() -> str:
    """SQL for images that do not hold the row; only checked before tables are known."""
    return f"""WHEN kind IS NOT NULL AND ({_CELLS}) THEN 'cell_envelope'
        WHEN {_PARTS} THEN 'row_not_sent'"""


def outcome() -> Column:
    """The record's outcome, by its column `reason`."""
    passed = ", ".join(f"'{reason}'" for reason in _PASSED)
    return F.expr(
        f"""CASE WHEN reason IS NULL THEN '{OUTCOME_EVENT}'
        WHEN reason IN ({passed}) THEN '{OUTCOME_IGNORE}' ELSE '{OUTCOME_REJECT}' END"""
    )


def holds_more(line: Column) -> Column:
    """Whether a record that looks like a heartbeat (times alone) or a transaction marker has other
    fields too, as a row without its envelope has."""
    inner = (F.get_json_object(line, f"$.{form.removesuffix('.')}") for form in FORMS[:0:-1])
    record = F.coalesce(*(F.when(part.startswith("{"), part) for part in inner), line)
    names = names_in(record)
    marks = F.array_contains(names, "status")
    allowed = F.when(marks, _listed(MARKER)).otherwise(_listed(TIMES))
    looks_empty = marks | F.array_contains(names, "ts_ms")
    return F.coalesce(looks_empty & (F.size(F.array_except(names, allowed)) > 0), F.lit(False))


def _listed(names: Collection[str]) -> Column:
    return F.array(*map(F.lit, sorted(names)))
