"""Defaults that become known for rows that replace expired changes.

The newest change of such a row is above the statement, and left the column out, as those before
did.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from sluice.errors import PlanError
from sluice.operations import refolding
from tests.spark.retention import forget
from tests.spark.sandbox import Sandbox
from tests.spark.shareplex_records import change

pytestmark = pytest.mark.spark

FORGOTTEN: list[Any] = [
    change(1, "ins", {"ID": "1", "STATE": "a"}),
    change(2, "ins", {"ID": "2", "STATE": "a"}),
]
TOLD: list[Any] = [
    change(10, "ddl") | {"ddl": "ALTER TABLE O.ITEM ADD (C number(3) DEFAULT 5)"},
    change(20, "upd", {"STATE": "b"}, {"ID": "1"}),
    change(21, "ins", {"ID": "3", "STATE": "a"}),
]
SINCE: list[Any] = [
    change(30, "ins", {"ID": "4", "STATE": "a", "C": "7"}),
    change(31, "upd", {"STATE": "b"}, {"ID": "3"}),
]
WANTED = {1: ("b", 5), 2: ("a", 5), 3: ("b", None), 4: ("a", 7)}


def item(*modes: str) -> dict[str, Any]:
    """The pipeline, its table in these modes."""
    table = {"key": ["ID"], "columns": {"ID": "int", "C": "int"}, "modes": list(modes)}
    return {"format": "shareplex", "tables": {"O.ITEM": table}}


@pytest.fixture
def mode() -> str:
    """What the target is."""
    return "current"


@pytest.fixture
def shop(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: str
) -> Sandbox:
    """Of the table `ITEM` the first changes are forgotten."""
    made = Sandbox(spark, tmp_path, item(mode)).driven(monkeypatch)
    (first,) = made.run_each(FORGOTTEN)
    forget(made, first, "ITEM")
    return made


def held(shop: Sandbox) -> dict[int, tuple[Any, Any]]:
    return {row["ID"]: (row["STATE"], row.get("C")) for row in shop.rows("ITEM")}


@pytest.mark.long
def test_in_one_batch_a_row_goes_on_from_the_default(shop: Sandbox) -> None:
    shop.run_each([*TOLD, *SINCE])
    assert held(shop) == WANTED


@pytest.mark.long
@pytest.mark.parametrize("mode", ["current", "soft_delete"])
def test_a_row_that_stands_for_forgotten_changes_has_the_default(shop: Sandbox, mode: str) -> None:
    """So has the version that a new history begins with, and the row that a rebuild makes again."""
    shop.run_each(TOLD)
    shop.configure(**item(mode, "history"))
    shop.run_each(SINCE)
    assert held(shop) == WANTED
    past = sorted((r["ID"], r["_position"], r["C"]) for r in shop.rows("ITEM__history", True))
    assert [(ident, c) for ident, _, c in past] == [(1, 5), (2, 5), (3, None), (3, None), (4, 7)]
    assert shop.agrees()
    for name in ("pipeline", "batch", "attempt"):  # what the last load's session signs by
        shop.spark.conf.unset(f"spark.sql.iceberg.snapshot-property.sluice.{name}")
    shop.spark.sql("UPDATE lake.shop.ITEM SET C = NULL WHERE ID = 1")
    refolding.rebuild(shop.context())
    assert held(shop) == WANTED


def row(kind: str, place: int, **data: Any) -> dict[str, Any]:
    """A change as Maxwell writes it where MySQL logs the columns alone that a statement sets."""
    log = {"xid": place, "commit": True, "position": f"bin.1:{place}"}
    told = {"database": "d", "table": "orders", "type": kind, "ts": place, "data": data}
    return told | {"primary_key_columns": ["id"]} | ({} if kind == BOOTSTRAPPED else log)


BOOTSTRAPPED = "bootstrap-insert"


@pytest.mark.long
def test_the_nulls_of_a_full_load_are_nobody_elses(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was taken after the statement, which comes late: row 1 has no default, row 2 has it."""
    table = {"key": ["id"], "columns": {"id": "int", "c": "int"}}
    config = {"format": "maxwell", "format_options": {"row_image": "partial"}}
    made = Sandbox(spark, tmp_path, config | {"tables": {"orders": table}}).driven(monkeypatch)
    loaded = row(BOOTSTRAPPED, 1, id=1, v="a", c=None)
    (first,) = made.run_each([loaded, row("insert", 5, id=2, v="a")])
    forget(made, first)
    made.run_each([row("update", 20 + ident, id=ident, v="b") for ident in (1, 2)])
    sql = "ALTER TABLE orders ADD c int DEFAULT 5"
    added = row("table-alter", 10) | {"sql": sql, "data": None}
    with pytest.raises(PlanError, match=r"the default of columns \['c'\], which full loads have"):
        made.run_each([added])
