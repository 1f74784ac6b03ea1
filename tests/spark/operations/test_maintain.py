"""maintain: the rows stay, the files become few, and the last batches can still be undone."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from pyiceberg.exceptions import CommitFailedException
from pyspark.sql import SparkSession

from sluice.config.maintenance import Maintenance
from sluice.errors import RollbackRefusedError, TerminalError, TransientError
from sluice.ledger import tables as ledger_tables
from sluice.names import LEDGER_NAMESPACE, PROP_MAINTAINED
from sluice.operations.undo import undo_batch
from spark_jobs.lake.table_id import TableId
from spark_jobs.lake.tables import Lake
from spark_jobs.maintaining import procedures
from tests.spark.shop import Shop, event, ids, orders, steps, tags

pytestmark = pytest.mark.spark

ORDERS = {"key": ["id"], "columns": {"id": "int", "status": "string"}}
PIPELINE = {
    "format": "debezium",
    "tables": {
        "public.orders": {**ORDERS, "modes": ["current", "history", "append"]},
        "public.items": ORDERS,
    },
    "maintenance": {"small_files": 2, "delete_share": 0.1},
    "keep_tags": 2,
}
OF_LEDGER = (
    ledger_tables.FILES, ledger_tables.BATCHES, ledger_tables.PUBLICATIONS,
    ledger_tables.QUARANTINE, ledger_tables.TRANSACTIONS,
)  # fmt: skip


@pytest.fixture
def shop(spark: SparkSession, tmp_path: Path) -> Shop:
    return Shop(spark, tmp_path, PIPELINE)


def four_batches(shop: Shop) -> list[str]:
    """Rows 1 and 3, in four batches: an insert each, updates and deletes of earlier ones."""
    batches = [
        orders(("c", 10, 1, "new"), ("c", 11, 2, "new")),
        orders(("u", 20, 1, "paid"), ("c", 21, 3, "new")),
        orders(("d", 30, 2, "new"), ("c", 31, 4, "new")),
        orders(("u", 40, 3, "sent"), ("d", 41, 4, "new")),
    ]
    return [shop.run(*batch).batch_id for batch in batches]


ROWS = [(1, "paid"), (3, "sent")]


def test_files_become_few_and_the_last_batches_can_be_undone(shop: Shop) -> None:
    first, second, third, fourth = four_batches(shop)
    before = shop.table("orders")
    done = shop.maintain()
    after = shop.table("orders")
    assert shop.seen() == ROWS
    assert (len(shop.rows("orders__history")), len(shop.rows("orders__events"))) == (6, 8)
    assert {"tags", "data files", "snapshots"} <= steps(done, "shop.orders")
    assert tags(after) == {third, fourth}
    assert after.inspect.files().num_rows == 1  # one data file, and no deletes
    assert before.metadata.refs[f"batch-{first}"].snapshot_id not in ids(after)
    assert before.metadata.refs[f"batch-{second}"].snapshot_id in ids(after)  # the third's base
    assert done.left == ()
    shop.maintain()  # whatever is left to do, the promise holds again and again

    undo_batch(shop.context(), fourth)
    assert shop.seen() == [(1, "paid"), (3, "new"), (4, "new")]
    undo_batch(shop.context(), third)
    assert shop.seen() == [(1, "paid"), (2, "new"), (3, "new")]


@pytest.mark.long
def test_a_load_after_maintenance_goes_on_from_it(shop: Shop) -> None:
    four_batches(shop)
    shop.maintain()
    last = shop.run(*orders(("u", 50, 1, "sent"), ("u", 15, 3, "late"), ("c", 22, 2, "late")))
    assert shop.seen() == [(1, "sent"), (3, "sent")]
    shop.maintain()
    undo_batch(shop.context(), last.batch_id)
    assert shop.seen() == ROWS


@pytest.mark.long
def test_a_batch_that_was_followed_in_one_table_is_undone_in_none(shop: Shop) -> None:
    """Behind maintenance the next batch's base is no batch's head, so the ledger cannot tell."""
    shop.run(*orders(("c", 1, 1, "new"), ("c", 2, 2, "new")))
    both = shop.run(*orders(("u", 5, 1, "paid")), event("c", "items", 6, id=1, status="new"))
    shop.maintain()
    shop.run(*orders(("u", 7, 1, "sent")))
    shown = shop.seen(), shop.seen("items")
    with pytest.raises(RollbackRefusedError):
        undo_batch(shop.context(), both.batch_id)
    assert (shop.seen(), shop.seen("items")) == shown


@pytest.mark.long
def test_dry_run_lists_the_steps_and_changes_nothing(shop: Shop) -> None:
    four_batches(shop)
    before = everything(shop.root / "warehouse"), everything(shop.root / "lake.db")
    planned = shop.maintain(dry_run=True)
    assert (everything(shop.root / "warehouse"), everything(shop.root / "lake.db")) == before
    done = shop.maintain()
    # Rewriting data files may leave nothing to do for the delete files.
    planned_steps, done_steps = steps(planned, "shop.orders"), steps(done, "shop.orders")
    assert done_steps <= planned_steps <= done_steps | {"delete files"}


def everything(path: Path) -> dict[str, bytes]:
    """The content of every file below a folder, or of one file."""
    found = [path] if path.is_file() else [p for p in path.rglob("*") if p.is_file()]
    return {str(p): p.read_bytes() for p in found}


@pytest.mark.long
def test_only_old_files_that_no_snapshot_has_are_orphans(shop: Shop) -> None:
    shop.run(*orders(("c", 1, 1, "new")))
    folder = shop.root / "warehouse" / "shop" / "orders" / "data"
    old, young = folder / "dead-attempt.parquet", folder / "being-written.parquet"
    for path in (old, young):
        path.write_bytes(b"x")
    a_week_passes(folder.parent)
    os.utime(young)
    shop.maintain()
    assert not old.exists()
    assert young.exists()
    assert shop.seen() == [(1, "new")]


@pytest.mark.long
def test_files_of_a_renamed_table_are_no_orphans_of_the_next_of_its_name(shop: Shop) -> None:
    shop.run(*orders(("c", 1, 1, "new")))
    for statement in (
        "ALTER TABLE lake.shop.orders RENAME TO shop.orders_old",
        "CREATE TABLE lake.shop.orders TBLPROPERTIES ('sluice.pipeline' = 'p') "
        "AS SELECT * FROM lake.shop.orders_old",
    ):
        shop.spark.sql(statement)
    a_week_passes(shop.root / "warehouse" / "shop" / "orders")
    done = shop.maintain().steps
    assert shop.seen() == shop.seen("orders_old") == [(1, "new")]
    (told,) = [s.detail for s in done if (s.table, s.step) == ("shop.orders", "orphans")]
    assert "shop.orders_old" in told


def a_week_passes(folder: Path) -> None:
    week_ago = time.time() - 7 * 86_400
    for path in (*(folder / "data").iterdir(), *(folder / "metadata").iterdir()):
        os.utime(path, (week_ago, week_ago))


@pytest.mark.long
def test_tables_left_for_lack_of_time_come_first_in_the_next_run(shop: Shop) -> None:
    four_batches(shop)
    stopped = shop.maintain(proceed=one_more(shop))
    done = [name for name in listed(shop) if name not in stopped.left]
    assert len(done) == 1
    assert stopped.left
    resumed = shop.maintain()
    assert resumed.left == ()
    assert steps(resumed, done[0]) <= {"orphans"}
    assert shop.seen() == ROWS


@pytest.mark.long
def test_a_budget_that_is_always_too_short_gets_to_the_ledger_too(shop: Shop) -> None:
    four_batches(shop)
    for _ in range(len(every(shop))):
        if len(listed(shop)) == len(every(shop)):
            break
        shop.maintain(proceed=one_more(shop))
    assert listed(shop) == every(shop)


def test_a_table_whose_step_fails_keeps_no_other_waiting(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    for at in (1, 2):
        shop.run(*orders(("c", at, at, "new")))
    rewrite = procedures.rewrite_data

    def fails(spark: SparkSession, table: TableId, rules: Maintenance) -> str:
        if table.full_name == "shop.orders":
            raise ValueError("a data file is gone")
        return rewrite(spark, table, rules)

    monkeypatch.setattr(procedures, "rewrite_data", fails)
    with pytest.raises(TerminalError, match=r"shop\.orders: data files: .*a data file is gone"):
        shop.maintain()
    assert listed(shop) == every(shop)
    assert shop.table("orders__history").inspect.files().num_rows == 1


@pytest.mark.long
def test_a_mark_that_fails_keeps_no_other_table_waiting(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The ledger's tables allow no retry: whoever appends meanwhile wins."""
    shop.run(*orders(("c", 1, 1, "new")))
    contended = TableId(LEDGER_NAMESPACE, ledger_tables.BATCHES)
    set_property = Lake.set_property

    def loses(lake: Lake, table: TableId, name: str, value: str) -> None:
        if table == contended:
            raise CommitFailedException("written by others")
        set_property(lake, table, name, value)

    monkeypatch.setattr(Lake, "set_property", loses)
    with pytest.raises(TransientError, match=r"sluice\.batches: mark: .*written by others"):
        shop.maintain()
    assert listed(shop) == [name for name in every(shop) if name != contended.full_name]


def every(shop: Shop) -> list[str]:
    """The pipeline's tables, and the ledger's that maintenance looks after."""
    return [
        f"{namespace}.{name}"
        for namespace in ("shop", "shop__cdc", LEDGER_NAMESPACE)
        for _, name in sorted(shop.catalog.list_tables(namespace))
        if namespace != LEDGER_NAMESPACE or name in OF_LEDGER
    ]


def listed(shop: Shop) -> list[str]:
    """Those of them that maintenance has ever finished."""
    return [name for name in every(shop) if any(map(is_mark, properties(shop, name)))]


def one_more(shop: Shop) -> Callable[[], bool]:
    """Time for one table that was never finished."""
    before = listed(shop)
    return lambda: listed(shop) == before


def is_mark(name: str) -> bool:
    return name.startswith(PROP_MAINTAINED)


def properties(shop: Shop, table: str) -> dict[str, str]:
    namespace, name = table.split(".")
    return shop.table(name, namespace).properties
