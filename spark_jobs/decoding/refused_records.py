"""The records of a batch that show why a table of it is refused, for the message.

They are looked up only once the batch is refused.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from functools import reduce
from itertools import chain
from operator import or_
from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from sluice.errors import Evidence
from sluice.escaping import shown
from sluice.source_names import stored_name
from spark_jobs.canonical import OP_DDL, OUTCOME_EVENT, names_any
from spark_jobs.decoding import quarantine
from spark_jobs.decoding.decode import is_of, with_origin
from spark_jobs.decoding.envelope_parts import part_of
from spark_jobs.decoding.record_numbers import in_landed_file
from spark_jobs.decoding.statements import Statement
from spark_jobs.expressions import cut
from spark_jobs.job import Job
from spark_jobs.planning.table_summary import Source, TableSummary, short_name
from spark_jobs.record_places import PLACE

_SHOWN: Final = 3
_MOST_TABLES: Final = 10
_MOST_COLUMNS: Final = 3
_CHARACTERS: Final = 100


def lines_by_table(
    job: Job, envelope: DataFrame, refused: Iterable[tuple[TableSummary, Evidence]]
) -> Mapping[str, list[str]]:
    """Return, by source table, a line for each of up to three records that show why it is refused:
    file, number and what is refused in it.

    Of the first ten tables; none if they cannot be read, since the refusal is what matters.
    """
    asked = [*refused][:_MOST_TABLES]
    try:
        found = [_found(envelope, *one) for one in asked]
        return _lines(job, envelope, reduce(DataFrame.unionByName, found)) if found else {}
    except Exception:  # the refusal is the error to report
        return {}


def lines_of_statements(job: Job, envelope: DataFrame, refused: Iterable[Statement]) -> list[str]:
    """Return such lines for refused statements."""
    texts: dict[Source, set[str]] = {}
    for one in refused:
        texts.setdefault(one.source, set()).add(one.text)
    tables = ((TableSummary(s), Evidence(op=OP_DDL, statements=t)) for s, t in texts.items())
    return [*chain.from_iterable(lines_by_table(job, envelope, tables).values())]


def _lines(job: Job, envelope: DataFrame, found: DataFrame) -> dict[str, list[str]]:
    numbers = quarantine.texts(job.spark, job.manifest.files, envelope).select(*PLACE, "record")
    placed = with_origin(found.join(numbers, list(PLACE), "left"), job.spark, job.manifest.files)
    rows = in_landed_file(job, placed).orderBy("turn", "origin", "record")
    lines: dict[str, list[str]] = {}
    for row in rows.collect():
        text = f": {row['text']}" if row["text"] else ""
        line = f"seen in {row['origin']}, record {row['record']}{text}"
        # A statement's own line breaks must not become lines of the message.
        lines.setdefault(row["refused"], []).append(shown(line))
    return lines


def _found(envelope: DataFrame, summary: TableSummary, evidence: Evidence) -> DataFrame:
    """Return the first records of a table that show it.

    `turn`: a record's number among those with its description of types. The first of each
    description are taken first, so that different types are seen.
    """
    wanted = {name.lower() for name in evidence.columns}
    names = [name for name in sorted(summary.columns) if stored_name(name).lower() in wanted]
    mine = (F.col("outcome") == OUTCOME_EVENT) & is_of(summary.source) & _shows(evidence, names)
    alike = Window.partitionBy(short_name(F.col("types"))).orderBy(*PLACE)
    rows = part_of(envelope, summary.source).where(mine)
    found = rows.select(
        *PLACE,
        F.lit(summary.source.name).alias("refused"),
        _refused_part(evidence, names).alias("text"),
        F.row_number().over(alike).alias("turn"),
    )
    return found.where(F.col("turn") <= _SHOWN).orderBy("turn", *PLACE).limit(_SHOWN)


def _shows(evidence: Evidence, names: Collection[str]) -> Column:
    """Whether a record is one of those that the evidence means; `names`: the columns in events."""
    if evidence.op:
        return (F.col("op") == evidence.op) & _stated(evidence)
    has = names_any("after", names) | names_any("before", names)
    for shape, of in (("types", evidence.types), ("key", evidence.keys)):
        has &= short_name(F.col(shape)).isin([*of]) if of else F.lit(True)
    return has


def _stated(evidence: Evidence) -> Column:
    """Whether a statement names one of the columns, as a word, or is one of the statements."""
    means = [F.col("ddl").rlike(rf"(?iU)\b{re.escape(name)}\b") for name in evidence.columns]
    if evidence.statements:
        means.append(F.col("ddl").isin([*evidence.statements]))
    return reduce(or_, means) if means else F.lit(True)


def _refused_part(evidence: Evidence, names: Collection[str]) -> Column:
    """Return what is refused in a record: its statement, or its values of the columns as JSON."""
    if evidence.op:
        return cut(F.col("ddl"), _CHARACTERS) if evidence.op == OP_DDL else F.lit("")
    image = F.when(names_any("after", names), F.col("after")).otherwise(F.col("before"))
    of_columns = F.map_filter(image, lambda name, _: name.isin([*names]))
    few = F.map_from_entries(F.slice(F.map_entries(of_columns), 1, _MOST_COLUMNS))
    values = F.transform_values(few, lambda _, value: cut(value, _CHARACTERS))
    return F.to_json(values, {"ignoreNullFields": "false"})
