"""Fixtures for the ledger of one pipeline."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyiceberg.catalog.sql import SqlCatalog

from sluice.ledger.ledger import Ledger, PipelineLedger
from tests.unit.clocks import FrozenClock


@pytest.fixture
def clock() -> FrozenClock:
    return FrozenClock()


@pytest.fixture
def catalog(tmp_path: Path) -> SqlCatalog:
    uri = f"sqlite:///{tmp_path}/catalog.db"
    return SqlCatalog("lake", uri=uri, warehouse=f"file://{tmp_path}/w")


@pytest.fixture
def ledger(catalog: SqlCatalog, clock: FrozenClock) -> PipelineLedger:
    """The ledger of pipeline p at the time of `clock`."""
    return Ledger(catalog, clock).of("p")
