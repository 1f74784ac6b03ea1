"""One pass over a batch: finds its tables, columns, keys and types, and counts its records."""

from __future__ import annotations

from typing import Final

from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F

from sluice.errors import PlanError, landed_again
from sluice.positions import KIND_ARRIVAL
from spark_jobs.canonical import (
    OP_DDL,
    OP_TRUNCATE,
    OP_UPDATE,
    OUTCOME_EVENT,
    OUTCOME_IGNORE,
    SOURCE_PARTS,
)
from spark_jobs.planning.table_summary import Source, TableSummary, short_name, source_of

_MOST_FORMS: Final = 50_000


def discover(envelope: DataFrame) -> list[TableSummary]:
    """Summarise an envelope per source table; rejects without a table are under an empty name.

    Raises PlanError for a batch with more distinct forms of records than a driver can hold.
    """
    rows = _summary(envelope).limit(_MOST_FORMS + 1).collect()
    if len(rows) > _MOST_FORMS:
        raise PlanError(
            f"the batch's records have more than {_MOST_FORMS} forms (tables, sets of columns, "
            "keys): lower max_files_per_batch, or take the files whose documents all differ out of "
            f"the landing folder, or of landing.pattern; {landed_again()}"
        )
    summaries: dict[Source, TableSummary] = {}
    for row in rows:
        source = source_of(row)
        _add(summaries.setdefault(source, TableSummary(source)), row)
    return sorted(summaries.values(), key=lambda summary: summary.source.name)


def _summary(envelope: DataFrame) -> DataFrame:
    after, before = F.map_keys("after"), F.map_keys("before")
    kind = F.coalesce(F.substring("position", 1, 1), F.lit(KIND_ARRIVAL))
    return envelope.groupBy(
        *SOURCE_PARTS,
        "outcome",
        "op",
        "key",
        short_name(F.col("key")).alias("key_id"),
        short_name(F.col("types")).alias("types_id"),
        after.alias("after"),
        short_name(after).alias("after_id"),
        before.alias("before"),
        short_name(before).alias("before_id"),
        kind.alias("kind"),
    ).agg(
        F.count("*").alias("records"),
        F.any_value("types").alias("types"),
        F.max("source_ts").cast("string").alias("source_ts"),
        F.count("absent").alias("partial"),
        F.count_if(F.col("position").isNull()).alias("unordered"),
        F.min("position").alias("lowest"),
    )


def _add(summary: TableSummary, row: Row) -> None:
    if row["outcome"] == OUTCOME_EVENT:
        _add_event(summary, row)
    elif row["outcome"] == OUTCOME_IGNORE:
        summary.ignored += row["records"]
    else:
        summary.rejected += row["records"]


def _add_event(summary: TableSummary, row: Row) -> None:
    summary.records += row["records"]
    for image in ("after", "before"):
        if row[image] is not None:
            summary.images[row[f"{image}_id"]] = tuple(row[image])
            _keep_lowest(summary, row[f"{image}_id"], row)
    if row["types"] is not None:
        summary.types[row["types_id"]] = row["types"]
        _keep_lowest(summary, row["types_id"], row)
    if row["key"]:
        summary.keys[row["key_id"]] = tuple(row["key"])
    summary.partial |= bool(row["partial"])
    summary.unordered |= bool(row["unordered"]) and row["op"] != OP_DDL
    summary.has_old_images |= row["op"] == OP_UPDATE and row["before"] is not None
    summary.ddl += row["records"] if row["op"] == OP_DDL else 0
    summary.truncates += row["records"] if row["op"] == OP_TRUNCATE else 0
    if row["source_ts"] is not None:
        summary.newest_source_ts = max(summary.newest_source_ts or "", row["source_ts"])


def _keep_lowest(summary: TableSummary, shape: int, row: Row) -> None:
    at, position = (shape, row["kind"]), row["lowest"] or row["kind"]
    summary.lowest[at] = min(position, summary.lowest.get(at, position))
