"""A driver that failed: what of its work it takes back."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from sluice.context import Context, open_context
from sluice.leases import Lease
from sluice.ledger import LANDED, LOADED, LOADING
from sluice.manifest import Manifest
from spark_jobs.driver import Driver

PROJECT = "lake: {catalog: {type: jdbc, uri: 'sqlite:///lake.db'}, warehouse: warehouse}\n"
PIPELINE = "name: shop\nnamespace: shop\nformat: debezium\nlanding: {url: landing}\n"


class NewColumns:
    """A lake to which the driver added a column."""

    def restore_schemas(self) -> list[str]:
        return ["shop.orders"]


@pytest.fixture
def context(tmp_path: Path) -> Context:
    (tmp_path / "pipelines").mkdir()
    (tmp_path / "sluice.yaml").write_text(PROJECT)
    (tmp_path / "pipelines" / "shop.yaml").write_text(PIPELINE)
    return open_context(tmp_path, "shop")


@pytest.mark.parametrize(
    ("batch", "state", "attempt", "alive", "restored"),
    [
        ("b1", LOADING, "mine", True, True),
        ("b1", LOADING, "later", True, False),
        ("b1", LOADED, "later", True, False),
        ("b1", LOADING, "later", False, True),
        ("b1", LANDED, "earlier", True, True),
        ("b2", LOADING, "its own", True, False),
        ("b2", LOADING, "its own", False, True),
    ],
)
def test_new_columns_go_only_where_nobody_else_is_at_work(
    context: Context, batch: str, state: str, attempt: str, alive: bool, restored: bool
) -> None:
    driver: Any = Driver(context.project, Manifest("shop", "b1", ()), lambda: None)  # type: ignore[arg-type, return-value]
    driver.attempt, driver.lake = "mine", NewColumns()
    lease = Lease("elsewhere:1", 60 if alive else -1)
    context.ledger.record_batch("shop", batch, state, attempt=attempt, lease=lease)
    assert bool(driver._restored()) == restored
