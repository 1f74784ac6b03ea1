"""How the changes of a source are delivered: in which files and batches, how often,
in what order."""

from __future__ import annotations

import itertools
import random
from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from typing import Any

from hypothesis import strategies as st

from sluice.landing.inspection import Inspector
from sluice.landing.reading import reading_of
from sluice.manifest import SourceFile
from sluice.objects.store import LocalStore
from tests.reference import Change, Row
from tests.spark.dialects import debezium
from tests.spark.dialects.base import Dialect
from tests.spark.histories import as_rows
from tests.spark.sandbox import Sandbox, total

File = list[Any]
Batch = dict[str, File]


@dataclass(frozen=True)
class Delivery:
    """A way to deliver a log: the number of batches, and which of them is given up at its first
    turn.

    `retried_last`: the batch that was given up is loaded after all others, else at once.
    `newest_first`: the changes of a batch are older than all of those before it, except for
    repetitions.
    """

    seed: int
    batches: int
    given_up: int
    retried_last: bool
    newest_first: bool = False

    def split(self, log: list[Change], dialect: Dialect, database: str) -> list[Batch]:
        """Batches of named files: every change at least once, in any order, some in several."""
        rng = random.Random(self.seed)
        spread = self._cut if dialect.by_arrival else self._shuffled
        parts = spread(log, dialect, database, rng)
        batches: list[Batch] = [{} for _ in range(self.batches)]
        for at, part in enumerate(parts):
            for name, file in _files(part, at, dialect, database).items():
                (batches[at // 2] if not dialect.by_arrival else rng.choice(batches))[name] = file
        return [batch for batch in batches if batch]

    def _shuffled(
        self, log: list[Change], dialect: Dialect, database: str, rng: random.Random
    ) -> list[File]:
        """Two files for each batch, every record in one at random, some records in several."""
        files: list[File] = [[] for _ in range(2 * self.batches)]
        places = {change.place for change in log}
        ages = {place: age for age, place in enumerate(sorted(places, reverse=True))}
        for change in log:
            turn = ages[change.place] * len(files) // len(ages)
            for sent in range(rng.choice((1, 1, 1, 2, 3))):
                for record in dialect.tell(change, database, sent):
                    file = files[turn] if self.newest_first and not sent else rng.choice(files)
                    file.append(record)
        for record in dialect.non_row_records(database):
            rng.choice(files).append(record)
        for file in files:
            rng.shuffle(file)
        return files

    def _cut(
        self, log: list[Change], dialect: Dialect, database: str, rng: random.Random
    ) -> list[File]:
        """The log cut into files whose order is the only order of the changes."""
        records = [record for change in log for record in dialect.tell(change, database, 0)]
        for record in dialect.non_row_records(database):
            records.insert(rng.randrange(len(records)), record)
        cuts = sorted(rng.randrange(len(records)) for _ in range(2 * self.batches))
        ends = [0, *cuts, len(records)]
        return [records[a:b] for a, b in itertools.pairwise(ends)]

    def turns(self, batches: int) -> Iterator[tuple[int, bool]]:
        """Which batch is loaded at which turn, and whether it is published."""
        given_up = [self.given_up] if self.given_up < batches else []
        for at in range(batches):
            if at in given_up:
                yield at, False
            if at not in given_up or not self.retried_last:
                yield at, True
        if self.retried_last:
            yield from ((at, True) for at in given_up)


def _files(records: File, at: int, dialect: Dialect, database: str) -> Batch:
    """What is written at one time, in the files that the dialect makes of it."""
    files: Batch = {}
    for record in records:
        files.setdefault(f"{database}/{dialect.file(record, at)}", []).append(record)
    return files


# One batch hides nearly every mistake of the merge, so there are two at least.
DELIVERIES = st.builds(
    Delivery,
    st.integers(0, 2**32),
    st.integers(2, 4),
    st.integers(0, 4),
    st.booleans(),
    st.booleans(),
)


def deliver(
    lake: Sandbox, dialect: Dialect, database: str, log: list[Change], delivery: Delivery
) -> None:
    """Land and load a log as the delivery says."""
    batches = delivery.split(log, dialect, database)
    landed = [[written(lake, dialect, *file) for file in batch.items()] for batch in batches]
    non_row_records = dialect.non_row_records(database)
    for at, published in delivery.turns(len(batches)):
        result = (lake.load if published else lake.stage)(*landed[at])
        assert total(result).balanced
        ignored = sum(record in non_row_records for file in batches[at].values() for record in file)
        assert (total(result).quarantined, total(result).ignored) == (0, ignored)


def written(lake: Sandbox, dialect: Dialect, name: str, file: File) -> SourceFile:
    """Land one file as the dialect's writers make it."""
    if dialect.content is not None:
        return _looked_at(lake, name, dialect.content(file))
    if dialect.write is None:
        return lake.write(name, file)
    path = lake.landing / name
    path.parent.mkdir(parents=True, exist_ok=True)
    return replace(dialect.write(path, file), key=name)


def _looked_at(lake: Sandbox, name: str, content: bytes) -> SourceFile:
    """What landing makes of an object, of which it may not refuse anything."""
    store = LocalStore(lake.landing)
    store.put(name, content)
    staging = LocalStore(lake.root / "staged")
    inspector = Inspector(store, staging, "", reading_of(lake.pipeline))
    look = inspector.inspect(store.describe(name))
    assert look.rejects == ()
    return look.file


def load(lake: Sandbox, name: str, changes: list[Change]) -> str:
    """Load and publish one file as one batch, as `sluice run` does."""
    lake.write(name, [debezium.event(change, "db") for change in changes])
    return lake.run().batch_id


def shown(lake: Sandbox, database: str, table: str, besides: Collection[str] = ()) -> list[Row]:
    """The rows that people see, without columns that are not the source's."""
    rows = lake.rows(f"{database}_{table}")
    return as_rows([{k: v for k, v in row.items() if k not in besides} for row in rows])
