"""A project in a folder of its own, driven as a user drives it: by the command line."""

from __future__ import annotations

import subprocess
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest

from sluice.operations.context import Context, open_context
from sluice.output.query import run_sql
from tests.faults.lake import PROJECT, Contents, Lake, finish
from tests.faults.lake import event as event_of_table

PATIENCE_SECONDS: Final = 600
PIPELINE = """name: shop
format: debezium
landing: {url: landing, pattern: "**/*.jsonl"}
namespace: shop
tables:
  shop.orders: {key: [id], columns: {id: int, status: string}}
"""


@dataclass(frozen=True)
class Shop:
    """A pipeline of one table and its landing folder."""

    root: Path

    def context(self) -> Context:
        return open_context(self.root, "shop")

    def put(self, name: str, events: list[str]) -> None:
        path = self.root / "landing" / f"{name}.jsonl"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("\n".join(events) + "\n")

    def rows(self) -> list[tuple[Any, ...]]:
        found = run_sql(self.context().project, "SELECT id, status FROM shop.orders ORDER BY id")
        return [tuple(row.values()) for row in found.to_pylist()]

    def refs(self) -> set[str]:
        return set(self.context().catalog.load_table(("shop", "orders")).metadata.refs)


def event(op: str, key: int, status: str, lsn: int) -> str:
    """One change of an order as Debezium writes it without schema."""
    row = {"id": key, "status": status}
    before, after = (row, None) if op == "d" else (None, row)
    return event_of_table(op, "orders", lsn, after, before)


@pytest.fixture(scope="module")
def wanted(lake: Lake) -> Contents:
    """What the lake of a module holds once it is loaded without a fault."""
    lake.restore("loaded")
    return lake.contents()


@pytest.fixture
def shop(tmp_path: Path) -> Shop:
    """An empty lake."""
    (tmp_path / "pipelines").mkdir()
    (tmp_path / "landing").mkdir()
    (tmp_path / "sluice.yaml").write_text(PROJECT)
    (tmp_path / "pipelines" / "shop.yaml").write_text(PIPELINE)
    return Shop(tmp_path)


def run(shop: Shop) -> subprocess.Popen[str]:
    """Start a run of the pipeline."""
    return Lake(shop.root).start("run", "shop")


def wait_for_branch(shop: Shop, process: subprocess.Popen[str]) -> None:
    """Wait until the run is in the middle of its merge."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not any(ref.startswith("batch_") for ref in shop.refs()):
        assert process.poll() is None, finish(process, PATIENCE_SECONDS)
        assert time.monotonic() < deadline, "the batch never reached its merge"
        time.sleep(0.02)
