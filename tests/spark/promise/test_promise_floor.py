"""The promise together with maintenance: expiry removes nothing from the target and the open
versions.

Rows of one table change, leave a large value out, are deleted and come again. Between the batches
maintenance expires everything so far, and the history is switched off and on. Later changes are
above the floor, some of them twice, in any order, or in that of the source: then rows also change
their keys, by two records that come in one batch (exception 8 of the promise).
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any, Final

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from tests.spark.proving import proved
from tests.spark.shop import Shop, event

pytestmark = [pytest.mark.spark, pytest.mark.long]

UNSENT: Final = "__debezium_unavailable_value"
IDS, EVENTS, BATCHES = 3, 7, 3

Rows = dict[int, tuple[str, str]]


def pipeline(history: bool) -> dict[str, Any]:
    modes = ["current", "history"] if history else ["current"]
    table = {"key": ["id"], "columns": {"id": "int"}, "modes": modes}
    return {"format": "debezium", "tables": {"orders": table}}


def changes(rng: random.Random, rows: Rows, first: int, in_order: bool) -> Iterator[str]:
    """Changes of the source from a position on, each of one or two lines; `rows` is what it has
    then."""
    for position in range(first, first + EVENTS):
        ident, title = rng.randrange(IDS), f"title {position}"
        row = {"id": ident, "title": title, "body": f"body {position}"}
        free = [other for other in range(IDS) if other not in rows]
        if in_order and ident in rows and free and rng.random() < 0.5:
            new = rng.choice(free)
            rows[new] = (title, rows.pop(ident)[1])
            old = event("d", "orders", position, **row | {"body": UNSENT})
            moved = event("c", "orders", position, id=new, title=title, body=UNSENT)
            yield f"{old}\n{moved}"
        elif ident in rows and rng.random() < 0.15:
            del rows[ident]
            yield event("d", "orders", position, **row)
        elif ident in rows and rng.random() < 0.7:
            rows[ident] = (title, rows[ident][1])
            yield event("u", "orders", position, **row | {"body": UNSENT})
        else:
            known, rows[ident] = ident in rows, (title, f"body {position}")
            yield event("u" if known else "c", "orders", position, **row)


def batches(rng: random.Random, log: list[str], in_order: bool) -> list[list[str]]:
    """The changes in some batches, each with some of the others' again; if `in_order`, with some of
    earlier ones."""
    ends = sorted(rng.randrange(len(log) + 1) for _ in range(BATCHES - 1))
    dealt: list[list[str]] = [[] for _ in range(BATCHES)]
    for at, change in enumerate(log):
        own = sum(end <= at for end in ends) if in_order else rng.randrange(BATCHES)
        for number in range(own if in_order else 0, BATCHES):
            if number == own or rng.random() < 0.2:
                dealt[number].append(change)
    for batch in dealt:
        rng.shuffle(batch)
    return [batch for batch in dealt if batch]


@proved
@example(7)
@given(st.integers(0, 2**32))
def test_expiry_takes_no_row_and_no_open_version_away(
    spark: SparkSession, tmp_path_factory: pytest.TempPathFactory, seed: int
) -> None:
    rng, rows = random.Random(seed), Rows()
    shop = Shop(spark, tmp_path_factory.mktemp("floor"), pipeline(False))
    segments = rng.choice([2, 2, 3])
    for segment in range(segments):
        if segment:
            shop.maintain()
        in_order = rng.random() < 0.5
        log = list(changes(rng, rows, 100 * (segment + 1), in_order))
        dealt = batches(rng, log, in_order)
        for number, batch in enumerate(dealt, start=1):
            last = segment + 1 == segments and number == len(dealt)
            shop.configure(**pipeline(last or rng.random() < 0.5))
            shop.run(*batch)
    wanted = sorted((ident, body, title) for ident, (title, body) in rows.items())
    assert sorted((r["id"], r["body"], r["title"]) for r in shop.rows("orders")) == wanted
    open_ones = [row for row in shop.rows("orders__history") if row["_is_current"]]
    assert sorted((r["id"], r["body"], r["title"]) for r in open_ones) == wanted
