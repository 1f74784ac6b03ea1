"""Maxwell JSON: the changes that Maxwell's daemon reads from a MySQL or MariaDB binary log.

Source: maxwells-daemon.io, "Data format" and "Bootstrapping". Order: `position` (number of the
binlog file, offset), or `xid` without it; then the row that commits after the others of its
transaction, `xoffset`, and the kind of change. Rows with neither `position` nor `xoffset` go by
arrival inside their transaction. Bootstrapped rows are below every change.
"""

from __future__ import annotations

from typing import ClassVar, Final

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from sluice.config.format_options import MaxwellOptions, MaxwellOrder
from sluice.ddl.defaults import ENUM, OF_MYSQL
from sluice.manifest import SourceFile
from sluice.positions import encode_number
from sluice.types.columns import BASE64
from spark_jobs.canonical import IMAGE_TYPE, OP_DDL, OP_DELETE, OP_INSERT, OP_UPDATE
from spark_jobs.formats.base import NO_PRIOR_FACTS, NUMBERS_AND_TIMES, Format, PriorFacts
from spark_jobs.formats.common.default_table import DefaultTable, in_database
from spark_jobs.formats.common.envelope import (
    CORRUPT,
    DIGITS,
    LAST_SECOND,
    ZERO,
    any_repeats_column,
    carried_key,
    is_empty_image,
    line_or,
    looked_up,
    or_zero,
    outcome,
    read_lines,
    select_envelope,
    with_numbers,
)
from spark_jobs.formats.common.overlaid_rows import overlaid
from spark_jobs.formats.common.row_image import absent_columns
from spark_jobs.formats.common.scans import ARRIVAL, with_arrival
from spark_jobs.position_text import full_load_position, source_position

_BOOTSTRAPPED: Final = "bootstrap-insert"
_IGNORED: Final = ("bootstrap-start", "bootstrap-complete")
_DDL: Final = tuple(
    f"{what}-{change}" for what in ("database", "table") for change in ("create", "alter", "drop")
)
_OPS: Final = {
    "insert": OP_INSERT,
    _BOOTSTRAPPED: OP_INSERT,
    "update": OP_UPDATE,
    "delete": OP_DELETE,
    # As older versions of SeaTunnel write them.
    "INSERT": OP_INSERT,
    "DELETE": OP_DELETE,
    **dict.fromkeys(_DDL, OP_DDL),
}
_OPS_IN_LIFE: Final = (OP_INSERT, OP_UPDATE, OP_DELETE)
_BY_LOG: Final[MaxwellOrder] = "log"
_POSITION: Final = r"^[^:]*?(\d{1,98}):(\d{1,98})$"
_NUMBER: Final = f"^{DIGITS}$"
_FIELDS: Final = {
    **dict.fromkeys(
        ("database", "table", "type", "ts", "xid", "xoffset", "commit", "position", "sql"),
        "string",
    ),
    "data": IMAGE_TYPE,
    "old": IMAGE_TYPE,
    "primary_key_columns": "array<string>",
}
_SCHEMA: Final = ", ".join(f"{name} {kind}" for name, kind in _FIELDS.items())


class Maxwell(Format):
    """The decoder of `format: maxwell`."""

    name: ClassVar[str] = "maxwell"
    bytes_as: ClassVar[str] = BASE64
    plain: ClassVar[frozenset[str]] = NUMBERS_AND_TIMES
    # A SET is a JSON array.
    labels: ClassVar[frozenset[str]] = OF_MYSQL | {ENUM}

    def read(
        self,
        spark: SparkSession,
        files: tuple[SourceFile, ...],
        options: MaxwellOptions,
        facts: PriorFacts = NO_PRIOR_FACTS,
    ) -> DataFrame:
        """Decode JSON-lines files; the markers of a bootstrap are ignored and counted."""
        by_log = options.order == _BY_LOG
        lines = with_arrival(spark, read_lines(spark, files, _SCHEMA), files)
        twice = any_repeats_column(F.col("data"), F.col("old"))
        rows = lines.withColumns({"op": looked_up(F.col("type"), _OPS), "_twice": twice})
        named = rows.withColumns(_names(in_database(options.table)))
        judged = with_numbers(named, _numbers()).withColumn("_reason", _reason())
        envelope = _envelope(by_log)
        # `data` has all logged columns, old and new, so `old` is not needed here.
        parts = (
            absent_columns(F.col("op"), F.col("data"), F.col("data")) if options.is_partial else {}
        )
        return select_envelope(judged, {**envelope, **parts})


def _names(default: DefaultTable) -> dict[str, Column]:
    """The parts of the table's name; those of `default` where a row names none."""
    unnamed = (F.col("op") != OP_DDL) & F.col("table").isNull()
    return {
        f"_{name}": F.when(unnamed, F.coalesce(F.lit(part), F.col(name))).otherwise(F.col(name))
        for name, part in (("database", default.database), ("table", default.table))
    }


def _envelope(by_log: bool) -> dict[str, Column]:
    op, data, reason = F.col("op"), F.col("data"), F.col("_reason")
    # The vendor's rule: the old row is `data` with `old` over it. An empty `old` lacks values that
    # were NULL (`output_nulls=false`): an update that changes nothing is not written.
    has_old = ~F.col("_twice") & (F.size("old") > 0)
    old = F.when(has_old, overlaid(data, F.col("old")))
    ignored = F.col("type").isin(*_IGNORED) & F.col(CORRUPT).isNull()
    return {
        "outcome": outcome(ignored, reason),
        "reason": F.when(ignored, F.col("type")).otherwise(reason),
        "database": F.col("_database"),
        "table": F.col("_table"),
        "position": _position(by_log),
        "before": F.when(op == OP_UPDATE, old).when(op == OP_DELETE, data),
        "after": F.when(op.isin(OP_INSERT, OP_UPDATE), data),
        "key": carried_key(F.col("primary_key_columns"), F.map_keys("data")),
        "source_ts": _source_ts(),
        "tx_id": F.col("xid"),
        "transaction": F.when(~_bootstrapped(), F.col("xid")),
        "ends": F.col("commit") == "true",
        "ddl": F.when(op == OP_DDL, F.col("sql")),
        "raw": F.when(reason.isNotNull() & ~F.coalesce(ignored, F.lit(False)), line_or(*_FIELDS)),
    }


def _reason() -> Column:
    """Why a record is rejected; NULL for an event."""
    op, row = F.col("op"), F.col("op") != OP_DDL
    return F.coalesce(
        F.when(F.col(CORRUPT).isNotNull(), F.lit("not_json")),
        F.when(F.col("type").isNull(), F.lit("not_an_envelope")),
        F.when(op.isNull(), F.concat(F.lit("unknown_op:"), F.col("type"))),
        F.when(F.col("_twice"), F.lit("duplicate_column")),
        F.when(row & F.col("_table").isNull(), F.lit("table_missing")),
        F.when(row & is_empty_image(F.col("data")), F.lit("image_missing")),
        F.when(~F.col("xid").rlike(_NUMBER), F.lit("bad_xid")),
        F.when(~F.col("xoffset").rlike(_NUMBER), F.lit("bad_xoffset")),
        F.when(~F.col("position").rlike(_POSITION), F.lit("bad_position")),
    )


def _numbers() -> dict[str, Column]:
    """The texts of all numbers in a position."""
    return {
        "_n_file": F.regexp_extract("position", _POSITION, 1),
        "_n_at": F.regexp_extract("position", _POSITION, 2),
        **{f"_n_{name}": F.col(name) for name in ("xid", "xoffset", "ts")},
    }


def _bootstrapped() -> Column:
    return F.col("type") == _BOOTSTRAPPED


def _offset() -> Column:
    """The place in a transaction; its last row has `commit` and no offset."""
    unplaced = F.col("position").isNull() & ~F.coalesce(F.col("commit") == "true", F.lit(False))
    unplaced &= F.col("xoffset").isNull()
    return F.when(unplaced, F.col(ARRIVAL)).otherwise(or_zero("_n_xoffset"))


def _position(by_log: bool) -> Column:
    """The position; a bootstrapped row has its time, so that a newer bootstrap wins."""
    bootstrapped = full_load_position(or_zero("_n_ts"))
    return F.when(_bootstrapped(), bootstrapped).when(F.lit(by_log), _log_position())


def _log_position() -> Column:
    """The place in the log, then inside the transaction, then the kind of change.

    The kind orders records that an edited stream put at one place: a row begins with its insert and
    ends with its delete.
    """
    last = F.when(F.col("commit") == "true", encode_number(1)).otherwise(F.lit(ZERO))
    kinds = {op: encode_number(n) for n, op in enumerate(_OPS_IN_LIFE)}
    rest = (last, _offset(), or_zero(looked_up(F.col("op"), kinds)))
    place = source_position(F.col("_n_file"), F.col("_n_at"), *rest)
    return F.coalesce(place, source_position(F.col("_n_xid"), *rest))


def _source_ts() -> Column:
    """The time of a change: `ts`, in seconds, for a statement in milliseconds; a bootstrapped row
    has none."""
    time = F.col("ts").try_cast("bigint")
    seconds = F.when(time.between(0, LAST_SECOND), F.timestamp_seconds(time))
    millis = F.when(time.between(0, LAST_SECOND * 1000), F.timestamp_millis(time))
    return F.when(F.col("op") == OP_DDL, millis).when(~_bootstrapped(), seconds)
