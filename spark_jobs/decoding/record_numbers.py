"""A record's landed file and its number there, from its place in what Spark reads."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from sluice.containers import datums
from sluice.manifest import JSON_LINES, WHOLE, Manifest
from spark_jobs.decoding import quarantine
from spark_jobs.decoding.decode import with_origin
from spark_jobs.job import Job

_KEPT: Final = "_kept_before"


def located(job: Job, envelope: DataFrame, records: DataFrame) -> DataFrame:
    """Add to records with a place and, as `raw`, their own text or NULL: their bytes (`raw`), the
    landed file (`origin`) and their number in it (`record`)."""
    texts = quarantine.texts(job.spark, job.manifest.files, envelope)
    found = with_origin(quarantine.with_text(records, texts), job.spark, job.manifest.files)
    return in_landed_file(job, found)


def in_landed_file(job: Job, rejects: DataFrame) -> DataFrame:
    """Return rejects, located by `origin`, with `record` as the number in the file as it landed.

    Before, `record` is counted from 1 in what Spark reads, which lacks the records that landing
    rejected. Blocks of an Avro container that landing left out are not counted, since the number of
    their records is unknown.
    """
    kept = _kept_before(job.manifest)
    if not kept:
        return rejects
    frame = job.spark.createDataFrame(list(kept.items()), f"origin string, {_KEPT} array<bigint>")
    joined = rejects.join(F.broadcast(frame), "origin", "left")
    rejected = F.size(F.filter(_KEPT, lambda before: before < F.col("record")))
    number = F.when(F.col(_KEPT).isNull(), F.col("record")).otherwise(F.col("record") + rejected)
    return joined.withColumn("record", number).drop(_KEPT)


def _kept_before(manifest: Manifest) -> dict[str, list[int]]:
    """Return, by file, how many records were kept before each rejected one: for rejected records 1,
    4 and 5 that is 0, 2 and 2."""
    counted = {f.key for f in manifest.files if f.container == JSON_LINES or datums.is_container(f)}
    rejected: dict[str, list[int]] = {}
    for reject in manifest.rejects:
        if reject.key in counted and reject.record != WHOLE:
            rejected.setdefault(reject.key, []).append(reject.record)
    return {key: _before(numbers) for key, numbers in rejected.items()}


def _before(rejected: Iterable[int]) -> list[int]:
    return [number - 1 - earlier for earlier, number in enumerate(sorted(rejected))]
