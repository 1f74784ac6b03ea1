"""Compare two states of a table for a report: key ranges first, then the keys that differ."""

from __future__ import annotations

from typing import Final

from pyspark.sql import DataFrame

from sluice.verification import Comparison, Difference
from spark_jobs.lake.cut import Cut
from spark_jobs.lake.rows_alike import alike
from spark_jobs.lake.table_id import TableId
from spark_jobs.materialize import materialize
from spark_jobs.threads import run_concurrently
from spark_jobs.verifying.differences import (
    BUCKET,
    COLUMNS,
    EXPECTED,
    FOUND,
    HASH,
    KEY,
    KIND,
    ROWS,
    Layout,
    by_bucket,
    differing_keys,
)

_SHOWN_AT_MOST: Final = 20


def compared(
    table: TableId, cut: Cut, wanted: DataFrame, found: DataFrame, layout: Layout
) -> Comparison:
    """Compare the rows `found` in a table with the rows `wanted` there."""
    expected, there = (alike(side, found, layout.columns) for side in (wanted, found))
    left, right = run_concurrently(
        lambda: _buckets(expected, layout), lambda: _buckets(there, layout)
    )
    unlike = [b for b in sorted(left.keys() | right.keys()) if left.get(b) != right.get(b)]
    kinds, shown = ({}, ()) if not unlike else _differing(expected, there, layout, unlike)
    head = cut.heads.get(table)
    return Comparison(
        table=table.full_name,
        snapshot=None if head is None else str(head),
        expected=sum(rows for rows, _ in left.values()),
        found=sum(rows for rows, _ in right.values()),
        buckets=len(unlike),
        kinds=kinds,
        shown=shown,
    )


def _buckets(rows: DataFrame, layout: Layout) -> dict[int, tuple[int, int]]:
    buckets = by_bucket(rows, layout).collect()
    return {row[BUCKET]: (row[ROWS], row[HASH]) for row in buckets}


def _differing(
    expected: DataFrame, found: DataFrame, layout: Layout, buckets: list[int]
) -> tuple[dict[str, int], tuple[Difference, ...]]:
    """Count the differing keys by kind, and return the first of them by key."""
    keys = materialize(differing_keys(expected, found, layout, buckets))
    counted = keys.groupBy(KIND).count().collect()
    first = keys.orderBy(KEY, KIND).limit(_SHOWN_AT_MOST)
    shown = (
        Difference(row[KIND], tuple(row[COLUMNS] or ()), row[EXPECTED], row[FOUND])
        # Without the key, since Python has no times before Christ and no infinite ones.
        for row in first.drop(KEY).collect()
    )
    return {row[KIND]: row["count"] for row in counted}, tuple(shown)
