"""Treat events of several source tables as those of one, by `sources:` of the pipeline's tables.

The envelope gets the name of the entry in `tables:`, so that everything after it sees one source
table. Events that must not be merged silently keep their own name, by which they are refused.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from sluice.config.fields import PLACEHOLDER
from sluice.config.pipeline import Pipeline, TableConfig
from sluice.config.policies import FAIL
from sluice.config.source_tables import (
    claimants,
    listed_name,
    partial_truncate_policy,
    regex,
    with_sources,
)
from sluice.errors import PlanError
from spark_jobs.canonical import OP_TRUNCATE, SOURCE_PARTS
from spark_jobs.expressions import changed_where
from spark_jobs.planning.table_summary import TableSummary

# Spark's default of spark.sql.optimizer.inSetConversionThreshold.
_HASHED_ABOVE: Final = 10
_NAME, _LISTED, _ENTRY = "_sluice_name", "_sluice_listed", "_sluice_entry"


def as_listed(envelope: DataFrame, pipeline: Pipeline) -> DataFrame:
    """Return the envelope with `database`, `schema` and `table` as the entry in `tables:` names
    them.

    A table that two entries claim keeps its name, and so does a TRUNCATE of one source that must
    not empty the whole target: `refuse_unclear` refuses them.
    """
    tables = pipeline.tables or {}
    patterns = with_sources(tables)
    if not patterns:
        return envelope
    named = envelope.withColumn(_NAME, _dotted_name()).withColumn(_LISTED, _listed(tables))
    return (
        named.withColumn(_ENTRY, _entry(pipeline, patterns))
        .withColumns(_names())
        .drop(_NAME, _LISTED, _ENTRY)
    )


def _dotted_name() -> Column:
    """Return `Source.name` as an expression; NULL for a record without a table."""
    parts = [F.nullif(part, F.lit("")) for part in SOURCE_PARTS]
    return F.when(parts[-1].isNotNull(), F.concat_ws(".", *parts))


def _listed(tables: Iterable[str]) -> Column:
    """Return `source_tables.listed_name` as an expression."""
    by_parts: defaultdict[int, list[str]] = defaultdict(list)
    for table in tables:
        by_parts[len(table.split("."))].append(table)
    ends = (
        (F.substring_index(_NAME, ".", -n), by_parts[n]) for n in sorted(by_parts, reverse=True)
    )
    return F.coalesce(*(F.when(_among(end, listed), end) for end, listed in ends))


def _entry(pipeline: Pipeline, patterns: Mapping[str, list[str]]) -> Column:
    """Return a record's entry of `tables:` that has sources; NULL if the record keeps
    its own name."""
    name, listed = F.col(_NAME), F.col(_LISTED)
    by_pattern = (
        F.when(name.rlike(rf"\A{regex(own)}\z"), F.lit(entry)) for entry, own in patterns.items()
    )
    claims = F.array_distinct(F.array_compact(F.array(listed, *by_pattern)))
    entry = F.when(F.size(claims) == 1, F.get(claims, F.lit(0)))
    strict = [
        e for e in patterns if partial_truncate_policy(pipeline, _config(pipeline, e)) == FAIL
    ]
    of_a_part = F.col("op").eqNullSafe(OP_TRUNCATE) & listed.isNull()
    return F.when(_among(entry, patterns) & ~(of_a_part & _among(entry, strict)), entry)


def _among(name: Column, names: Collection[str]) -> Column:
    """Return `name.isin(names)`, for few names by an array.

    The code that Spark generates for `isin` grows with each name below its threshold, and this runs
    on every record.
    """
    if not names or len(names) > _HASHED_ABOVE:
        return name.isin(*names)
    return F.array_contains(F.array(*map(F.lit, names)), name)


def _config(pipeline: Pipeline, entry: str) -> TableConfig:
    return (pipeline.tables or {})[entry]


def _names() -> dict[str, Column]:
    """Return the parts of the entry's name. Of a name with two parts, the first is the database if
    the record has only that, else the schema."""
    entry = F.col(_ENTRY)
    parts = F.split(entry, r"\.")
    third, second = (F.try_element_at(parts, F.lit(at)) for at in (-3, -2))
    only_database = (F.coalesce("schema", F.lit("")) == "") & (
        F.coalesce("database", F.lit("")) != ""
    )
    of_schema = third.isNotNull() | ~only_database
    stated = {
        "database": F.coalesce(third, F.when(~of_schema, second)),
        "schema": F.when(of_schema, second),
        "table": F.try_element_at(parts, F.lit(-1)),
    }
    return changed_where(entry.isNotNull(), stated)


def refuse_unclear(pipeline: Pipeline, summaries: Iterable[TableSummary]) -> None:
    """Raise one PlanError for all source tables of a batch that `sources` leave ambiguous."""
    if not with_sources(pipeline.tables):
        return
    mistakes = [_mistake(pipeline, summary) for summary in summaries if summary.source.table]
    if any(mistakes):
        raise PlanError(*filter(None, mistakes))


def _mistake(pipeline: Pipeline, summary: TableSummary) -> str:
    name, tables = summary.source.name, pipeline.tables or {}
    claims = claimants(tables, name)
    if not any(map(pipeline.loads, claims)):
        return ""
    if len(claims) > 1:
        return (
            f"table {name}: it belongs to {' and '.join(claims)} of `tables:`, by their names or "
            "`sources`; make their patterns such that it belongs to one"
        )
    if summary.truncates and listed_name(tables, name) is None:
        return (
            f"table {name}: a TRUNCATE came of it, and it is one of the `sources` of {claims[0]}. "
            f"Set `on_truncate` of {claims[0]} in `tables:` to apply (it empties the whole target: "
            "where a table was renamed, or all partitions are truncated together) or to ignore, "
            "and run again; or roll the batch back to go on without its files"
        )
    return _missing_part(pipeline, summary) if tables[claims[0]].sources else ""


def _missing_part(pipeline: Pipeline, summary: TableSummary) -> str:
    used = PLACEHOLDER.findall(pipeline.table_name)
    empty = [part for part in used if not getattr(summary.source, part)]
    if not empty:
        return ""
    return (
        f"table {summary.source.name}: its name in `tables:` does not say its "
        f"{' and '.join(empty)}, which `table_name` has ({pipeline.table_name}). With `sources` "
        "only that name counts: say more of it, or less in `table_name`"
    )
