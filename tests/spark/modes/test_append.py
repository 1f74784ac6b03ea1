"""Mode append: every event once, in the source's order, whatever comes late, twice or goes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from sluice import names
from sluice.errors import PlanError
from sluice.operations import refolding
from tests import reference
from tests.reference import Change, Event, row
from tests.spark import renamed
from tests.spark.deliveries import load
from tests.spark.dialects import debezium
from tests.spark.histories import TABLES, as_rows, history, meaning, of_table, spelled
from tests.spark.sandbox import Sandbox

pytestmark = pytest.mark.spark

MODES = {"keyed": "current", "partial": "soft_delete", "keyless": "current"}
Row = dict[str, Any]


@pytest.fixture
def lake(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Sandbox:
    """The tables of the property tests with all of their events; drivers run in here."""
    tables = {n: t | {"modes": [MODES[n], "append"]} for n, t in TABLES.items()}
    return Sandbox(spark, tmp_path, {"format": "debezium", "tables": tables}).driven(monkeypatch)


def refuse_difference(lake: Sandbox, log: list[Change], tables: Iterable[str] = TABLES) -> None:
    """The events of every table are these changes, in their order."""
    for table in tables:
        key = next(iter(TABLES[table]["key"]), None)
        wanted = reference.events(of_table(log, table), key)
        assert events_of(lake, table, key) == by_place(wanted), table


def by_place(events: list[Event]) -> list[Counter[Event]]:
    """Events in the source's order; those at one place and of one kind have none among them."""
    places = sorted({(e.place, not e.gone) for e in events})
    numbers = {place: number for number, place in enumerate(p for p in places if p[0][0])}
    found: dict[int, Counter[Event]] = {}
    for event in events:
        number = numbers.get((event.place, not event.gone), -1)
        sent = row(spelled(dict(event.row)))
        found.setdefault(number, Counter()).update([replace(event, place=(0, number), row=sent)])
    return [found[number] for number in sorted(found)]


def events_of(lake: Sandbox, table: str, key: str | None) -> list[Counter[Event]]:
    """The table's events in the reference's terms."""
    rows = lake.rows(f"{table}__events", metadata=True)
    places = sorted({place(r) for r in rows if not snapshot(r)})
    found: dict[int, Counter[Event]] = {}
    for r in rows:
        number = -1 if snapshot(r) else places.index(place(r))
        found.setdefault(number, Counter()).update([event(r, key, number)])
    return [found[number] for number in sorted(found)]


def snapshot(r: Row) -> bool:
    return bool(r["_position"].split(".")[1] == "0")


def place(r: Row) -> tuple[tuple[str, ...], bool]:
    """Position and role; that of a table without a key has a hash of the content between them."""
    *numbers, _ = r["_position"].split(".")
    return tuple(numbers[:4]), r["_op"] not in ("delete", "truncate")


def event(r: Row, key: str | None, number: int) -> Event:
    gone = r["_op"] in ("delete", "truncate")
    data = {n: v for n, v in r.items() if n not in names.RESERVED_COLUMNS}
    if gone and (key is not None or r["_op"] == "truncate"):
        silent = {n: v for n, v in data.items() if n != key or r["_op"] == "truncate"}
        assert set(silent.values()) == {None}
        data = {} if r["_op"] == "truncate" else {str(key): data[str(key)]}
    (said,) = as_rows([data])
    return Event((0, number), gone, said, tuple(r["_absent"] or ()))


@pytest.mark.parametrize(
    "tables",
    [("keyed", "keyless"), pytest.param(("partial",), marks=pytest.mark.long)],
    ids="-".join,
)
def test_events_are_the_set_of_changes(lake: Sandbox, tables: tuple[str, ...]) -> None:
    """Two parts in no order, the second with some of the first."""
    log, parts = history(seed=2, parts=2)
    first, second = ([c for name in tables for c in of_table(part, name)] for part in parts)
    load(lake, "0.jsonl", first)
    load(lake, "1.jsonl", [*second, *first[::3]])
    refuse_difference(lake, log, tables)
    # Else Spark's streams would stop.
    operations = {o for name in tables for o in operations_on(lake, f"{name}__events")}
    assert operations == {"append"}


def operations_on(lake: Sandbox, table: str) -> list[str]:
    found = lake.spark.table(f"lake.shop.{table}.snapshots").select("operation").collect()
    return [one["operation"] for one in found]


@pytest.mark.long
def test_events_of_a_batch_are_undone_beneath_another(lake: Sandbox) -> None:
    _, parts = history(seed=2, parts=2)
    second = [*parts[1], *parts[0][::3]]
    first = load(lake, "0.jsonl", parts[0])
    load(lake, "1.jsonl", second)
    assert lake.agrees()
    refolding.undo_or_refold(lake.context(), first)
    refuse_difference(lake, second)
    assert lake.agrees()
    for table in ("keyed", "keyless"):
        assert as_rows(lake.rows(table)) == meaning(second, table)


@pytest.mark.long
def test_events_of_a_batch_are_undone_beneath_a_rename(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop = renamed.shop_of(spark, tmp_path, modes=["current", "append"])
    shop.driven(monkeypatch)
    stays = renamed.event("c", 1, id=1, title="one")
    undone = renamed.event("c", 2, id=2, title="undone")
    batches = []
    for n, events_of in enumerate(([stays], [undone], [renamed.ddl(10)])):
        shop.write(f"{n}.jsonl", events_of)
        batches.append(shop.run().batch_id)
    refolding.undo_or_refold(shop.context(), batches[1])
    assert [(r["id"], r["name"]) for r in shop.rows("orders__events")] == [(1, "one")]
    assert shop.agrees()


@pytest.mark.long
def test_events_are_made_again(lake: Sandbox) -> None:
    log, parts = history(seed=3, parts=2)
    for at, part in enumerate(parts):
        load(lake, f"{at}.jsonl", part)
    for name in ("pipeline", "batch", "attempt"):  # what the last load's session signs by
        lake.spark.conf.unset(f"spark.sql.iceberg.snapshot-property.sluice.{name}")
    lake.spark.sql("DELETE FROM lake.shop.keyed__events WHERE pmod(id, 2) = 0")
    lake.spark.sql("UPDATE lake.shop.keyless__events SET x = 77 WHERE pmod(x, 2) = 0")
    assert not lake.agrees()
    refolding.rebuild(lake.context())
    refuse_difference(lake, log)
    assert lake.agrees()
    assert refolding.rebuild(lake.context(), "keyed") == []


@pytest.mark.long
def test_a_mode_that_was_switched_off_catches_up(lake: Sandbox) -> None:
    """It begins with all that is published, and has all again where it was left alone for long."""
    log, parts = history(seed=4, parts=4)
    whole = lake.pipeline.model_dump()["tables"]
    off = {name: table | {"modes": [MODES[name]]} for name, table in whole.items()}
    for at, (tables, part) in enumerate(zip((off, whole, off, whole), parts, strict=True)):
        lake.configure(format="debezium", tables=tables)
        load(lake, f"{at}.jsonl", part)
    refuse_difference(lake, log)
    assert lake.agrees()


def test_the_name_of_another_table_is_refused(lake: Sandbox) -> None:
    """Of a source's own table of that name."""
    lake.configure(format="debezium", tables={"keyed__events": TABLES["keyed"]})
    change = {"id": 1, "text": "", "amount": "1", "doc": None}
    source = {"connector": "postgresql", "db": "d", "schema": "s", "table": "keyed__events"}
    lake.load_records([{"op": "c", "after": change, "source": source | {"lsn": 1}}])
    _, (changes,) = history(seed=2, parts=1)
    tables = {"keyed": TABLES["keyed"] | {"modes": ["current", "append"]}}
    lake.configure(format="debezium", tables=tables)
    with pytest.raises(PlanError, match=r"keyed__events, which is another table; take append out"):
        lake.load_records([debezium.event(change, "db") for change in changes])
