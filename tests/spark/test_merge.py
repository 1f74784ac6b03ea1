"""The promise: a table's rows follow from the set of events, and from nothing else.

A few histories in every run; `SLUICE_PROVE=200 pytest tests/spark/test_merge.py` tries harder.
"""

from __future__ import annotations

import itertools
import os
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, example, given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from tests import reference
from tests.reference import Change, Row, row
from tests.spark.histories import (
    DELIVERIES,
    PLACEHOLDER,
    STEPS,
    Delivery,
    KeyedSource,
    KeylessSource,
    as_rows,
    debezium,
    drawn,
    of_table,
    play,
    sources,
)
from tests.spark.sandbox import Sandbox, total

pytestmark = pytest.mark.spark

PROVE = int(os.environ.get("SLUICE_PROVE", "0"))
KEYED = {"key": ["id"], "columns": {"id": "int", "amount": "decimal(10,2)"}}
TABLES = {
    s.name: KEYED if isinstance(s, KeyedSource) else {"key": [], "columns": {"x": "int"}}
    for s in sources()
}
NUMBERS = itertools.count(1)


@pytest.fixture(scope="module")
def lake(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Sandbox:
    """One lake for all examples; each has a database of its own in it."""
    pipeline = {
        "format": "debezium", "table_name": "{database}_{table}", "tables": TABLES,
    }  # fmt: skip
    return Sandbox(spark, tmp_path_factory.mktemp("promise"), pipeline)


@settings(
    max_examples=max(PROVE, 1),
    database=None,
    deadline=None,
    phases=[Phase.explicit, Phase.generate, Phase.shrink] if PROVE else [Phase.explicit],
    suppress_health_check=list(HealthCheck),
)
@example(*drawn(1, Delivery(seed=1, batches=3, given_up=1, retried_last=True)))
@example(*drawn(2, Delivery(seed=2, batches=2, given_up=0, retried_last=False)))
@given(st.lists(STEPS, min_size=len(TABLES), max_size=len(TABLES)), DELIVERIES)
def test_rows_depend_on_the_set_of_events_alone(
    lake: Sandbox, steps: list[Any], delivery: Delivery
) -> None:
    played = play(steps)
    log = [change for source in played for change in source.log]
    database = f"db{next(NUMBERS)}"
    deliver(lake, database, log, delivery)
    for source in played:
        wanted = meaning(log, source.name)
        assert wanted == sorted(map(reference.row, _rows_of(source)), key=repr)
        assert shown(lake, database, source.name) == wanted, source.name


def deliver(lake: Sandbox, database: str, log: list[Change], delivery: Delivery) -> None:
    """Land and load a log as the delivery says."""
    batches = [
        [lake.write(f"{database}/{at}/{n}.jsonl", records) for n, records in enumerate(files)]
        for at, files in enumerate(delivery.split(log, database))
    ]
    for at, published in delivery.turns(len(batches)):
        result = (lake.load if published else lake.stage)(*batches[at])
        assert total(result).balanced


def _rows_of(source: Any) -> list[dict[str, Any]]:
    rows = list(source.rows.values()) if isinstance(source, KeyedSource) else source.rows
    return [_spelled(row) for row in rows]


def meaning(log: list[Change], table: str) -> list[Row]:
    """What the reference makes of a table's changes."""
    mine = of_table(log, table)
    rows = reference.keyed(mine, "id") if "id" in TABLES[table]["columns"] else (
        reference.keyless(mine))  # fmt: skip
    return sorted((reference.row(_spelled(dict(row))) for row in rows), key=repr)


def _spelled(row: dict[str, Any]) -> dict[str, Any]:
    """Amounts with the two places that their column has."""
    amount = row.get("amount")
    return row if amount is None else row | {"amount": f"{Decimal(str(amount)):.2f}"}


def shown(lake: Sandbox, database: str, table: str) -> list[Row]:
    """What people see."""
    return as_rows(lake.rows(f"{database}_{table}"))


def test_a_late_truncate_gives_deletes_their_rows_back(lake: Sandbox) -> None:
    """A delete from after the TRUNCATE has to take a row from after it, whatever came first."""
    source = KeylessSource("keyless")
    equal = {"x": 1, "text": "a"}
    for op in ("c", "t", "c", "c", "d"):
        source.write(op, **{"t": {}, "c": {"after": equal}, "d": {"before": equal}}[op])
    records = [debezium(change, "late") for change in source.log]
    lake.load_records([r for r in records if r["op"] != "t"])
    lake.load_records([r for r in records if r["op"] == "t"])
    assert shown(lake, "late", "keyless") == meaning(source.log, "keyless") == [row(equal)]


def test_a_tie_is_settled_alike_in_one_batch_and_in_two(lake: Sandbox) -> None:
    """Different contents at one position: the same one wins, together or one after the other."""
    tied = [
        [Change("keyed", "c", (1, key), after=row({"id": key, "text": f"{half} {key}"}))
         for key in range(12)]
        for half in ("one", "other")
    ]  # fmt: skip
    lake.load_records([debezium(change, "together") for half in tied for change in half])
    for half in tied:
        lake.load_records([debezium(change, "apart") for change in half])
    assert shown(lake, "together", "keyed") == shown(lake, "apart", "keyed")


def test_a_late_truncate_takes_what_later_rows_were_completed_with(lake: Sandbox) -> None:
    """A value that an update left out is not taken over from before a TRUNCATE."""
    whole = Change("keyed", "c", (1, 1), after=row({"id": 1, "text": "old", "doc": "before"}))
    sent = {"id": 1, "text": "new", "doc": PLACEHOLDER}
    update = Change("keyed", "u", (1, 3), after=row(sent))
    lake.load_records([debezium(change, "emptied") for change in (whole, update)])
    lake.load_records([debezium(Change("keyed", "t", (1, 2)), "emptied")])
    (left,) = lake.rows("emptied_keyed")
    assert (left["text"], left["doc"]) == ("new", None)
