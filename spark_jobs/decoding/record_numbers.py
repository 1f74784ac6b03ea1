"""A record's number in the landed file, where landing left refused records out of the copy."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from sluice.containers import datums
from sluice.manifest import JSON_LINES, WHOLE, Manifest

_KEPT: Final = "_kept_before"


def in_landed_file(rejects: DataFrame, spark: SparkSession, manifest: Manifest) -> DataFrame:
    """Return rejects, located by `origin`, with `record` counted in the file as it landed.

    `record` comes counted from 1 in what Spark reads. Of an Avro container the blocks that landing
    left out count as none, for nobody knows how many records they have.
    """
    kept = _kept_before(manifest)
    if not kept:
        return rejects
    frame = spark.createDataFrame(list(kept.items()), f"origin string, {_KEPT} array<bigint>")
    joined = rejects.join(F.broadcast(frame), "origin", "left")
    refused = F.size(F.filter(_KEPT, lambda before: before < F.col("record")))
    number = F.when(F.col(_KEPT).isNull(), F.col("record")).otherwise(F.col("record") + refused)
    return joined.withColumn("record", number).drop(_KEPT)


def _kept_before(manifest: Manifest) -> dict[str, list[int]]:
    """Return, by file, how many records were kept before each refused one: of 1, 4 and 5 that are
    0, 2 and 2."""
    counted = {f.key for f in manifest.files if f.container == JSON_LINES or datums.is_container(f)}
    refused: dict[str, list[int]] = {}
    for reject in manifest.rejects:
        if reject.key in counted and reject.record != WHOLE:
            refused.setdefault(reject.key, []).append(reject.record)
    return {key: _before(numbers) for key, numbers in refused.items()}


def _before(refused: Iterable[int]) -> list[int]:
    return [number - 1 - earlier for earlier, number in enumerate(sorted(refused))]
