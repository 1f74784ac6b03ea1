"""Random schedules of a recording: which records come in which file of which batch, how often, and
what an operator undoes in between."""

from __future__ import annotations

import gzip
import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from sluice.operations import refolding
from sluice.operations.held_files import release
from tests.spark.recordings import Recording
from tests.spark.sandbox import Sandbox

# Of ten records one comes again.
_SENT: Final = (1,) * 18 + (2, 3)
_FILES: Final = 2


@dataclass(frozen=True)
class Schedule:
    """How a recording is delivered.

    `newest_first`: the records of a batch are older than all of those before it, except for
    repetitions. `given_up`: the batch that is loaded and at first not published. `undone`: the
    batch that is rolled back when all are published, and loaded again.
    """

    seed: int
    batches: int
    newest_first: bool
    given_up: int
    undone: int | None

    @staticmethod
    def drawn(rng: random.Random) -> Schedule:
        """Any of them."""
        batches = rng.randint(2, 5)
        undone = rng.choice((None, rng.randrange(batches)))
        return Schedule(
            rng.getrandbits(32), batches, rng.random() < 0.3, rng.randint(0, batches), undone
        )

    def split(self, topics: Sequence[Sequence[str]]) -> list[list[list[str]]]:
        """Batches of files of records, each record once at least."""
        rng = random.Random(self.seed)
        batches: list[list[list[str]]] = [[[] for _ in range(_FILES)] for _ in range(self.batches)]
        for records in topics:
            for at, record in enumerate(records):
                age = (len(records) - 1 - at) * self.batches // len(records)
                for sent in range(rng.choice(_SENT)):
                    first = self.newest_first and not sent
                    batch = batches[age] if first else rng.choice(batches)
                    rng.choice(batch).append(record)
        for batch in batches:
            for file in batch:
                rng.shuffle(file)
        return batches


def topics_of(recording: Recording, variant: str, tables: Sequence[str]) -> list[list[str]]:
    """The records of some tables, of each in the order in which the engine told them."""
    files = recording.files_of(variant)
    root = recording.folder / f"landing.{variant}"
    return [
        [
            line
            for file in files
            if file.key.split("/")[0].endswith(f".{table}")
            for line in gzip.decompress((root / file.key).read_bytes()).decode().split("\n")
            if line
        ]
        for table in tables
    ]


def deliver(lake: Sandbox, topics: Sequence[Sequence[str]], schedule: Schedule) -> None:
    """Land and publish a recording as the schedule says, by the stages that `sluice run` has."""
    published = []
    for at, batch in enumerate(schedule.split(topics)):
        files = [lake.write(f"{at:02}-{n}.jsonl", file) for n, file in enumerate(batch) if file]
        if at == schedule.given_up:
            lake.stage(*files)
        published.append(lake.run().batch_id)
    if schedule.undone is not None:
        refolding.undo_or_refold(lake.context(), published[schedule.undone])
        release(lake.context(), published[schedule.undone])
        lake.run()
