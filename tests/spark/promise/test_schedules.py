"""Recordings of real databases in random schedules: every table is the source's own, in every mode,
and all that modes make beside it is what one clean batch makes.

`make schedules` tries SLUICE_SCHEDULES of them; a schedule that fails is tried again by its seed.
"""

from __future__ import annotations

import os
import random
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest
from pyspark.sql import SparkSession

from sluice.modes import APPEND, CURRENT, HISTORY, SOFT_DELETE
from sluice.names import BATCH_ID, IS_DELETED, changelog_namespace, published_tables
from tests.spark import pg_types, pgbench
from tests.spark.recordings import Recording
from tests.spark.sandbox import NAMESPACE, Sandbox
from tests.spark.schedules import Schedule, deliver, topics_of

pytestmark = [pytest.mark.spark, pytest.mark.long]

FIRST: Final = int(os.environ.get("SLUICE_SCHEDULE_SEED", "1"))
SEEDS: Final = range(FIRST, FIRST + int(os.environ.get("SLUICE_SCHEDULES", "2")))


@dataclass(frozen=True)
class Source:
    """A variant of a recording: its tables as a pipeline has them, and how the dump is compared."""

    recording: Recording
    variant: str
    tables: dict[str, dict[str, Any]]
    equals: Callable[[Any, Sequence[str]], None]

    def pipeline(self, names: Sequence[str], modes: Sequence[str]) -> dict[str, Any]:
        """The pipeline of some tables; those without a key are rows and events, no more."""
        plain = [CURRENT, *(m for m in modes if m == APPEND)]
        tables = {
            f"public.{name}": self.tables[name]
            | {"modes": plain if name in KEYLESS else list(modes)}
            for name in names
        }
        return {"format": "debezium", "tables": tables}


KEYLESS: Final = ("pgbench_history", "t_nopk")


def _bank(variant: str) -> Source:
    tables = {name.removeprefix("public."): dict(keys) for name, keys in pgbench.KEYS.items()}
    if variant.startswith("plain"):
        tables["pgbench_history"]["columns"] = {"mtime": "timestamp_ntz[us]"}
    return Source(pgbench.RECORDING, variant, tables, pgbench.assert_equals_source)


def _types(variant: str) -> Source:
    typed, keyed = variant.startswith("schema"), variant.endswith("keyed")
    found = pg_types.tables(keyed, typed)
    plain = variant.removesuffix(".keyed")
    return Source(
        pg_types.RECORDING, variant, {name.removeprefix("public."): t for name, t in found.items()},
        lambda lake, tables: pg_types.assert_equals_source(lake, plain, tables),
    )  # fmt: skip


SOURCES: Final = (
    *map(_bank, ("schema", "plain", "plain.keyed")),
    *map(_types, ("schema", "plain", "schema.keyed", "plain.keyed")),
)


class Alive:
    """A lake without the rows that a soft delete keeps."""

    def __init__(self, lake: Sandbox) -> None:
        self._lake = lake

    def rows(self, table: str) -> list[dict[str, Any]]:
        return [row for row in self._lake.rows(table) if not row.get(IS_DELETED)]


def contents(lake: Sandbox, target: str) -> dict[str, Counter[str]]:
    """A target and all tables beside it that a batch publishes, but for which batch it was."""
    found = {}
    for namespace in (NAMESPACE, changelog_namespace(NAMESPACE)):
        for name in sorted(published_tables(target)):
            if lake.catalog.table_exists((namespace, name)):
                rows = lake.catalog.load_table((namespace, name)).scan().to_arrow().to_pylist()
                found[name] = Counter(
                    repr(sorted((k, v) for k, v in row.items() if k != BATCH_ID)) for row in rows
                )
    return found


@pytest.fixture(scope="module")
def clean(
    spark: SparkSession, tmp_path_factory: pytest.TempPathFactory
) -> Callable[[Source, str], Sandbox]:
    """The lake that one batch of a whole recording makes, in every mode; made once."""
    lakes: dict[tuple[str, str, str], Sandbox] = {}

    def made(source: Source, mode: str) -> Sandbox:
        key = (source.recording.name, source.variant, mode)
        if key not in lakes:
            pipeline = source.pipeline(list(source.tables), [mode, HISTORY, APPEND])
            lake = Sandbox(spark, tmp_path_factory.mktemp("clean"), pipeline)
            lake.load(*source.recording.files_of(source.variant))
            lakes[key] = lake
        return lakes[key]

    return made


@pytest.mark.parametrize("seed", SEEDS)
def test_tables_are_the_sources_own(
    spark: SparkSession,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    clean: Callable[[Source, str], Sandbox],
    seed: int,
) -> None:
    rng = random.Random(seed)
    source = rng.choice(SOURCES)
    source.recording.require()
    names = rng.sample(list(source.tables), rng.randint(2, 4))
    mode = rng.choice((CURRENT, SOFT_DELETE))
    modes = [mode, *(m for m in (HISTORY, APPEND) if rng.random() < 0.7)]
    schedule = Schedule.drawn(rng)
    print(f"{source.recording.name} {source.variant} {names} {modes} {schedule}")

    lake = Sandbox(spark, tmp_path, source.pipeline(names, modes)).driven(monkeypatch)
    deliver(lake, topics_of(source.recording, source.variant, names), schedule)

    assert lake.quarantined() == []
    source.equals(Alive(lake), names)
    for name in names:
        ours, theirs = contents(lake, name), contents(clean(source, mode), name)
        for table, rows in ours.items():
            assert rows == theirs[table], table
