"""What may expire: old, and needed by no branch, no tag and no rollback."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.types import LongType, NestedField

from sluice.ledger.ledger import PipelineLedger
from sluice.ledger.rows import Publication
from sluice.ledger.states import MAINTAINING, MAINTENANCE, PUBLISHED, ROLLED_BACK
from sluice.operations.expiry import Retention, Retentions, expirable, stale_tags
from tests.unit.projects import SHOP, open_shop

pytestmark = pytest.mark.catalog

LATER = datetime.now(UTC) + timedelta(days=40)


@pytest.fixture
def table(tmp_path: Path) -> Table:
    """Five snapshots on main, the second of them tagged."""
    catalog = SqlCatalog(
        "lake", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=f"file://{tmp_path}/w"
    )
    catalog.create_namespace("shop")
    made = catalog.create_table("shop.t", Schema(NestedField(1, "id", LongType())))
    for number in range(5):
        made.append(pa.table({"id": [number]}))
    made.manage_snapshots().create_tag(history(made)[1], "batch-b1").commit()
    return made


def history(table: Table) -> list[int]:
    return [snapshot.snapshot_id for snapshot in table.metadata.snapshots]


def test_the_head_and_tags_stay(table: Table) -> None:
    first, _, third, fourth, _ = history(table)
    assert expirable(table, (), LATER, dropped=()) == [first, third, fourth]


def test_a_dropped_tag_holds_nothing(table: Table) -> None:
    first, second, third, fourth, _ = history(table)
    assert expirable(table, (), LATER, dropped=["batch-b1"]) == [first, second, third, fourth]


def test_snapshots_that_a_rollback_walks_along_stay(table: Table) -> None:
    """From the head to the third, whose publication is promised, it looks who wrote the fourth."""
    first, _, third, _, _ = history(table)
    assert expirable(table, {third}, LATER, dropped=()) == [first]


def test_young_snapshots_stay(table: Table) -> None:
    assert expirable(table, (), datetime.now(UTC) - timedelta(days=1), dropped=()) == []


def published(ledger: PipelineLedger, batch: str, snapshot: int) -> None:
    row = Publication("shop", batch, "a1", "shop", "t", None, 0, snapshot, "b", state=PUBLISHED)
    ledger.publications.record([row])
    ledger.batches.record(batch, PUBLISHED)


def test_the_ledger_is_read_again_when_its_batches_or_publications_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not for every table: a pipeline of many tables has as many publications in each batch."""
    shop = open_shop(tmp_path, SHOP + "keep_tags: 2\n")
    reads: list[tuple[str, ...]] = []
    read = shop.ledger.publications.of_batches

    def counted(*batches: str) -> list[Publication]:
        reads.append(batches)
        return read(*batches)

    monkeypatch.setattr(shop.ledger.publications, "of_batches", counted)
    retentions = Retentions(shop.ledger, shop.pipeline)
    published(shop.ledger, "b1", 11)
    published(shop.ledger, "b2", 12)
    expected = Retention(frozenset({11, 12}), frozenset())
    assert [retentions.current() for _ in range(3)] == [expected] * 3
    assert reads == [("b2", "b1")]

    published(shop.ledger, "b3", 13)
    assert retentions.current() == Retention(frozenset({12, 13}), frozenset({"batch-b1"}))
    shop.ledger.batches.record("b3", ROLLED_BACK)
    assert retentions.current() == expected
    late = Publication("shop", "b2", "a1", "shop", "u", 7, 0, 8, "b", state=PUBLISHED)
    shop.ledger.publications.record([late])
    assert retentions.current().snapshots == {7, 8, 11, 12}
    shop.ledger.batches.record(MAINTENANCE, MAINTAINING, lease=shop.lease)
    assert len(reads) == 4
    assert retentions.current().snapshots == {7, 8, 11, 12}
    assert len(reads) == 4


def test_only_stale_tags_of_batches_go(table: Table) -> None:
    promised = Retention(frozenset(), frozenset({"batch-b1", "batch-elsewhere"}))
    table.manage_snapshots().create_tag(history(table)[0], "mine").commit()
    assert stale_tags(table, promised) == ["batch-b1"]
