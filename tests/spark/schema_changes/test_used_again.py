"""A column that the source dropped, and another one that it added under the same name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from sluice.errors import PlanError
from sluice.operations import refolding
from sluice.result import Counts
from tests.spark.connect import BIGINT, INT, TEXT
from tests.spark.dropped_size import ADD, BETWEEN, DROP, FIRST, SINCE
from tests.spark.renamed import Row, ddl
from tests.spark.sandbox import Sandbox, total
from tests.spark.typed import event

pytestmark = pytest.mark.spark

WANTED = {1: (None, "10"), 2: ("L", None), 3: (None, None), 4: ("XL", None)}
VERSIONS = {(1, None, "10"), (2, None, "20"), (2, "L", None), (3, None, "30"), (3, None, None),
            (4, "XL", None)}  # fmt: skip


def sizes(shop: Sandbox, table: str = "orders") -> set[tuple[Any, ...]]:
    """Identity, size, and what the dropped column of that name held."""
    return {(r["id"], r["size"], r.get("size__dropped")) for r in shop.rows(table)}


@pytest.fixture
def lake(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Sandbox:
    """With a ledger; drivers run in here."""
    orders = {"key": ["id"], "modes": ["current", "history"]}
    shop = Sandbox(spark, tmp_path, {"format": "debezium", "tables": {"orders": orders}})
    return shop.driven(monkeypatch)


@pytest.mark.parametrize(
    "batches",
    [
        pytest.param([FIRST, [DROP], BETWEEN, [ADD], SINCE], id="in-order",
                     marks=pytest.mark.long),
        pytest.param([SINCE, [ADD, DROP], BETWEEN, FIRST], id="newest-first",
                     marks=pytest.mark.long),
        pytest.param([[*SINCE, *FIRST, ADD, *BETWEEN, DROP]], id="one"),
        pytest.param([[ADD], [DROP], FIRST, SINCE, BETWEEN], id="ddl-first",
                     marks=pytest.mark.long),
        pytest.param([[*FIRST, DROP], [*SINCE, ADD], BETWEEN], id="mixed", marks=pytest.mark.long),
    ],
)  # fmt: skip
def test_two_columns_of_one_name_are_kept_apart(lake: Sandbox, batches: list[list[Row]]) -> None:
    lake.run_each(*batches)
    assert sizes(lake) == {(ident, *both) for ident, both in WANTED.items()}
    assert sizes(lake, "orders__history") == VERSIONS
    assert lake.agrees()


@pytest.mark.long
def test_a_dropped_column_stays_while_no_other_has_its_name(lake: Sandbox) -> None:
    full_load = event("r", 25, 9, size=(INT, 90))
    full_load["payload"]["source"]["snapshot"] = "true"
    lake.run_each([*FIRST, full_load], [DROP, *BETWEEN])
    assert sizes(lake) == {(1, 10, None), (2, 20, None), (3, None, None), (9, 90, None)}
    assert lake.types("orders") == {"id": "int", "size": "int"}
    lake.run_each([ADD])
    assert sizes(lake) == {(1, None, 10), (2, None, 20), (3, None, None), (9, None, 90)}


@pytest.mark.long
@pytest.mark.parametrize("told_late", [True, False], ids=["late", "in-order"])
def test_the_default_of_the_second_is_not_the_firsts(lake: Sandbox, told_late: bool) -> None:
    full_load = event("r", 5, 1, size=(INT, 10))
    full_load["payload"]["source"]["snapshot"] = "true"
    statements = [DROP, ddl(20, "ALTER TABLE orders ADD size int DEFAULT 7")]
    since = [event("u", 21, 2, size=({**INT, "default": 7}, 8))]
    lake.run_each([full_load], *([since, statements] if told_late else [statements, since]))
    assert sizes(lake) == {(1, 7, 10), (2, 8, None)}
    assert lake.agrees()


TAKEN = [
    ddl(11, "ALTER TABLE orders RENAME COLUMN weight TO size"),
    ddl(20, "ALTER TABLE orders RENAME COLUMN size TO grams"),
    ddl(30, "ALTER TABLE orders ADD COLUMN size int"),
]


@pytest.mark.long
@pytest.mark.parametrize(
    "batches",
    [[[statement] for statement in (DROP, *TAKEN)], [[*reversed(TAKEN), DROP]]],
    ids=["each", "together"],
)
def test_a_dropped_name_that_a_rename_takes_over(lake: Sandbox, batches: list[list[Row]]) -> None:
    lake.run_each([event("c", 5, 1, size=(INT, 1), weight=(INT, 2))], *batches)
    (row,) = lake.rows("orders")
    assert (row["grams"], row["size"], row["size__dropped"]) == (2, None, 1)
    assert lake.agrees()


@pytest.mark.long
def test_types_that_fit_stay_what_they_are(lake: Sandbox) -> None:
    lake.run_each(FIRST, [DROP, ADD, event("u", 21, 2, size=(BIGINT, 2**40))])
    assert lake.types("orders") == {"id": "int", "size": "long", "size__dropped": "long"}
    assert sizes(lake) == {(1, None, 10), (2, 2**40, None), (3, None, 30)}


@pytest.mark.long
def test_an_add_is_undone_beneath_others(lake: Sandbox) -> None:
    _, _, added, _ = lake.run_each(FIRST, [DROP], [ADD], SINCE)
    refolding.undo_or_refold(lake.context(), added)
    assert {(i, size) for i, size, _ in sizes(lake)} == {(1, "10"), (2, "L"), (3, "30"), (4, "XL")}
    assert lake.agrees()


@pytest.mark.long
def test_columns_of_one_name_that_cannot_be_kept_apart_stop_the_batch(lake: Sandbox) -> None:
    """Before the drop is known, and where the source has a column of the name itself."""
    lake.load_records(FIRST)
    with pytest.raises(PlanError, match="do not fit together"):
        lake.load_records(SINCE)
    own = event("c", 5, 5, size=(INT, 1), size__dropped=(INT, 2))
    with pytest.raises(PlanError, match="the source has a column of that name"):
        lake.load_records([own, DROP, ADD])


@pytest.mark.long
def test_rows_with_two_columns_in_one_are_made_again(lake: Sandbox) -> None:
    """`weight` was renamed to `size` and `size` before that to `girth`, which is told last."""
    rows = [
        event("c", 1, 1, size=(TEXT, "girth"), weight=(TEXT, "size")),
        event("c", 2, 2, size=(TEXT, "deleted"), weight=(TEXT, None)),
        event("u", 15, 3, girth=(TEXT, "girth"), weight=(TEXT, "size")),
        event("u", 21, 4, girth=(TEXT, "girth"), size=(TEXT, "size")),
    ]
    rows[1]["payload"] |= {"op": "d", "before": {"id": 2}, "after": None}
    orders = {"key": ["id"], "modes": ["current", "history", "append"]}
    lake.configure(format="debezium", tables={"orders": orders})
    lake.run_each([*rows[1:], ddl(20, "ALTER TABLE orders RENAME COLUMN weight TO size")])
    earlier = ddl(10, "ALTER TABLE orders RENAME COLUMN size TO girth")
    late = event("c", 3, 3, size=(TEXT, "late"), weight=(TEXT, "late"))
    lake.write("last.jsonl", [rows[0], earlier, late])
    assert total(lake.run()) == Counts(read=3, applied=1, late=1, ignored=1)
    loaded = {(row["id"], row["girth"], row["size"]) for row in lake.rows("orders")}
    assert loaded == {(ident, "girth", "size") for ident in (1, 3, 4)}
    versions = {(row["id"], row["girth"]) for row in lake.rows("orders__history")}
    assert versions == {(1, "girth"), (3, "late"), (3, "girth"), (4, "girth")}
    assert len(lake.rows("orders__events")) == 5
    assert lake.agrees()


@pytest.mark.long
@pytest.mark.parametrize(
    ("statement", "old"),
    [("RENAME COLUMN status TO old", "old"), ("DROP COLUMN status", "status__dropped")],
    ids=["renamed", "dropped"],
)
def test_a_value_like_the_default_of_the_next_column_of_its_name(
    lake: Sandbox, statement: str, old: str
) -> None:
    """What moved the first column away comes after the default was filled in."""
    orders = {"key": ["id"], "modes": ["current", "history", "append"]}
    lake.configure(format="debezium", tables={"orders": orders})
    rows = [event("c", at, at, status=(TEXT, value)) for at, value in [(5, "new"), (6, "old")]]
    add = ddl(20, "ALTER TABLE orders ADD COLUMN status varchar(9) DEFAULT 'new'")
    since = event("c", 30, 30, status=(TEXT, "paid"))
    lake.run_each([*rows, add], [ddl(10, f"ALTER TABLE orders {statement}")], [*rows, since])
    for table in ("orders", "orders__history", "orders__events"):
        told = {(row["id"], row["status"], row[old]) for row in lake.rows(table)}
        assert told == {(5, "new", "new"), (6, "new", "old"), (30, "paid", None)}
        assert len(lake.rows(table)) == 3
    assert lake.agrees()


@pytest.mark.long
def test_a_drop_that_is_undone_leaves_one_column(lake: Sandbox) -> None:
    """Its batch is of DDL alone: nothing was written, and what came later was read by it."""
    _, drop, _ = lake.run_each(FIRST[:2], [DROP], [ddl(20, "ALTER TABLE orders ADD size int"),
                                               event("c", 22, 4, size=(INT, 99))])  # fmt: skip
    refolding.undo_or_refold(lake.context(), drop)
    assert sizes(lake) == {(1, 10, None), (2, 20, None), (4, 99, None)}
    assert lake.agrees()


@pytest.mark.long
@pytest.mark.parametrize("at_once", [True, False], ids=["at once", "in batches"])
def test_a_name_taken_over_without_a_drop_by_a_column_that_comes_later(
    lake: Sandbox, at_once: bool
) -> None:
    """The rename counts for stored rows as soon as an event has its column."""
    orders = {"key": ["id"], "modes": ["current", "history", "append"]}
    lake.configure(format="debezium", tables={"orders": orders})
    old = [event("c", 5, 1, size=(TEXT, "dropped")),
           ddl(20, "ALTER TABLE orders RENAME COLUMN girth TO size")]  # fmt: skip
    former = [event("c", 15, 2, girth=(TEXT, "x"))]
    since = [event("c", 25, 3, size=(TEXT, "y"))]
    lake.run_each(*([[*old, *former, *since]] if at_once else [old, former, since]))
    for table in ("orders", "orders__history", "orders__events"):
        told = sorted((row["id"], row["size"], row["girth"]) for row in lake.rows(table))
        assert told == [(1, None, None), (2, "x", None), (3, "y", None)]
    assert lake.agrees()


@pytest.mark.parametrize(
    "one", [pytest.param(False, id="two", marks=pytest.mark.long), pytest.param(True, id="one")]
)
def test_a_statement_that_shifts_names_does_so_once(lake: Sandbox, one: bool) -> None:
    """What its DROP means is known only when the name is used again."""
    shift = ddl(10, "ALTER TABLE orders RENAME COLUMN b TO c, RENAME COLUMN a TO b, DROP size")
    first = [event("c", n, n, a=(TEXT, f"a{n}"), b=(TEXT, f"b{n}"), size=(INT, n)) for n in (1, 2)]
    moved = event("u", 12, 2, b=(TEXT, "a3"), c=(TEXT, "b3"))
    since = event("c", 22, 4, b=(TEXT, "a4"), c=(TEXT, "b4"), size=(TEXT, "XL"))
    batches = [[*first, shift, moved], [ADD, since]]
    lake.run_each(*([[*batches[0], *batches[1]]] if one else batches))
    columns = ("id", "a", "b", "c", "size", "size__dropped")
    assert {tuple(row.get(name) for name in columns) for row in lake.rows("orders")} == {
        (1, None, "a1", "b1", None, "1"),
        (2, None, "a3", "b3", None, None),
        (4, None, "a4", "b4", "XL", None),
    }
    assert lake.agrees()
