"""The promise for events that no source could have logged: any set of them has one meaning.

There are few positions, so that different events share one: updates and deletes of one key,
changes of a key from and to the same rows, TRUNCATEs beside them. Nothing says what such a table
should hold. So tables loaded in one batch are compared with those of several batches, in which some
events come twice.
"""

from __future__ import annotations

import itertools
import json
import random
from collections import Counter
from collections.abc import Iterator
from typing import Any, Final

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from tests.spark.columns import batches
from tests.spark.proving import proved
from tests.spark.sandbox import Sandbox, driven_here

pytestmark = [pytest.mark.spark, pytest.mark.long]

NUMBERS = itertools.count(1)
UNSENT: Final = "__debezium_unavailable_value"
IDS, PLACES, EVENTS, GROUPS = 3, 6, 12, 30
MODES: Final = {"keyed": ["current", "history"], "soft": ["soft_delete", "history"]}
TARGETS: Final = [*MODES, *(f"{name}__history" for name in MODES)]
Record = dict[str, Any]


def pipeline() -> dict[str, Any]:
    keyed: dict[str, Any] = {"key": ["id"], "columns": {"id": "int", "n": "int", "doc": "string"}}
    tables = {name: keyed | {"modes": modes} for name, modes in MODES.items()}
    return {"format": "debezium", "table_name": "{database}_{table}", "tables": tables}


def events(rng: random.Random) -> list[Record]:
    """Changes at few places, each drawn without regard to the others: of rows in groups, for a key
    changes within its own alone, and sometimes of the whole table."""
    log: list[Record] = []
    for name in MODES:
        log += [_change(rng, name, group) for group in range(GROUPS) for _ in range(EVENTS)]
        log += [_logged(rng, name, "t", None, None) for _ in range(rng.choice([0, 0, 1, 2]))]
    return log


def _change(rng: random.Random, table: str, group: int) -> Record:
    op, before, after = rng.choice("cuuuud"), _row(rng, group), _row(rng, group)
    if op == "d":
        return _logged(rng, table, op, before, None)
    old = {"id": before["id"]} if op == "u" and rng.random() < 0.6 else None
    return _logged(rng, table, op, old, after)


def _logged(rng: random.Random, table: str, op: str, before: Any, after: Any) -> Record:
    place = rng.randrange(1, PLACES + 1)
    source = {"connector": "postgresql", "schema": "s", "table": table, "lsn": place,
              "sequence": json.dumps([str(place)] * 2), "ts_ms": 10**12 + place}  # fmt: skip
    return {"op": op, "source": source, "before": before, "after": after}


def _row(rng: random.Random, group: int) -> Record:
    doc = rng.choice([UNSENT, UNSENT, "a", "b", None])
    return {"id": 10 * group + rng.randrange(IDS), "n": rng.randrange(3), "doc": doc}


def of_database(record: Record, database: str) -> Record:
    return record | {"source": record["source"] | {"db": database}}


@pytest.fixture(scope="module")
def lake(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sandbox]:
    """One lake for all examples, each with two databases of its own; drivers run in here."""
    with driven_here(
        Sandbox(spark, tmp_path_factory.mktemp("contradictory"), pipeline())
    ) as sandbox:
        yield sandbox


def loaded(lake: Sandbox, database: str, dealt: list[list[Record]]) -> dict[str, Counter[Any]]:
    """Load batches of a database; what its tables hold then."""
    for at, batch in enumerate(dealt):
        records = [of_database(record, database) for record in batch]
        lake.write(f"{database}/{at}.jsonl", records)
        lake.run()
    return {name: _held(lake, f"{database}_{name}") for name in TARGETS}


def _held(lake: Sandbox, table: str) -> Counter[Any]:
    return Counter(tuple(sorted(row.items(), key=str)) for row in lake.rows(table))


@proved
@example(1)
@given(st.integers(0, 2**32))
def test_contradictory_events_depend_on_their_set_alone(lake: Sandbox, seed: int) -> None:
    rng, number = random.Random(seed), next(NUMBERS)
    log = events(rng)
    dealt = batches(log, seed, rng.randrange(2, 5), rng.random() < 0.5)
    at_once = loaded(lake, f"once{number}", [log])
    assert all(at_once[f"{name}__history"] for name in MODES)
    assert loaded(lake, f"dealt{number}", dealt) == at_once
