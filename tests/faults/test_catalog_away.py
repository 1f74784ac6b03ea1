"""A catalog that answers no request for a minute, in the middle of a merge."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Final

import pytest

from sluice.errors import TransientError
from tests.faults.conftest import PATIENCE_SECONDS, Shop, event, run, wait_for_branch
from tests.faults.lake import finish

pytestmark = [pytest.mark.spark, pytest.mark.faults, pytest.mark.long]
# Longer than Spark waits for an answer.
AWAY_SECONDS: Final = 75


@contextmanager
def away(shop: Shop) -> Iterator[None]:
    """While this lasts, no other process can read or write the catalog's database."""
    with closing(sqlite3.connect(shop.root / "data" / "catalog.db", timeout=60)) as catalog:
        catalog.execute("BEGIN EXCLUSIVE")
        yield
        catalog.rollback()


def test_run_survives_a_catalog_outage_or_succeeds_when_repeated(shop: Shop) -> None:
    shop.put("1", [event("c", k, "new", 10 + k) for k in range(9)])
    code, output = finish(run(shop), PATIENCE_SECONDS)
    assert code == 0, output
    before = shop.rows()

    shop.put("2", [event("u", 1, "paid", 100), event("d", 2, "", 101)])
    process = run(shop)
    wait_for_branch(shop, process)
    with away(shop):
        time.sleep(AWAY_SECONDS)
    code, output = finish(process, PATIENCE_SECONDS)
    assert code in (0, TransientError.exit_code), output
    if code:
        assert shop.rows() == before
        code, output = finish(run(shop), PATIENCE_SECONDS)
        assert code == 0, output
    assert shop.rows() == [(k, "paid" if k == 1 else "new") for k in range(9) if k != 2]
    assert not any(ref.startswith("batch_") for ref in shop.refs())
    assert shop.context().ledger.unfinished() == []
