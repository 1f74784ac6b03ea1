"""Remembered event shapes, so that a batch with known shapes is parsed only once.

A target keeps the shapes of its events as a table property: the columns of their images, their keys
and their type descriptions. They are only a hint: the pass that writes the changelog checks every
record against them, and where one differs the batch is decoded as if nothing were known.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from typing import Any, Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from sluice import names
from spark_jobs.canonical import OP_DDL, OP_TRUNCATE, OUTCOME_EVENT, OUTCOME_IGNORE
from spark_jobs.decoding.decode import is_of
from spark_jobs.decoding.halves import changes_key, hides_key
from spark_jobs.decoding.lookalikes import needs_second_look
from spark_jobs.lake.tables import Lake
from spark_jobs.planning.planned_column import PlannedColumn
from spark_jobs.planning.table_summary import Source, TableSummary, short_name

_MOST_TABLES: Final = 4
_MOST_SHAPES: Final = 32
_MOST_CHARACTERS: Final = 64 * 1024
_LISTS: Final = ("images", "keys")
_MINE, _CLASS = "_sluice_mine", "_sluice_class"
_ROWS, _DDL, _TRUNCATES = "rows", "ddl", "truncates"
_REJECTED, _IGNORED, _ELSEWHERE = "rejected", "ignored", "elsewhere"
_UNKNOWN_SHAPES, _UNKNOWN_TABLES = "unknown_shapes", "unknown_tables"
_SEEMING: Final = "seeming"
_CLASSES: Final = (
    _ROWS, _DDL, _TRUNCATES, _UNKNOWN_SHAPES, _REJECTED, _IGNORED, _ELSEWHERE, _UNKNOWN_TABLES,
    _SEEMING,
)  # fmt: skip


def _class(name: str) -> Column:
    return F.lit(_CLASSES.index(name))


def encode_shapes(summary: TableSummary, known: TableSummary | None) -> str:
    """Return the shapes as property text; '' if there are too many to be worth checking."""
    known = known or TableSummary(summary.source, may_move=False)
    listed = {
        name: sorted((getattr(known, name) | getattr(summary, name)).items())
        for name in (*_LISTS, "types")
    }
    flags = {n: getattr(known, n) or getattr(summary, n) for n in ("partial", "unordered")}
    flags["moves"] = known.may_move or summary.may_move
    text = json.dumps({"source": asdict(summary.source), **listed, **flags}, ensure_ascii=False)
    many = max(len(entries) for entries in listed.values()) > _MOST_SHAPES
    return "" if many or len(text) > _MOST_CHARACTERS else text


def decode_shapes(text: str | None) -> TableSummary | None:
    """Parse the text of `encode_shapes`, with no records counted. Updates may have old images."""
    if not text:
        return None
    raw = json.loads(text)
    lists: dict[str, Any] = {n: {i: tuple(entry) for i, entry in raw[n]} for n in _LISTS}
    return TableSummary(
        Source(**raw["source"]),
        **lists,
        types=dict(raw["types"]),
        partial=raw["partial"],
        unordered=raw["unordered"],
        may_move=raw.get("moves", True),
        has_old_images=True,
    )


def load_shapes(lake: Lake, namespace: str) -> list[TableSummary]:
    """Return the shapes of every table of the pipeline; [] if any is unknown or there are many.

    Each table costs a pass over the batch, and with many tables most passes would find nothing.
    """
    tables = lake.own_tables(namespace, at_most=_MOST_TABLES)
    decoded = [decode_shapes(table.properties.get(names.PROP_SHAPES)) for table in tables]
    summaries = [summary for summary in decoded if summary is not None]
    return summaries if len(summaries) == len(decoded) else []


@dataclass(frozen=True)
class ShapeCheck:
    """Checks, while one table of the batch is decoded, that every record has a shape that is
    cached.

    `known`: the cached shapes of all tables; `summary`: that of this one; `key`: its key columns;
    `whole_before`: old images are complete, and checked too; `seeming`: reasons of ignored records
    that may hold more than the decoder saw.
    """

    known: tuple[TableSummary, ...]
    summary: TableSummary
    key: tuple[PlannedColumn, ...]
    whole_before: bool
    seeming: frozenset[str] = frozenset()

    def classify(self, envelope: DataFrame) -> DataFrame:
        """Add the record's class for this table: an index into `_CLASSES`, NULL for records of
        other tables.

        It is one column, so that Spark classifies each record once and not once per count, and a
        number, because comparing texts costs more.
        """
        mine, ignored = F.col(_MINE), F.col("outcome") == OUTCOME_IGNORE
        changing = (
            F.when(self._has_unknown_shape(), _class(_UNKNOWN_SHAPES))
            .when(F.col("op") == OP_DDL, _class(_DDL))
            .when(F.col("op") == OP_TRUNCATE, _class(_TRUNCATES))
            .otherwise(_class(_ROWS))
        )
        event = F.when(F.col("outcome") == OUTCOME_EVENT, changing).otherwise(_class(_REJECTED))
        own = F.when(ignored, _class(_IGNORED)).otherwise(event)
        strange = F.when(needs_second_look(self.seeming), _class(_SEEMING))
        strange = strange.when(ignored, _class(_ELSEWHERE)).otherwise(_class(_UNKNOWN_TABLES))
        others = F.when(~self._of_another(), strange)
        marked = envelope.withColumn(_MINE, is_of(self.summary.source))
        return marked.withColumn(_CLASS, F.when(mine, own).otherwise(others))

    def _of_another(self) -> Column:
        matches = F.lit(False)
        for other in self.known:
            if other.source != self.summary.source:
                matches |= is_of(other.source)
        return matches

    def counters(self) -> list[Column]:
        """Return the counts for an Observation on the marked envelope."""
        of_class = F.col(_CLASS)
        changing = of_class.isin(*map(_class, (_ROWS, _DDL, _TRUNCATES)))
        newest = F.max(F.when(changing, F.col("source_ts")))
        counts = [F.count(F.when(of_class == _class(name), 1)).alias(name) for name in _CLASSES]
        return [*counts, newest.cast("string").alias("newest")]

    def _has_unknown_shape(self) -> Column:
        summary, after, before = self.summary, F.map_keys("after"), F.map_keys("before")
        known: list[tuple[Column, Iterable[int]]] = [
            (after, summary.images),
            (F.col("key"), summary.keys),
            (F.col("types"), summary.types),
        ]
        known += [(before, summary.images)] if self.whole_before else []
        unknown = F.lit(False)
        for part, ids in known:
            unknown |= part.isNotNull() & ~short_name(part).isin(*ids)
        unknown |= F.col("absent").isNotNull() & F.lit(not summary.partial)
        if self.key and not summary.may_move:
            unknown |= changes_key(self.key)
        if self.key and not self.whole_before:
            unknown |= hides_key(self.key)
        return unknown | (F.col("position").isNull() & F.lit(not summary.unordered))

    def result(self, noticed: dict[str, Any]) -> ShapeCheckResult:
        """Return the results of the pass."""
        summary = replace(
            self.summary,
            records=sum(noticed[name] for name in (_ROWS, _DDL, _TRUNCATES)),
            ignored=noticed[_IGNORED],
            rejected=noticed[_REJECTED],
            ddl=noticed[_DDL],
            truncates=noticed[_TRUNCATES],
            newest_source_ts=noticed["newest"],
        )
        expected = not any(noticed[name] for name in (_UNKNOWN_TABLES, _UNKNOWN_SHAPES, _REJECTED))
        unsure = noticed[_SEEMING] > 0
        return ShapeCheckResult(summary, noticed[_ELSEWHERE] + noticed[_SEEMING], expected, unsure)


@dataclass(frozen=True)
class ShapeCheckResult:
    """Results of one pass.

    `elsewhere`: number of ignored records that belong to no table; `expected`: whether every record
    had a known shape; `unsure`: whether ignored records may hold more than the decoder saw.
    """

    summary: TableSummary
    elsewhere: int
    expected: bool
    unsure: bool
