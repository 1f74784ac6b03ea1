"""A driver that failed: what of its work it takes back."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from sluice.context import Context
from sluice.leases import Lease
from sluice.ledger import LANDED, LOADED, LOADING
from sluice.manifest import Manifest
from spark_jobs.driver import Driver
from tests.unit.projects import open_shop


class NewColumns:
    """A lake to which the driver added a column."""

    def restore_schemas(self) -> list[str]:
        return ["shop.orders"]


@pytest.fixture
def context(tmp_path: Path) -> Context:
    return open_shop(tmp_path)


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
