"""What was loaded follows from the newest rows of the tables alone, even if others
wrote to them."""

from __future__ import annotations

import re
import shutil
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from sluice.catalog.snapshots import MAIN, drop_tags
from sluice.errors import AuditFailedError, RollbackRefusedError
from sluice.ledger.appends import LedgerTables
from sluice.ledger.tables import BATCHES, FILES, PUBLICATIONS
from sluice.names import LEDGER_NAMESPACE
from sluice.operations import refolding, stages
from sluice.operations.undo import undo_batch
from tests.all_readable import land
from tests.spark.sandbox import Sandbox, total

pytestmark = pytest.mark.spark


@pytest.fixture
def lake(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Sandbox:
    """One table; drivers run in here."""
    orders = {"key": ["id"], "columns": {"id": "int"}}
    shop = Sandbox(spark, tmp_path, {"format": "debezium", "tables": {"s.orders": orders}})
    return shop.driven(monkeypatch)


def event(lsn: int, ident: int, note: str, op: str = "u") -> dict[str, Any]:
    source = {"connector": "postgresql", "db": "d", "schema": "s", "table": "orders", "lsn": lsn}
    row = {"id": ident, "note": note}
    return {"op": op, "before": row if op == "d" else None, "after": None if op == "d" else row,
            "source": source}  # fmt: skip


def notes(lake: Sandbox) -> dict[int, str]:
    return {row["id"]: row["note"] for row in lake.rows("orders")}


def forget(lake: Sandbox) -> None:
    """All that is not needed: old snapshots, tags, every state of the ledger but the last."""
    for name in (BATCHES, FILES, PUBLICATIONS):
        LedgerTables(lake.catalog).compact(name, dry_run=False)
    for namespace in ("shop", "shop__cdc", LEDGER_NAMESPACE):
        for ident in lake.catalog.list_tables(namespace):
            table = lake.catalog.load_table(ident)
            drop_tags(lake.catalog, table, [ref for ref in table.metadata.refs if ref != MAIN])
            table = lake.catalog.load_table(ident)
            table.maintenance.expire_snapshots().older_than(datetime.now(UTC)).commit()
            assert len(lake.catalog.load_table(ident).metadata.snapshots) <= 1


def test_the_next_run_knows_what_was_loaded_when_history_is_gone(lake: Sandbox) -> None:
    lake.write("a.jsonl", [event(10, 1, "a"), event(11, 2, "b")])
    assert stages.run(lake.context())[1] is None
    lake.write("b.jsonl", [event(20, 2, "", "d")])
    assert stages.run(lake.context())[1] is None
    forget(lake)

    shutil.copy(lake.landing / "a.jsonl", lake.landing / "copy.jsonl")
    assert stages.run(lake.context()) == ([], None)
    lake.write("c.jsonl", [event(5, 1, "late"), event(15, 2, "late"), event(30, 3, "new")])
    (result,), failure = stages.run(lake.context())
    assert failure is None
    assert (total(result).late, total(result).applied) == (2, 1)
    assert notes(lake) == {1: "a", 3: "new"}


@pytest.mark.long
def test_somebodys_own_rows_are_kept_and_not_rolled_back(lake: Sandbox) -> None:
    lake.write("a.jsonl", [event(10, 1, "a")])
    (first,), _ = stages.run(lake.context())
    lake.write("b.jsonl", [event(20, 2, "b")])
    (key,) = land(lake.context())
    second = stages.load(lake.context(), key)
    insert(lake, 7)
    stages.publish(lake.context(), key)
    assert notes(lake) == {1: "a", 2: "b", 7: "a"}

    undo_batch(lake.context(), second.batch_id)
    assert notes(lake) == {1: "a", 7: "a"}
    with pytest.raises(RollbackRefusedError, match=r"shop\.orders: somebody else wrote snapshot"):
        undo_batch(lake.context(), first.batch_id)


@pytest.mark.parametrize("position", [pytest.param(5, marks=pytest.mark.long), 20])
def test_a_key_that_somebody_wrote_again_stops_the_batch_until_a_rebuild(
    lake: Sandbox, position: int
) -> None:
    lake.write("a.jsonl", [event(10, 1, "a"), event(11, 2, "b")])
    assert stages.run(lake.context())[1] is None
    insert(lake, 1, of=1)
    lake.write("b.jsonl", [event(position, 1, "new")])
    _, failure = stages.run(lake.context())
    assert isinstance(failure, AuditFailedError)
    expected = r'shop\.orders: key_not_unique: .*: \{"id":1\}; .* sluice rollback p --rebuild'
    assert re.search(expected, str(failure))

    refolding.rebuild(lake.context(), "orders")
    assert sorted(row["note"] for row in lake.rows("orders")) == ["a", "b"]
    assert stages.run(lake.context())[1] is None
    assert notes(lake) == {1: "new" if position > 10 else "a", 2: "b"}


def insert(lake: Sandbox, ident: int, of: int | None = None) -> None:
    """Behind Sluice's back: the one row that is there, or that `of` a key, under another key."""
    table = lake.catalog.load_table(("shop", "orders"))
    rows = (table.scan() if of is None else table.scan(f"id = {of}")).to_arrow()
    place = rows.schema.get_field_index("id")
    key = pa.array([ident], rows.schema.field(place).type)
    table.append(rows.set_column(place, rows.schema.field(place), key))
