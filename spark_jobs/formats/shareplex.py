"""SharePlex JSON, which Quest SharePlex posts for Oracle to Kafka and to files.

The rules are in docs/formats/shareplex.md. Source: Alibaba Cloud DTS, "Data formats of a message
queue", section "Shareplex Json". Order: (`scn`, the numbers of `trans`, `seq` or else the number of
`idx`), all as integers; a row without `scn`, or with neither `seq` nor `idx`, by arrival. An update
carries the changed columns, and in `key` the values of the old row that it has; or it is two
records with equal or successive `seq` (see `_position`).
"""

from __future__ import annotations

from typing import ClassVar, Final

from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from sluice.config.format_options import TABLE_NAME, FormatOptions
from sluice.manifest import SourceFile
from sluice.positions import HALF_MARK
from spark_jobs.canonical import (
    IMAGE_TYPE,
    OP_DDL,
    OP_DELETE,
    OP_INSERT,
    OP_TRUNCATE,
    OP_UPDATE,
    OP_UPDATE_AFTER,
)
from spark_jobs.formats.base import NO_PRIOR_FACTS, NUMBERS_AND_TIMES, Format, PriorFacts
from spark_jobs.formats.common import truncates
from spark_jobs.formats.common.dotted_names import name_parts, table_names
from spark_jobs.formats.common.envelope import (
    CORRUPT,
    DIGITS,
    ZERO,
    any_repeats_column,
    instant_of_text,
    is_empty_image,
    line_or,
    looked_up,
    or_zero,
    outcome,
    read_lines,
    repeats_column,
    select_envelope,
    with_numbers,
)
from spark_jobs.formats.common.first_lines import first_lines
from spark_jobs.formats.common.overlaid_rows import absent_but, overlaid, with_row
from spark_jobs.formats.common.scans import union
from spark_jobs.position_text import source_position

_OLD_HALVES: Final = ("upd before", "update before")
_NEW_HALVES: Final = ("upd after", "update after")
_UPDATES: Final = ("upd", "update", *_NEW_HALVES)
_DELETES: Final = ("del", "delete", *_OLD_HALVES)
_DDL: Final = ("ddl", "drop column")
_COMMIT: Final = "commit"
# The vendor's examples have `ins`, its table of fields has INSERT: case does not matter.
_OPS: Final = {
    **dict.fromkeys(("ins", "insert"), OP_INSERT),
    **dict.fromkeys(_UPDATES, OP_UPDATE),
    **dict.fromkeys(_DELETES, OP_DELETE),
    "truncate": OP_TRUNCATE,
    **dict.fromkeys(_DDL, OP_DDL),
}
_ORDER: Final = {
    "scn": rf"^{DIGITS}$",
    "seq": rf"^{DIGITS}$",
    "idx": rf"^{DIGITS}/{DIGITS}$",
}
_TRANS: Final = rf"^{DIGITS}(\.{DIGITS}){{0,2}}$"
_TEXTS: Final = ("op", "table", "time")
_FEW_DIGITS: Final = r"^\d{1,17}$"
_OLD_HALF: Final = ' before"'
_SCHEMA: Final = f"meta {IMAGE_TYPE}, data {IMAGE_TYPE}, key {IMAGE_TYPE}, ddl string, sql string"


class SharePlex(Format):
    """The decoder of `format: shareplex`."""

    name: ClassVar[str] = "shareplex"
    plain: ClassVar[frozenset[str]] = NUMBERS_AND_TIMES
    unclear_truncates: ClassVar[str] = truncates.UNCLEAR

    def read(
        self,
        spark: SparkSession,
        files: tuple[SourceFile, ...],
        options: FormatOptions,
        facts: PriorFacts = NO_PRIOR_FACTS,
    ) -> DataFrame:
        """Decode JSON-lines files; an update's other columns are `absent`, not NULL.

        If the tables are known, only the first lines are searched for old halves: one that comes
        later is rejected, which makes the batch be read again with nothing known.
        """
        lines = read_lines(spark, files, _SCHEMA).withColumnRenamed("key", "_key")
        records = lines.select("*", *_meta_fields()).withColumn("op", _op())
        whole = records.withColumn("_old", F.col("_key"))
        joined = _any_halves(spark, files) if facts.nothing else _begins_with_halves(spark, files)
        if joined:
            whole = union([whole.where(~_is_half()), _with_other_halves(records.where(_is_half()))])
        rows = with_numbers(with_row(whole, "_old", "data"), _numbers())
        imaged = rows.withColumns({"_before": _before(), "_after": _after()})
        judged = imaged.withColumn("_reason", _reason(joined or facts.nothing))
        return select_envelope(judged, _envelope())


def _meta_fields() -> list[Column]:
    """Return the fields of `meta`; those of order and row without blanks, NULL if empty."""
    meta = F.col("meta")
    ordering = [
        F.nullif(F.btrim(meta[name]), F.lit("")).alias(f"_{name}")
        for name in (*_ORDER, "trans", "rowid")
    ]
    texts = (meta[name].alias(f"_{name}") for name in _TEXTS)
    numbers = F.split(F.btrim(meta["trans"]), r"\.")
    parts = name_parts(meta["table"])
    return [*texts, *ordering, numbers.alias("_numbers"), parts.alias("_parts")]


def _op() -> Column:
    """Return the op by its name; a DDL record may be a TRUNCATE by its statement."""
    op = looked_up(F.lower("_op"), _OPS)
    truncate = (op == OP_DDL) & truncates.empties(_ddl(), table_names(F.col("_parts"))["table"])
    return F.when(truncate, F.lit(OP_TRUNCATE)).otherwise(op)


def _any_halves(spark: SparkSession, files: tuple[SourceFile, ...]) -> bool:
    """Whether the files may have old halves to join; this search costs less than the join."""
    texts = spark.read.text([f.url for f in files]) if files else None
    return texts is not None and not texts.where(F.lower("value").contains(_OLD_HALF)).isEmpty()


def _begins_with_halves(spark: SparkSession, files: tuple[SourceFile, ...]) -> bool:
    return any(_OLD_HALF in line.lower() for line in first_lines(spark, files))


def _is_half() -> Column:
    return F.coalesce(F.lower("_op").isin(*_OLD_HALVES, *_NEW_HALVES), F.lit(False))


def _is_second() -> Column:
    """Whether the old row is only in the record before."""
    return F.lower("_op").isin(*_NEW_HALVES) & is_empty_image(F.col("_key"))


def _with_other_halves(halves: DataFrame) -> DataFrame:
    """Add to each new half as `_old` the row of its old half, if that is in the same batch.

    The old half directly precedes it, at the same number or at the one before. If both have the
    row's address it must be equal: else halves between them are in another batch.
    """
    is_new = F.lower("_op").isin(*_NEW_HALVES)
    few = F.when(_number().rlike(_FEW_DIGITS), _number().try_cast("bigint"))
    placed = halves.withColumn("_at", 2 * few + is_new.cast("int"))
    before = (
        Window.partitionBy("_table", "_scn", "_trans")
        .orderBy("_at")
        .rangeBetween(Window.unboundedPreceding, -1)
    )
    row = _deleted(any_repeats_column(F.col("data"), F.col("_key"))).alias("row")
    last = F.last(F.struct("_at", (~is_new).alias("old"), "_rowid", row)).over(before)
    near = last["old"] & (last["_at"] >= F.col("_at") - 3) & F.col("_scn").isNotNull()
    of_row = F.coalesce(last["_rowid"] == F.col("_rowid"), F.lit(True))
    paired = placed.withColumn("_other", F.when(is_new & near & of_row, last["row"]))
    own = F.when(F.size("_key") > 0, F.col("_key"))
    return paired.withColumn("_old", F.coalesce(own, "_other")).drop("_at", "_other")


def _number() -> Column:
    """Return the operation's number in its transaction."""
    return F.coalesce("_seq", F.split_part("_idx", F.lit("/"), F.lit(1)))


def _envelope() -> dict[str, Column]:
    op = F.col("op")
    # A commit record marks the end of a transaction; one with a row would be no marker.
    rowless = is_empty_image(F.col("data")) & is_empty_image(F.col("_key"))
    empty = F.col(CORRUPT).isNull() & rowless
    ignored = F.coalesce((F.lower("_op") == _COMMIT) & empty, F.lit(False))
    reason = F.col("_reason")
    return {
        "outcome": outcome(ignored, reason),
        "reason": F.when(ignored, F.lit("transaction_marker")).otherwise(reason),
        **table_names(F.col("_parts")),
        "op": F.when(_is_second(), F.lit(OP_UPDATE_AFTER)).otherwise(op),
        "position": _position(),
        "before": F.col("_before"),
        "after": F.col("_after"),
        "absent": F.when(op == OP_UPDATE, absent_but(F.col("data"), F.col("_row"))),
        "source_ts": instant_of_text(F.col("_time")),
        "tx_id": F.col("_trans"),
        "event_id": F.when(_is_second(), _content(F.col("data"))),
        "transaction": F.col("_trans"),
        "ends": ignored,
        "ddl": F.when(op == OP_DDL, _ddl()),
        "raw": F.when(reason.isNotNull() & ~ignored, _raw()),
    }


def _content(image: Column) -> Column:
    """Return a hash that identifies a new half in a table without a key, by what it sends itself.

    `decode` hashes the whole row of other records, but a new half has that only if its old half is
    in the same batch.
    """
    sent = F.map_filter(image, lambda _, value: value.isNotNull())
    return F.hex(F.xxhash64(F.sort_array(F.map_entries(sent))))


def _before() -> Column:
    """Return the old row: an update has it in `key`, a delete in `data`, `key`, or both."""
    op = F.col("op")
    return F.when(op == OP_UPDATE, F.col("_key")).when(op == OP_DELETE, _deleted(F.col("_twice")))


def _after() -> Column:
    return F.when(F.col("op").isin(OP_INSERT, OP_UPDATE), F.col("_row"))


def _deleted(twice: Column) -> Column:
    """Return a deleted row: the values in `key` over those in `data`, unless these name a column
    `twice`."""
    key = F.map_filter("_key", lambda _, value: value.isNotNull())
    both = F.when(~twice, overlaid(F.col("data"), key))
    return F.coalesce(both, "data", "_key")


def _reason(halves: bool) -> Column:
    """Return why a record is rejected, or NULL; unless `halves`, an old half is rejected too."""
    op, table = F.col("op"), F.col("_table")
    rows = op.isin(OP_INSERT, OP_UPDATE, OP_DELETE)
    image = F.when(op == OP_DELETE, F.col("_before")).otherwise(F.col("_after"))
    bad_order = [
        F.when(~F.col(f"_{name}").rlike(pattern), F.lit(f"bad_{name}"))
        for name, pattern in _ORDER.items()
    ]
    return F.coalesce(
        F.when(F.col(CORRUPT).isNotNull(), F.lit("not_json")),
        F.when(F.col("_op").isNull(), F.lit("not_an_envelope")),
        F.when(repeats_column(F.col("meta")), F.lit("duplicate_field")),
        F.when(op.isNull(), F.concat(F.lit("unknown_op:"), F.col("_op"))),
        F.when(table.isNull() & (op != OP_DDL), F.lit("table_missing")),
        F.when(~table.rlike(TABLE_NAME), F.lit("bad_table")),
        F.when(rows & is_empty_image(image), F.lit("image_missing")),
        F.when(F.col("_twice"), F.lit("duplicate_column")),
        *([] if halves else [F.when(F.lower("_op").isin(*_OLD_HALVES), F.lit("other_half"))]),
        *bad_order,
    )


def _position() -> Column:
    """Order by commit, transaction and operation; transactions of one `scn` by their number.

    The halves of an update have equal or successive numbers, and a record does not say which. So a
    half's position has a mark after its number, and a new half's also the number before its own: by
    these two numbers it finds its old half (`folding.half_matching`).
    """
    statement = F.col("op").isin(OP_TRUNCATE, OP_DDL)
    counted = F.coalesce("_n_counted", F.when(statement, F.lit(ZERO)))
    transaction = (or_zero(f"_n_trans{i}") for i in range(3))
    place = source_position(F.col("_n_scn"), *transaction, counted)
    mark = F.concat(F.lit(HALF_MARK), F.coalesce("_n_earlier", F.lit("")))
    return F.when(_is_half(), F.concat(place, mark)).otherwise(place)


def _numbers() -> dict[str, Column]:
    """Return the texts of all numbers in a position; NULL or no digits: there is none."""
    is_new = F.lower("_op").isin(*_NEW_HALVES)
    earlier = F.when(is_new & _number().rlike(_FEW_DIGITS), _number().try_cast("bigint") - 1)
    return {
        "_n_scn": F.col("_scn"),
        **{f"_n_trans{i}": part for i, part in enumerate(_transaction())},
        "_n_counted": _number(),
        "_n_earlier": earlier.cast("string"),
    }


def _transaction() -> list[Column]:
    """Return the texts of the transaction's three numbers, or a hash of a name of another form."""
    trans, plain = F.col("_trans"), F.col("_trans").rlike(_TRANS)
    hashed = F.conv(F.hex(F.xxhash64(trans)), 16, 10)
    first, *rest = (F.when(plain, F.get("_numbers", F.lit(n))) for n in range(3))
    return [F.coalesce(first, F.when(trans.isNotNull(), hashed)), *rest]


def _ddl() -> Column:
    """Return the statement, else the op and `data`.

    For a `drop column` the latter is no real statement; it is reported as one that cannot be
    followed.
    """
    nested = F.get_json_object("sql", "$.ddl")
    return F.coalesce("ddl", nested, "sql", F.concat_ws(" ", "_op", F.to_json("data")))


def _raw() -> Column:
    return line_or("meta", "data", F.col("_key").alias("key"), "ddl", "sql")
