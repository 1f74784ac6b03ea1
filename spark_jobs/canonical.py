"""The event in its generic form: what every decoder gives, before columns get their types.

A decoder gives one row a record (a record that changes a key is split later), in these columns:

| column | type | what |
|---|---|---|
| outcome | string | `event`, `ignore` (heartbeat, marker: counted) or `reject` (to quarantine) |
| reason | string | why a record was ignored or rejected |
| database, schema, table | string | the source's own names; NULL where the format has none |
| op | string | one of the OP_ constants |
| position | string | sortable text without role, see `sluice.positions`; NULL: order by arrival |
| before, after | map<string,string> | column name → exact text of the value (NULL value is NULL) |
| key | array<string> | key column names where the record itself tells them |
| types | string | the format's own description of the columns, NULL where it has none |
| source_ts | timestamp | when the source made the change |
| tx_id, event_id | string | as the source names them |
| ddl | string | text of a DDL event |
| raw | string | the record's own text, for rejects; else NULL |
| file | string | what Spark read, in its own spelling (`as_landed` gives the manifest's) |
| block, ordinal | bigint | place: start of the split, row number inside the task's partition |

A decoder of a format with partial rows gives `absent` too, an array<string>: the columns that
`after` does not carry, or ALL_BUT and the columns that it does carry; NULL where it is whole.
Where `before` may lack values too it gives `old_absent`, the columns whose old value nobody tells,
or ALL_BUT and those whose old value it tells; where it costs, only for tables whose old rows are
looked at. Beside no `before` it says that an update may be of another key, which nobody tells.
One of a format that tells of transactions gives `transaction`, a string, of every change that is
part of one and of what ends it, and `ends`, a boolean; where it costs, only when it is asked for.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from pyspark.sql import Column
from pyspark.sql import functions as F

from sluice import names
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
# The same beside columns of a source, which may have such names.
PLACED: Final = tuple(f"_sluice_{name}" for name in PLACE)
ENVELOPE: Final = (
    "outcome", "reason", *SOURCE_PARTS, "op", "position", "before", "after", "key", "types",
    "source_ts", "tx_id", "event_id", "ddl", "raw", *PLACE,
)  # fmt: skip

_LENGTHS: Final = ",".join(f"{length:02}" for length in range(1, 100))
IMAGE_TYPE: Final = "map<string,string>"

ALL_BUT: Final = ""
"""First in `absent`, before the columns that the row carries: all others of the table are absent,
those too that only later events name. No source allows it as a column's name."""


def quoted(name: str) -> str:
    """An identifier in backticks; text from files never becomes SQL."""
    return "`" + name.replace("`", "``") + "`"


def by_name(names: Iterable[str]) -> list[Column]:
    """Columns of a frame by their names, whatever stands in these."""
    return [F.col(quoted(name)) for name in names]


def literal(text: str) -> str:
    """A text as a SQL literal."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def of_batches(batches: Iterable[str], column: str = names.BATCH_ID) -> Column:
    """Whether a row is of one of some batches.

    As SQL text: a pipeline has thousands of batches, and each value of `isin` is a message to the
    JVM of its own.
    """
    listed = ", ".join(map(literal, sorted(batches)))
    return F.expr(f"{column} IN ({listed})") if listed else F.lit(False)


def as_place() -> list[Column]:
    """PLACED as PLACE, for a frame that has no columns of a source."""
    return [F.col(name).alias(own) for own, name in zip(PLACE, PLACED, strict=True)]


def record_text() -> Column:
    """An event as text, to show of a record that has none of its own."""
    return F.to_json(F.struct("op", "before", "after"), {"ignoreNullFields": "false"})


def number(text: Column) -> Column:
    """`sluice.positions.encode_number` as an expression; NULL unless the text is all digits."""
    # By patterns alone: a cast that fails makes an exception first, which costs far more.
    stripped = F.nullif(F.regexp_extract(text, r"^0*(0|[1-9]\d{0,98})$", 1), F.lit(""))
    # Each apart: where this stands in a condition Spark computes what comes twice in it twice.
    plain = text.rlike(r"^(0|[1-9]\d{0,98})\z")
    return F.when(plain, _with_length(text)).otherwise(_with_length(stripped))


def _with_length(digits: Column) -> Column:
    # Looking the two digits up costs a third of formatting them.
    length = F.try_element_at(F.split(F.lit(_LENGTHS), F.lit(",")), F.length(digits))
    return F.concat(length, digits)


def hex_number(digits: Column) -> Column:
    """Up to 16 hexadecimal digits in decimal; NULL for anything else, which `conv` would refuse."""
    return F.when(digits.rlike("^[0-9a-fA-F]{1,16}$"), F.conv(digits, 16, 10))


def source_position(*components: Column) -> Column:
    """A position in the source's own order; NULL as soon as one component is NULL."""
    return F.concat(F.lit(f"{KIND_SOURCE}."), _join(components))


def full_load_position(*components: Column) -> Column:
    """A full-load row's position: below every change, whatever the components say."""
    return F.concat(F.lit(f"{KIND_FULL_LOAD}."), _join(components))


def _join(components: tuple[Column, ...]) -> Column:
    parts: list[Column] = []
    for component in components:
        parts += [component, F.lit(".")]
    return F.concat(*parts[:-1])


def by_arrival(position: Column) -> Column:
    """Whether a changelog's position is an order of arrival."""
    return _kind(position) == KIND_ARRIVAL


def by_source(position: Column) -> Column:
    """Whether a changelog's position is the source's own order of changes, so no full load."""
    return _kind(position) == KIND_SOURCE


def _kind(position: Column) -> Column:
    return F.substring(position, KIND_AT, 1)


def is_delete() -> Column:
    """Whether a change of a changelog deletes its row."""
    return F.col(names.OP) == OP_DELETE


def is_truncate() -> Column:
    """Whether a change of a changelog empties its table."""
    return F.col(names.OP) == OP_TRUNCATE


def place() -> tuple[Column, Column, Column]:
    """Where a record of a file source stands: file (as Spark spells it), block and ordinal.

    The reader's `_metadata` would tell the same, at the price of one more copy of every row.
    """
    return (
        F.input_file_name().alias("file"),
        F.call_function("input_file_block_start").alias("block"),
        F.expr(f"monotonically_increasing_id() & {(1 << 33) - 1}L").alias("ordinal"),
    )


def holds_record(line: Column) -> Column:
    """Whether the JSON reader takes a line for a record; it passes over JSON's white space."""
    return line.rlike(r"[^ \t\r\n]")


def as_landed(file: Column) -> Column:
    """The URL of a file as the manifest spells it: Spark escapes blanks and drops slashes."""
    local = file.startswith("file:/") & ~file.startswith("file:///")
    slashed = F.when(local, F.concat(F.lit("file://"), F.substring(file, 6, 1 << 20)))
    whole = F.coalesce(slashed, file)
    unescaped = F.url_decode(F.replace(whole, F.lit("+"), F.lit("%2B")))
    return F.when(file.contains("%"), unescaped).otherwise(whole)
