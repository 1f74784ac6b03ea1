"""A damaged file of a target: the error says what to do, and what the page says brings it back."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from sluice.errors import TransientError
from sluice.operations.rollback import RollbackRequest, roll_back
from spark_jobs.failures import typed
from tests.spark.renamed import place, shop_of
from tests.spark.sandbox import Sandbox

pytestmark = pytest.mark.spark


def change(op: str, pos: int, **row: Any) -> dict[str, Any]:
    return {"op": op, "source": place(pos), "before": row, "after": None if op == "d" else row}


def zeros(file: Path) -> None:
    file.write_bytes(b"\0" * file.stat().st_size)


def noticed(file: Path) -> None:
    """By the checksum that a warehouse in a folder has beside each file."""
    zeros(file)


def cut(file: Path) -> None:
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])


@pytest.fixture
def lake(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Sandbox:
    """Two rows, one of them changed since, and a deleted one."""
    shop = shop_of(spark, tmp_path, modes=["current", "history"])
    monkeypatch.setattr("sluice.operations.load.submit", shop.submit)
    rows = [change("c", n, id=n, a="first") for n in (1, 2, 3)]
    shop.run_each([*rows, change("u", 4, id=1, a="second")], [change("d", 5, id=3)])
    return shop


def content(lake: Sandbox) -> list[list[str]]:
    """The rows of target and history."""
    return [sorted(map(str, lake.rows(name))) for name in ("orders", "orders__history")]


LONG = pytest.mark.long


@pytest.mark.parametrize(
    ("table", "files", "damage"),
    [
        ("orders", "data/*.parquet", zeros),
        pytest.param("orders", "data/*.parquet", noticed, marks=LONG),
        pytest.param("orders", "data/*.parquet", cut, marks=LONG),
        pytest.param("orders", "data/*.parquet", Path.unlink, marks=LONG),
        pytest.param("orders", "metadata/*-m*.avro", zeros, marks=LONG),
        pytest.param("orders", "metadata/snap-*.avro", cut, marks=LONG),
        pytest.param("orders__tombstones", "data/*.parquet", zeros, marks=LONG),
        pytest.param("orders__history", "data/*.parquet", zeros, marks=LONG),
    ],
)
def test_a_target_with_a_damaged_file_is_made_again_from_its_changelog(
    lake: Sandbox, table: str, files: str, damage: Callable[[Path], None]
) -> None:
    before, tables = (
        content(lake),
        {
            name[-1]: name
            for name in [n for s in ("shop", "shop__cdc") for n in lake.catalog.list_tables(s)]
        },
    )
    found = [*Path(lake.catalog.load_table(tables[table]).location()).glob(files)]
    assert found
    for file in found:
        if damage is not noticed:
            file.with_name(f".{file.name}.crc").unlink(missing_ok=True)
        damage(file)

    with pytest.raises(Exception) as caught:  # noqa: PT011
        lake.run_each([change("u", n + 6, id=n, a="third") for n in (1, 2, 3)])
    error = typed(caught.value)
    assert type(error) is TransientError
    assert "if this repeats see docs/operations.md, A damaged file of a table" in str(error)

    for name in ("orders", "orders__tombstones", "orders__history"):
        lake.catalog.drop_table(tables[name])
    roll_back(lake.context(), RollbackRequest(rebuild=True, table="orders"))
    assert content(lake) == before
    lake.run()
    assert {row["id"]: row["a"] for row in lake.rows("orders")} == dict.fromkeys((1, 2, 3), "third")
    assert lake.agrees()
