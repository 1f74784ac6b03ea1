"""The canonical form of an event, which every decoder returns, before columns get their types.

A decoder returns one row for each record, or for each row of a record that has several; one that
changes a key is split later. The columns:

| column | type | what |
|---|---|---|
| outcome | string | `event`, `ignore` (heartbeat, marker: counted) or `reject` (to quarantine) |
| reason | string | why a record was ignored or rejected |
| database, schema, table | string | the source's own names; NULL where the format has none |
| op | string | one of the OP_ constants |
| position | string | sortable text without role, see `sluice.positions`; NULL: order by arrival |
| before, after | map<string,string> | column name → exact text of the value (NULL value is NULL) |
| key | array<string> | names of the key columns if the record itself has them |
| types | string | the format's own description of the columns, NULL where it has none |
| source_ts | timestamp | when the source made the change |
| tx_id, event_id | string | as the source names them |
| ddl | string | text of a DDL event |
| raw | string | the record's own text, for rejects; else NULL |
| file | string | URL of the file in Spark's spelling (`as_landed` converts it to the manifest's) |
| block, ordinal | bigint | place: start of the split, row number inside the task's partition |

Further columns, if the format has what they hold:

- `absent` (array<string>): the columns that a partial `after` lacks, or ALL_BUT and those that it
  carries; NULL if it is whole.
- `old_absent` (array<string>): the columns that `before` lacks, or ALL_BUT and those that it
  carries; if expensive, only for tables whose old rows are needed. Without `before` it means that
  the update may have changed the key, whose old value is unknown.
- `detail` (string), of a reject: the columns whose values could not be read; else empty.
- `transaction` (string), of a change and of the record that ends it, and `ends` (boolean), whether
  the record ends it; if expensive, only on request.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from sluice import names
from sluice.manifest import SourceFile
from sluice.positions import KIND_ARRIVAL, KIND_AT, KIND_FULL_LOAD, KIND_SOURCE

OUTCOME_EVENT: Final = "event"
OUTCOME_IGNORE: Final = "ignore"
OUTCOME_REJECT: Final = "reject"

OP_INSERT: Final = "insert"
OP_UPDATE: Final = "update"
OP_UPDATE_AFTER: Final = "update_after"
"""The new half of an update in two records; the old half is a delete."""
OP_DELETE: Final = "delete"
OP_TRUNCATE: Final = "truncate"
OP_DDL: Final = "ddl"
UPDATES: Final = (OP_UPDATE, OP_UPDATE_AFTER)

SOURCE_PARTS: Final = ("database", "schema", "table")
PLACE: Final = ("file", "block", "ordinal")
# PLACE in a frame with source columns, which may have those names.
PLACED: Final = tuple(f"_sluice_{name}" for name in PLACE)
ENVELOPE: Final = (
    "outcome", "reason", *SOURCE_PARTS, "op", "position", "before", "after", "key", "types",
    "source_ts", "tx_id", "event_id", "ddl", "raw", *PLACE,
)  # fmt: skip

_LENGTHS: Final = ",".join(f"{length:02}" for length in range(1, 100))
IMAGE_TYPE: Final = "map<string,string>"

ALL_BUT: Final = ""
"""First in `absent`, before the columns that the row carries: all other columns of the table are
absent, even those that only later events name. No source allows it as a column's name."""


def quoted(name: str) -> str:
    """Quote an identifier in backticks, so that text from files never becomes SQL."""
    return "`" + name.replace("`", "``") + "`"


def by_name(names: Iterable[str]) -> list[Column]:
    """Return columns by name, whatever characters the names have."""
    return [F.col(quoted(name)) for name in names]


def literal(text: str) -> str:
    """Return a text as a SQL literal."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def in_batch(batch_id: str) -> Column:
    """Whether a row belongs to the batch."""
    return F.col(names.BATCH_ID) == batch_id


def of_batches(batches: Iterable[str], column: str = names.BATCH_ID) -> Column:
    """Whether a row belongs to one of the batches.

    Built as SQL text: a pipeline has thousands of batches, and each value of `isin` is a call to
    the JVM.
    """
    listed = ", ".join(map(literal, sorted(batches)))
    return F.expr(f"{column} IN ({listed})") if listed else F.lit(False)


def as_place() -> list[Column]:
    """Rename PLACED to PLACE, in a frame without source columns."""
    return [F.col(name).alias(own) for own, name in zip(PLACE, PLACED, strict=True)]


def record_text() -> Column:
    """Return an event as text, for formats whose records have no text of their own."""
    return F.to_json(F.struct("op", "before", "after"), {"ignoreNullFields": "false"})


def replaced(text: Column, texts: Mapping[str, str], otherwise: Column) -> Column:
    """Return the text that stands for this one in `texts`, or what `otherwise` is."""
    if not texts:
        return otherwise
    known = F.create_map(*(F.lit(part) for pair in texts.items() for part in pair))
    return F.coalesce(F.try_element_at(known, text), otherwise)


def cut(text: Column, characters: int) -> Column:
    """Return a text to be shown, with `…` for what it has beyond so many characters."""
    start = F.concat(F.substring(text, 1, characters), F.lit("…"))
    return F.when(F.length(text) > characters, start).otherwise(text)


def all_but(carried: Column) -> Column:
    """Return `absent` of a row that carries these columns, a list of names, and no other."""
    return F.concat(F.array(F.lit(ALL_BUT)), carried)


def lists_carried(absent: Column) -> Column:
    """Whether `absent` lists the columns that a row carries, not those that it lacks; NULL for a
    whole row."""
    return F.array_contains(absent, ALL_BUT)


def names_any(image: str, names: Iterable[str]) -> Column:
    """Whether an image names one of the columns; never NULL."""
    listed = F.array(*map(F.lit, names)).cast("array<string>")
    return F.coalesce(F.arrays_overlap(F.map_keys(image), listed), F.lit(False))


def changed_where(condition: Column, values: Mapping[str, Column]) -> dict[str, Column]:
    """Return columns with other values where a condition holds, for `withColumns`."""
    return {name: F.when(condition, v).otherwise(F.col(name)) for name, v in values.items()}


def number(text: Column) -> Column:
    """Return `sluice.positions.encode_number` as an expression; NULL if the text is
    not all digits."""
    # Patterns only: a failing cast creates an exception first, which costs far more.
    stripped = F.nullif(F.regexp_extract(text, r"^0*(0|[1-9]\d{0,98})$", 1), F.lit(""))
    # Two calls: inside a condition Spark computes a repeated subexpression each time.
    plain = text.rlike(r"^(0|[1-9]\d{0,98})\z")
    return F.when(plain, _with_length(text)).otherwise(_with_length(stripped))


def _with_length(digits: Column) -> Column:
    # A lookup of the two digits costs a third of formatting them.
    length = F.try_element_at(F.split(F.lit(_LENGTHS), F.lit(",")), F.length(digits))
    return F.concat(length, digits)


def hex_number(digits: Column) -> Column:
    """Convert up to 16 hexadecimal digits to decimal; NULL for other text (`conv` may fail)."""
    return F.when(digits.rlike("^[0-9a-fA-F]{1,16}$"), F.conv(digits, 16, 10))


def source_position(*components: Column) -> Column:
    """Return a position in the source's own order; NULL if a component is NULL."""
    return F.concat(F.lit(f"{KIND_SOURCE}."), _join(components))


def full_load_position(*components: Column) -> Column:
    """Return a full-load row's position, which is below every change whatever its components."""
    return F.concat(F.lit(f"{KIND_FULL_LOAD}."), _join(components))


def _join(components: tuple[Column, ...]) -> Column:
    parts: list[Column] = []
    for component in components:
        parts += [component, F.lit(".")]
    return F.concat(*parts[:-1])


def by_arrival(position: Column) -> Column:
    """Whether a position is an order of arrival, for records to which the source gave none."""
    return _kind(position) == KIND_ARRIVAL


def by_source(position: Column) -> Column:
    """Whether a position is the source's own order of changes, and not that of a full load."""
    return _kind(position) == KIND_SOURCE


def _kind(position: Column) -> Column:
    return F.substring(position, KIND_AT, 1)


def is_delete() -> Column:
    """Whether a changelog's row is a delete."""
    return F.col(names.OP) == OP_DELETE


def is_truncate() -> Column:
    """Whether a changelog's row is a TRUNCATE."""
    return F.col(names.OP) == OP_TRUNCATE


def is_partial() -> Column:
    """Whether a changelog's row leaves columns out."""
    return F.col(names.ABSENT).isNotNull()


def place() -> tuple[Column, Column, Column]:
    """Return a record's place in its file: file (in Spark's spelling), block and ordinal.

    The reader's `_metadata` has the same, but costs one more copy of every row.
    """
    return (
        F.input_file_name().alias("file"),
        F.call_function("input_file_block_start").alias("block"),
        F.expr(f"monotonically_increasing_id() & {(1 << 33) - 1}L").alias("ordinal"),
    )


def text_lines(spark: SparkSession, files: Iterable[SourceFile]) -> DataFrame:
    """Return the lines of text files that the JSON reader takes as records, as `value`, with their
    place; it skips lines of white space before it counts, and splits files in the same way."""
    lines = spark.read.text([f.url for f in files])
    return lines.where(F.col("value").rlike(r"[^ \t\r\n]")).select("value", *place())


def as_landed(file: Column) -> Column:
    """Return a file's URL in the manifest's spelling: Spark escapes blanks and drops slashes."""
    local = file.startswith("file:/") & ~file.startswith("file:///")
    slashed = F.when(local, F.concat(F.lit("file://"), F.substring(file, 6, 1 << 20)))
    whole = F.coalesce(slashed, file)
    unescaped = F.url_decode(F.replace(whole, F.lit("+"), F.lit("%2B")))
    return F.when(file.contains("%"), unescaped).otherwise(whole)
