"""Kafka's tombstones as deletes: in a compacted topic they may be all that is left of a delete.

A tombstone has a key, but no table and no position. It takes both from the last event of its key
before it in the same file, for a partition keeps the order of each key; without such an event it
stays ignored. See docs/formats/debezium-avro.md, "Tombstones".
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from sluice.config.format_options import DebeziumOptions
from spark_jobs.canonical import OP_DELETE, OP_INSERT, OP_UPDATE, OUTCOME_EVENT, SOURCE_PARTS
from spark_jobs.expressions import changed_where

TOMBSTONE: Final = "tombstone"
_DELETE: Final = "delete"
_TEXT: Final = r'"(?:[^"\\]|\\.)*+"'
_PLAIN: Final = rf"(?:{_TEXT}|[\w.+-]++)"
_NESTED: Final = rf'(?:null|\[(?:[^"\]]|{_TEXT})*+\]|\{{(?:[^"{{}}]|{_TEXT})*+\}})'
BESIDE: Final = (
    rf'"(?:(?:offset|timestamp|partition|topic)"\s*:\s*{_PLAIN}|headers"\s*:\s*{_NESTED})\s*'
)
"""A field that a sink may add to a record's key and value, such as Aiven's, which can write its
`format.output.fields` without the key."""
KEY: Final = rf'"key"\s*:\s*(?:{_PLAIN}|\{{.*\}}|\[.*\])\s*'
"""A record's key. Of objects and lists only the ends are looked at: a row without its envelope has
plain values."""
_AFTER: Final = "~"
"""Suffix of a position: sorts after `.`, so after that event and before any later one.

Whoever looks for `positions.HALF_MARK`, which is the same sign, finds these deletes too: like
halves in records of their own, they are not part of an update in one record.
"""
_TAKEN: Final = (*SOURCE_PARTS, "position", "types", "source_ts")


def wanted(options: DebeziumOptions) -> bool:
    """Whether the pipeline wants tombstones as deletes."""
    return options.tombstones == _DELETE


def as_deletes(envelope: DataFrame) -> DataFrame:
    """Turn tombstones whose key had an event before into deletes, with their key in `before`."""
    same_key = Window.partitionBy("file", "key", _ident()).orderBy("block", "ordinal")
    before = same_key.rowsBetween(Window.unboundedPreceding, -1)
    changed = F.col("op").isin(OP_INSERT, OP_UPDATE, OP_DELETE) & (
        F.col("outcome") == OUTCOME_EVENT
    )
    last = F.last(F.when(changed, F.struct(*_TAKEN, "op")), ignorenulls=True).over(before)
    placed = envelope.withColumn("_last", last)
    keyed = F.col("before").isNotNull() & F.col("_last").isNotNull()
    deleted = (F.col("reason") == TOMBSTONE) & keyed
    taken = {name: F.col("_last")[name] for name in _TAKEN} | {
        "outcome": F.lit(OUTCOME_EVENT),
        "reason": F.lit(None),
        "op": F.lit(OP_DELETE),
        # Behind a delete it repeats that one: the new row of a key change is above it.
        "position": F.concat(
            F.col("_last")["position"],
            F.when(F.col("_last")["op"] == OP_DELETE, F.lit("")).otherwise(F.lit(_AFTER)),
        ),
    }
    return placed.withColumns(changed_where(deleted, taken)).drop("_last")


def _ident() -> Column:
    """The key's values as text; a row without a key has its place, which no other row shares."""
    image = F.coalesce("after", "before")
    values = F.to_json(F.transform("key", lambda name: image[name]), {"ignoreNullFields": "false"})
    return F.coalesce(values, F.concat_ws(".", "block", "ordinal"))
