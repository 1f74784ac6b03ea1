"""A lake whose files are not where its catalog has them: no table and no batch is to blame."""

from __future__ import annotations

from pathlib import Path
from typing import Never

import pytest
from pyiceberg.exceptions import UnauthorizedError

from sluice.catalog import retries
from sluice.errors import TerminalError, names_of
from sluice.ledger import appends
from sluice.ledger.column_log import record, recorded
from sluice.ledger.states import PUBLISHING
from sluice.operations import stages
from sluice.operations.context import Context
from spark_jobs.decoding import table_isolation
from tests.unit.clocks import Clock
from tests.unit.projects import open_shop

pytestmark = pytest.mark.catalog

MOVED = "names a file that is not in the warehouse"


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Context:
    clock = Clock()
    for module in (retries, appends):
        monkeypatch.setattr(module, "time", clock)
    shop = open_shop(tmp_path)
    record(shop.catalog, "shop", "b0", [])
    return shop


def lose(table: str, shop: Context) -> None:
    """Take the metadata of a table of the ledger away."""
    found = shop.catalog.load_table(("sluice", table))
    Path(found.metadata_location.removeprefix("file://")).unlink()


def test_moved_lake_is_not_blamed_on_a_table(shop: Context) -> None:
    """Else the batch would be published without all tables that looked while it was away."""
    lose("renames", shop)
    pipeline = shop.pipeline.model_copy(update={"consistency": "table"})

    def known(_: str) -> None:
        recorded(shop.catalog, "shop")

    with pytest.raises(TerminalError, match=MOVED) as caught:
        table_isolation.for_each_table(pipeline, ["s.orders", "s.notes"], str, known)
    assert not caught.value.tables


def test_denied_access_is_not_blamed_on_a_table(shop: Context) -> None:
    """As of a token that has expired: the batch would be published without all its tables."""
    pipeline = shop.pipeline.model_copy(update={"consistency": "table"})

    def denied(_: str) -> None:
        raise UnauthorizedError("401")

    with pytest.raises(UnauthorizedError):
        table_isolation.for_each_table(pipeline, ["s.orders", "s.notes"], str, denied)


def test_the_error_of_a_table_alone_says_nothing_of_the_others(shop: Context) -> None:
    pipeline = shop.pipeline.model_copy(update={"consistency": "table"})

    def mistaken(table: str) -> None:
        if table == "s.orders":
            raise KeyError(table)

    with pytest.raises(TerminalError, match="the table is not published") as caught:
        table_isolation.for_each_table(pipeline, ["s.orders", "s.notes"], str, mistaken)
    assert [*caught.value.tables] == ["s.orders"]
    assert "nothing" not in str(caught.value)


def test_moved_lake_does_not_advise_to_give_the_batch_up(
    shop: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop.ledger.batches.record("b1", PUBLISHING, attempt="a1")

    def away(*_: object) -> Never:
        lose("batches", shop)
        shop.ledger.batches.get("b1")
        raise AssertionError("the ledger was read")

    monkeypatch.setattr("sluice.operations.reconcile.publish", away)
    with pytest.raises(TerminalError, match=MOVED) as caught:
        stages.reconcile(shop)
    assert "to get on without it" not in str(caught.value)


def test_moved_lake_is_a_terminal_error_of_the_driver(shop: Context) -> None:
    lose("renames", shop)
    with pytest.raises(TerminalError, match=MOVED) as caught:
        recorded(shop.catalog, "shop")
    assert type(caught.value).__name__ in names_of(TerminalError)
