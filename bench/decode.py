"""`make bench-decode`: each format's decoder beside Spark's own typed read of the same bytes.

The typed read has the schema that Spark infers of JSON, or that Avro files have, and gives
columns; the decoder gives typed changelog rows with positions, and counts every misfit. Nothing is
written by either.

usage: python -m bench.decode [EVENTS] [--formats debezium,dts_avro]
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path

from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql import functions as F
from rich.console import Console
from rich.table import Table

from bench.avroevents import AVRO_WRITERS
from bench.events import COLUMNS, WRITERS, Event, history
from bench.report import measured_on
from sluice import names
from sluice.config.pipeline import Pipeline, TableConfig
from sluice.environment import CHECKOUT
from sluice.manifest import AVRO, SourceFile
from spark_jobs.decoding.decode import BAD, RECORD, Batch, changes, of_table, with_origin
from spark_jobs.decoding.shape_cache import ShapeCheck
from spark_jobs.decoding.whole_envelope import read_envelope
from spark_jobs.formats import FORMATS
from spark_jobs.formats.base import NO_PRIOR_FACTS, PriorFacts
from spark_jobs.planning.discover import discover
from spark_jobs.planning.plan import TablePlan, plan_table
from spark_jobs.planning.table_inputs import StoredTable
from spark_jobs.record_places import PLACED
from spark_jobs.session import DEFAULTS

ROUNDS = 3
FILES = 4


@dataclass(frozen=True)
class Measured:
    """Median seconds of a format's files: the typed read, and the decoder."""

    name: str
    events: int
    size: int
    typed: float
    decoded: float


def main() -> None:
    """Write each format's files, read them both ways in turn, print what was measured."""
    parser = argparse.ArgumentParser(prog="bench.decode", description=__doc__)
    parser.add_argument("events", nargs="?", type=int, default=200_000)
    parser.add_argument("--formats", default=",".join((*WRITERS, *AVRO_WRITERS)))
    given = parser.parse_args()
    spark = _session()
    with tempfile.TemporaryDirectory(prefix="sluice-decode-") as folder:
        found = [
            _measured(spark, name, given.events, Path(folder) / name)
            for name in given.formats.split(",")
        ]
    _show(found)


def _session() -> SparkSession:
    builder = SparkSession.builder.master("local[2]").config("spark.driver.memory", "4g")
    jars = {"spark.driver.extraClassPath": str(CHECKOUT / ".jars" / "*")}
    for key, value in (DEFAULTS | jars).items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    return spark


def _measured(spark: SparkSession, name: str, events: int, folder: Path) -> Measured:
    files = _write(name, events, folder)
    urls = [file.url for file in files]
    kind = "avro" if name in AVRO_WRITERS else "json"
    schema = spark.read.format(kind).load(urls).schema
    fmt = AVRO_WRITERS[name].format if name in AVRO_WRITERS else name
    pipeline = Pipeline.model_validate(
        {"name": "bench", "format": fmt, "landing": {"url": "landing"}, "namespace": "bench"}
    )
    plan = _plan(spark, pipeline, files)

    def typed() -> None:
        _run(spark.read.format(kind).schema(schema).load(urls))

    def decoded() -> None:
        _run(_changes(spark, pipeline, files, plan))

    seconds = [(_seconds(typed), _seconds(decoded)) for _ in range(ROUNDS + 1)][1:]
    each = [statistics.median(times) for times in zip(*seconds, strict=True)]
    return Measured(name, events, sum(file.size for file in files), *each)


def _write(name: str, events: int, folder: Path) -> tuple[SourceFile, ...]:
    folder.mkdir(parents=True)
    write = _write_avro if name in AVRO_WRITERS else _write_lines
    past = history(events)
    shares = (islice(past, -(-events // FILES)) for _ in range(FILES))
    return tuple(write(name, folder / f"{at}", share) for at, share in enumerate(shares))


def _write_lines(name: str, path: Path, events: Iterable[Event]) -> SourceFile:
    with path.open("w") as sink:
        for event in events:
            sink.write(json.dumps(WRITERS[name](event)) + "\n")
    return _described(path)


def _write_avro(name: str, path: Path, events: Iterable[Event]) -> SourceFile:
    schema = AVRO_WRITERS[name].write(path, events)
    return replace(_described(path), container=AVRO, avro_schema=schema)


def _described(path: Path) -> SourceFile:
    size = path.stat().st_size
    return SourceFile(key=path.name, url=path.as_uri(), size=size, arrival=path.name)


def _plan(spark: SparkSession, pipeline: Pipeline, files: tuple[SourceFile, ...]) -> TablePlan:
    """What a pipeline plans for these events; fails where one of them is no event."""
    (summary,) = discover(read_envelope(spark, pipeline, files, NO_PRIOR_FACTS))
    if summary.rejected or summary.ignored:
        lost = f"{summary.rejected} rejected, {summary.ignored} ignored"
        raise RuntimeError(f"{pipeline.format}: {lost}")
    config = TableConfig.model_validate({"key": ["id"], "columns": COLUMNS})
    summary = replace(summary, may_move=False)
    return plan_table(pipeline, FORMATS[pipeline.format], summary, config, StoredTable())


def _changes(
    spark: SparkSession, pipeline: Pipeline, files: tuple[SourceFile, ...], plan: TablePlan
) -> DataFrame:
    """As a load decodes a batch of a table that it knows, watched for what is new.

    What does not fit is counted; its records are for a pass of their own, where there are any.
    """
    known = PriorFacts(frozenset(plan.key), partial=plan.summary.partial)
    watch = ShapeCheck((plan.summary,), plan.summary, plan.key_columns, known.old_columns is None)
    envelope = watch.classify(read_envelope(spark, pipeline, files, known))
    events = of_table(envelope.observe(Observation(), *watch.counters()), plan)
    typed = changes(with_origin(events, spark, files), plan, Batch("bench", 0))
    fits = F.col(BAD) == ""
    counted = typed.observe(Observation(), F.count_if(~fits), F.max(names.POSITION))
    return counted.where(fits).drop(BAD, RECORD, *PLACED)


def _run(frame: DataFrame) -> None:
    frame.write.format("noop").mode("overwrite").save()


def _seconds(work: Callable[[], None]) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def _show(found: list[Measured]) -> None:
    table = Table(title=f"median of {ROUNDS} warm runs ({measured_on('pyspark', 'sluice')})")
    for name in ("format", "MB", "typed read, MB/s", "decoder, MB/s", "events/s", "of the read"):
        table.add_column(name, justify="left" if name == "format" else "right")
    for m in found:
        megabytes = m.size / 1e6
        table.add_row(
            m.name, f"{megabytes:.0f}", f"{megabytes / m.typed:.0f}",
            f"{megabytes / m.decoded:.0f}", f"{m.events / m.decoded:,.0f}",
            f"{m.typed / m.decoded:.2f}",
        )  # fmt: skip
    Console(width=110).print(table)
    print("single process on a shared machine: compare the last column, not seconds across runs")


if __name__ == "__main__":
    main()
