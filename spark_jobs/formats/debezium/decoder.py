"""Debezium: JSON with or without `schema`, as values or as key/value records, and Avro.

The rules are in docs/formats/debezium.md. Source: Debezium's documentation, "Data change events" of
each connector. `scan.py` reads the files, `order.py` has the order.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from sluice.config.format_options import DebeziumOptions
from sluice.manifest import SourceFile
from sluice.types.columns import BASE64
from spark_jobs.canonical import OP_DELETE, OP_UPDATE, OUTCOME_REJECT
from spark_jobs.formats.base import COUNTS, NO_PRIOR_FACTS, Format, PriorFacts, SourceColumn
from spark_jobs.formats.common import truncates
from spark_jobs.formats.common.connect import NULL, row_columns
from spark_jobs.formats.common.default_table import DefaultTable, in_schema
from spark_jobs.formats.common.envelope import instant, instant_of_micros
from spark_jobs.formats.common.scans import with_arrival
from spark_jobs.formats.common.unsent import any_unsent, unsent
from spark_jobs.formats.debezium import avro as debezium_avro
from spark_jobs.formats.debezium import decimals as debezium_decimals
from spark_jobs.formats.debezium import documents as debezium_documents
from spark_jobs.formats.debezium import tombstones
from spark_jobs.formats.debezium import transactions as debezium_transactions
from spark_jobs.formats.debezium.head import HEARTBEAT, TRANSACTION_MARKER, misread
from spark_jobs.formats.debezium.names import names, table_of
from spark_jobs.formats.debezium.ops import kind_sql, op
from spark_jobs.formats.debezium.order import sharing, with_position
from spark_jobs.formats.debezium.reasons import holds_more, outcome, reason
from spark_jobs.formats.debezium.scan import NOT_JSON, scan
from spark_jobs.formats.debezium.tombstones import BESIDE, KEY


class Debezium(Format):
    """The decoder of `format: debezium`."""

    name: ClassVar[str] = "debezium"
    bytes_as: ClassVar[str] = BASE64
    plain: ClassVar[frozenset[str]] = COUNTS
    describes_defaults: ClassVar[bool] = True
    ignorable: ClassVar[str] = (
        rf'^\s*({NULL}|\{{\s*({BESIDE},\s*)*+({KEY},)?\s*"value"\s*:\s*{NULL}\s*'
        rf"(,\s*{BESIDE})*+\}})\s*$"
    )

    seeming: ClassVar[frozenset[str]] = frozenset({TRANSACTION_MARKER, HEARTBEAT})
    unclear_truncates: ClassVar[str] = truncates.UNCLEAR
    states_other_tables: ClassVar[bool] = True

    def read(
        self,
        spark: SparkSession,
        files: tuple[SourceFile, ...],
        options: DebeziumOptions,
        facts: PriorFacts = NO_PRIOR_FACTS,
    ) -> DataFrame:
        """Decode JSON and Avro files; Kafka tombstones (null values) are ignored and counted.

        Where tables are known, only the first event's form and connector are read: a record of
        another is rejected, which makes the batch be read again with nothing known.
        """
        by_kind = debezium_avro.find(spark, files, options)
        scanned = scan(spark, by_kind, options, facts)
        flat, head, expected = scanned.flat, scanned.head, scanned.expected
        shared = sharing(options)
        if scanned.documents or head is None or head.connector in shared:
            flat = with_arrival(spark, flat, files)
        others = frozenset[str]() if head else misread(spark, by_kind.json)
        connector = expected.connector if expected else None
        table = in_schema(options.table)
        placed = with_position(_with_reason(flat, connector, others, table), connector, shared)
        absent = _absent_columns(options, facts, scanned.documents)
        envelope = _envelope(placed, absent, connector, table)
        return tombstones.as_deletes(envelope) if tombstones.wanted(options) else envelope

    def columns(self, types: str, options: DebeziumOptions) -> list[SourceColumn]:
        """The row's columns from a Connect schema."""
        return row_columns(types, numeric=debezium_decimals.is_numeric(options))

    def is_event(self, line: Column) -> Column:
        """Every change has an operation."""
        return line.contains('"op"')

    def holds_more(self, line: Column) -> Column:
        """See `reasons.holds_more`."""
        return holds_more(line)


def _absent_columns(
    options: DebeziumOptions, facts: PriorFacts, any_documents: bool
) -> list[Column]:
    """The columns that an event lacks, and those of its old row where it may lack values that a
    table without a key needs."""
    absent = [_absent(options, facts.partial, any_documents).alias("absent")]
    if facts.old_columns is None:
        absent.append(_old_absent(options))
    return absent


def _absent(options: DebeziumOptions, partial: bool, any_documents: bool) -> Column:
    """The columns that an event lacks; without `partial` only whether it lacks any."""
    absent = (unsent if partial else any_unsent)(F.col("after"), options.unavailable_value)
    return F.coalesce(debezium_documents.PARTIAL, absent) if any_documents else absent


def _old_absent(options: DebeziumOptions) -> Column:
    """The columns whose old value an update or delete lacks: every LOB of Oracle, changed or not,
    and of SQL Server, MySQL, MariaDB and Vitess what their logs left out."""
    missing = unsent(F.col("before"), options.unavailable_value)
    changed = F.col("kind").isin(OP_UPDATE, OP_DELETE)
    return F.when(changed, missing).alias("old_absent")


def _with_reason(
    flat: DataFrame, connector: str | None, others: frozenset[str], table: DefaultTable
) -> DataFrame:
    """Add `kind`, the operation that a record names, and `reason`, why it is no event.

    `connector`: reject the events of all others. `others`: kinds of records that are not what they
    seem, see `misread`. `table`: the table of changes that name none.
    """
    not_json = ("raw IS NOT NULL", f"'{NOT_JSON}'")
    rejected = ("rejected IS NOT NULL", "rejected") if "rejected" in flat.columns else not_json
    named = flat.withColumn("kind", F.expr(kind_sql()))
    why = reason(connector, rejected, frozenset(flat.columns), others, table_of(connector, table))
    return named.withColumn("reason", why)


def _envelope(
    placed: DataFrame, absent: Sequence[Column], connector: str | None, table: DefaultTable
) -> DataFrame:
    """Select the envelope's columns and `absent`, by the arguments of `_with_reason`."""
    transaction = debezium_transactions.columns() if "transaction" in placed.columns else []
    parts = names(connector, table)
    return placed.select(
        outcome().alias("outcome"),
        "reason",
        *(part.alias(name) for name, part in parts.items()),
        op(parts["table"]).alias("op"),
        "position",
        "before",
        "after",
        *absent,
        "key",
        "types",
        _source_ts().alias("source_ts"),
        F.expr("source.txId AS tx_id"),
        F.expr("CAST(NULL AS string) AS event_id"),
        "ddl",
        F.when(outcome() == OUTCOME_REJECT, F.col("raw")).alias("raw"),
        "file",
        "block",
        "ordinal",
        *transaction,
    )


def _source_ts() -> Column:
    micros, millis = (F.col(f"source.{name}").try_cast("bigint") for name in ("ts_us", "ts_ms"))
    return F.coalesce(instant_of_micros(micros), instant(millis))
