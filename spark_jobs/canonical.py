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

from collections.abc import Iterable
from typing import Final

from pyspark.sql import Column
from pyspark.sql import functions as F

from spark_jobs.record_places import PLACE

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
ENVELOPE: Final = (
    "outcome", "reason", *SOURCE_PARTS, "op", "position", "before", "after", "key", "types",
    "source_ts", "tx_id", "event_id", "ddl", "raw", *PLACE,
)  # fmt: skip

IMAGE_TYPE: Final = "map<string,string>"

ALL_BUT: Final = ""
"""First in `absent`, before the columns that the row carries: all other columns of the table are
absent, even those that only later events name. No source allows it as a column's name."""


def record_text() -> Column:
    """Return an event as text, for formats whose records have no text of their own."""
    return F.to_json(F.struct("op", "before", "after"), {"ignoreNullFields": "false"})


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
