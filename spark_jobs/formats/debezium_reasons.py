"""Which of Debezium's records are events, and why the others are none.

See docs/formats/debezium.md, "Operations"; the source is Debezium's documentation of what its
connectors emit beside changes.
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
from spark_jobs.formats import debezium_documents
from spark_jobs.formats.debezium_head import FORMS, MARKER, SEEMING, TIMES
from spark_jobs.formats.debezium_order import CAPTURED, SNAPSHOT, VERSION

FLATTENED: Final = ("__op", "__deleted")
"""What the transform that takes the envelope away may leave of it."""
STATEMENT: Final = "ddl IS NOT NULL OR (op IS NULL AND tableChanges IS NOT NULL)"
"""Whether a record is a schema change: SQL Server and Db2 have no text of the statement."""
_STRAY_ROW: Final = "after IS NOT NULL OR (before IS NOT NULL AND key IS NULL)"
"""Whether a record without an operation has a row; of a tombstone its key may stand as `before`."""
_KEY: Final = r'"name" *: *"[^"]*[.]Key"'
"""How Connect's schema of a key names itself."""
_CELL: Final = '^[{].*"set": *(true|false) *[}]$'
"""A value as Cassandra's connector writes it, and both of YugabyteDB's: with whether it was set, so
that a value that stayed and one that became NULL are told apart."""
_OLD_CELL: Final = '^[{] *"value":.*[}]$'
"""The same of older versions of YugabyteDB's connector for its own protocol."""


def _all(cell: str) -> str:
    """Whether a row has values, and they are such cells: one alone may be JSON of the source's."""
    values = "map_values(coalesce(after, before))"
    return f"array_min(transform({values}, value -> value RLIKE '{cell}'))"


_CELLS: Final = f"""source.connector = 'cassandra'
    OR (source.connector = 'yugabytedb' AND {_all(_OLD_CELL)})
    OR (source.connector = 'postgresql' AND contains(source.{VERSION}, '.yb.') AND {_all(_CELL)})"""
_PARTS: Final = f"""op = 'u' AND source.connector = 'spanner'
    AND source.{CAPTURED} IN ('OLD_AND_NEW_VALUES', 'NEW_VALUES')"""
"""Whether a NULL of an update may be a value that stayed."""
_FOUND: Final = "snapshot_schema"
_PASSED: Final = ("logical_message", *SEEMING, *debezium_documents.UNTOLD_REASONS, _FOUND)


def reason(
    connector: str | None, refused: str, columns: frozenset[str], others: frozenset[str], table: str
) -> Column:
    """Why a record is no event, by the flat columns and `kind`; NULL for an event.

    With `connector`, for the events of that one alone. `refused`: the first of its conditions, as
    text. `columns`: the flat ones. `others`: records that are not what they seem, see `misread`.
    `table`: what names a change's.
    """
    marker, tombstone, heartbeat = (
        "not_an_envelope" if kind in others else kind for kind in SEEMING
    )
    why = debezium_documents.UNTOLD
    untold = f"WHEN {why} IS NOT NULL THEN {why}" if why in columns else ""
    left = [f"WHEN {name} IS NOT NULL THEN 'flattened_event'" for name in FLATTENED]
    flattened = " ".join(left) if columns.issuperset(FLATTENED) else ""
    other = f"WHEN source.connector <> '{connector}' THEN 'other_connector'" if connector else ""
    strange = "" if connector else _strange()
    # A snapshot drops and makes each table that it finds, at the place of its rows.
    found = "NULL" if connector else f"IF(source.{SNAPSHOT} <> 'false', '{_FOUND}', NULL)"
    needs = f"""CASE kind WHEN '{OP_TRUNCATE}' THEN FALSE WHEN '{OP_DELETE}' THEN before IS NULL
        ELSE after IS NULL END"""
    return F.expr(
        f"""CASE WHEN {refused} {other} {untold}
        WHEN op = 'm' THEN 'logical_message' {strange}
        WHEN kind IS NOT NULL THEN CASE WHEN startswith(ts_ms, '{{"') THEN 'avro_json_encoding'
            WHEN {needs} THEN 'image_missing'
            WHEN coalesce({table}, '') = '' THEN 'table_missing' END
        WHEN {STATEMENT} THEN {found}
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
    """Images that do not hold the row, of connectors that are told before any table is known."""
    return f"""WHEN kind IS NOT NULL AND ({_CELLS}) THEN 'cell_envelope'
        WHEN {_PARTS} THEN 'row_not_sent'"""


def outcome() -> Column:
    """From the column `reason`."""
    passed = ", ".join(f"'{reason}'" for reason in _PASSED)
    return F.expr(
        f"""CASE WHEN reason IS NULL THEN '{OUTCOME_EVENT}'
        WHEN reason IN ({passed}) THEN '{OUTCOME_IGNORE}' ELSE '{OUTCOME_REJECT}' END"""
    )


def holds_more(line: Column) -> Column:
    """Whether what looks like a heartbeat or a transaction's marker has columns beside, as a row
    without its envelope has; a heartbeat has times alone."""
    inner = (F.get_json_object(line, f"$.{form.removesuffix('.')}") for form in FORMS[:0:-1])
    record = F.coalesce(*(F.when(found.startswith("{"), found) for found in inner), line)
    names = F.json_object_keys(record)
    marks = F.array_contains(names, "status")
    allowed = F.when(marks, _listed(MARKER)).otherwise(_listed(TIMES))
    seems = marks | F.array_contains(names, "ts_ms")
    return F.coalesce(seems & (F.size(F.array_except(names, allowed)) > 0), F.lit(False))


def _listed(names: Collection[str]) -> Column:
    return F.array(*map(F.lit, sorted(names)))
