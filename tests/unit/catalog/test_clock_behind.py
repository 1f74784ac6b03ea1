"""A commit by a clock that is behind the table's last one: Spark and Trino could not read it."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest
from pyiceberg.catalog import Catalog

from sluice.catalog.clocks import refuse_clock_behind
from sluice.catalog.table_publish import publish_table
from sluice.errors import TransientError
from sluice.ledger.ledger import Ledger
from sluice.ledger.states import LANDED
from tests.unit.staged_tables import ids, stage, table, write

pytestmark = pytest.mark.catalog

Ahead = Callable[[float, Callable[[], object]], None]

JAVA_TOLERATES_MS = 60_000


@pytest.fixture
def ahead(monkeypatch: pytest.MonkeyPatch) -> Ahead:
    """Do something on a host whose clock is some seconds ahead."""
    really = time.time

    def on_that_host(seconds: float, action: Callable[[], object]) -> None:
        with monkeypatch.context() as patched:
            patched.setattr(time, "time", lambda: really() + seconds)
            action()

    return on_that_host


def test_a_publication_by_a_clock_behind_is_refused(catalog: Catalog, ahead: Ahead) -> None:
    ahead(90, lambda: write(catalog, 0))
    staged = stage(catalog, "b1", 1)
    with pytest.raises(TransientError, match=r"shop\.orders: .* synchronise the clocks"):
        publish_table(catalog, staged, "b1")
    assert ids(catalog) == [0]


def test_a_clock_a_little_behind_publishes_what_java_reads(catalog: Catalog, ahead: Ahead) -> None:
    ahead(40, lambda: write(catalog, 0))
    publish_table(catalog, stage(catalog, "b1", 1), "b1")
    assert ids(catalog) == [0, 1]
    before, after = (entry.timestamp_ms for entry in table(catalog).metadata.snapshot_log[-2:])
    assert before - after < JAVA_TOLERATES_MS


def test_the_ledger_is_not_written_by_a_clock_behind(catalog: Catalog, ahead: Ahead) -> None:
    ledger = Ledger(catalog).of("p")
    ahead(90, lambda: ledger.batches.record("b1", LANDED))
    with pytest.raises(TransientError, match=r"sluice\.batches: .* synchronise the clocks"):
        ledger.batches.record("b2", LANDED)
    assert [batch.batch_id for batch in ledger.batches.all()] == ["b1"]


def test_a_clock_behind_by_all_that_java_tolerates_is_refused(
    catalog: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The commit is a little later than the check."""
    write(catalog, 0)
    last = table(catalog).metadata.last_updated_ms
    monkeypatch.setattr(time, "time_ns", lambda: (last - JAVA_TOLERATES_MS) * 1_000_000)
    with pytest.raises(TransientError, match="synchronise the clocks"):
        refuse_clock_behind(table(catalog))
