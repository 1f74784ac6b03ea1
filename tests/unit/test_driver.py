"""A driver around its work: what it looks at, and what it takes back where it failed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from sluice.errors import TerminalError
from sluice.ledger.leases import Lease
from sluice.ledger.ledger import FAILED, LANDED, LOADED, LOADING
from sluice.manifest import Manifest
from sluice.operations.context import Context
from sluice.operations.land import land
from sluice.result import BatchResult
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


@pytest.mark.parametrize("replaced", ["before", "while"])
def test_a_driver_looks_at_its_files_before_it_reads_and_after(
    context: Context, monkeypatch: pytest.MonkeyPatch, replaced: str
) -> None:
    path = context.project.root / "landing" / "a.jsonl"
    path.write_text('{"a": 1}\n')
    (key,) = land(context)
    manifest = context.files.read_manifest(key)

    def work(driver: Driver, _: bool) -> BatchResult:
        assert replaced == "while"
        path.write_text('{"a": 2}\n')
        return BatchResult("shop", manifest.batch_id, driver.attempt, ())

    if replaced == "before":
        path.unlink()
    monkeypatch.setattr(Driver, "_work", work)
    with pytest.raises(TerminalError, match=r"a\.jsonl (is gone|has other bytes)"):
        Driver(context.project, manifest, lambda: None).run()  # type: ignore[arg-type, return-value]
    row = context.ledger.batch("shop", manifest.batch_id)
    assert row is not None
    assert row.state == FAILED


def test_a_table_is_left_out_once(context: Context, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where it is to blame without its records too, the batch ends instead of trying for ever."""
    tried: list[dict[str, str]] = []

    def load(driver: Driver, _: bool) -> BatchResult:
        tried.append(dict(driver._left_out))
        raise TerminalError("its key").of_tables({"s.notes": "its key"})

    monkeypatch.setattr(Driver, "_load", load)
    driver = Driver(context.project, Manifest("shop", "b1", ()), lambda: None)  # type: ignore[arg-type, return-value]
    driver.pipeline = driver.pipeline.model_copy(update={"consistency": "table"})
    with pytest.raises(TerminalError, match="its key"):
        driver._work(False)
    assert tried == [{}, {"s.notes": "its key"}]
