"""The renames that a batch's DDL tells."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import Final

from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F

from sluice.ddl import LONGEST, SPEAKS_OF_RENAME, UnreadableDdl, renamed
from sluice.errors import PlanError
from sluice.positions import epoch_prefix
from sluice.renamelog import ToldRename
from spark_jobs.canonical import OP_DDL, OUTCOME_EVENT
from spark_jobs.decode import by_place, with_origin
from spark_jobs.discover import Found, Source
from spark_jobs.job import Job

_MOST: Final = 10_000


def told_by(job: Job, envelope: DataFrame, found: list[Found]) -> dict[Source, list[ToldRename]]:
    """What the batch's DDL says of columns that were renamed, by table.

    Raises PlanError for more statements than a driver can look at.
    """
    if not any(table.ddl for table in found):
        return {}
    rows = _statements(job, envelope).limit(_MOST + 1).collect()
    if len(rows) > _MOST:
        raise PlanError(
            f"the batch has more than {_MOST} DDL statements that may rename a column: load fewer "
            "files at once (max_files_per_batch)"
        )
    told: dict[Source, list[ToldRename]] = {}
    for row in rows:
        for source, rename in _of_statement(job, row):
            told.setdefault(source, []).append(rename)
    return told


def _statements(job: Job, envelope: DataFrame) -> DataFrame:
    ddl = (F.col("outcome") == OUTCOME_EVENT) & (F.col("op") == OP_DDL)
    mine = envelope.where(ddl & F.col("ddl").rlike(SPEAKS_OF_RENAME))
    located = with_origin(mine, job.spark, job.manifest.files)
    at = F.concat_ws(
        ".", F.lit(epoch_prefix(job.pipeline.epoch)), F.coalesce("position", by_place())
    )
    parts = (F.coalesce(n, F.lit("")).alias(n) for n in ("database", "schema", "table"))
    return located.select(*parts, at.alias("at"), F.substring("ddl", 1, LONGEST).alias("ddl"))


def _of_statement(job: Job, row: Row) -> Iterable[tuple[Source, ToldRename]]:
    """By the event's own table; a topic of schema changes may leave it to the statement."""
    source, text = Source(row["database"], row["schema"], row["table"]), row["ddl"]
    try:
        for one in renamed(text):
            named = source.table if source.table and "," not in source.table else one.table
            of = Source(source.database, source.schema, named)
            yield of, ToldRename(of.name, row["at"], one.columns, text)
    except UnreadableDdl as problem:
        print(
            f"{source.name}: a DDL statement that may rename a column could not be read "
            f"({problem}); it is in sluice.renames, and changes nothing",
            file=sys.stderr, flush=True,
        )  # fmt: skip
        yield source, ToldRename(source.name, row["at"], (), text, str(problem))
