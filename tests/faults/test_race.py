"""Two batches staged from one `main`: the second publish refuses, merges again, both are in."""

from __future__ import annotations

import pytest

from sluice.catalog.table_publish import publish_table
from sluice.errors import PublishRefusedError
from sluice.operations import stages
from sluice.operations.undo import undo_batch
from sluice.result import BatchResult
from tests.all_readable import land
from tests.faults.conftest import Shop, event

pytestmark = [pytest.mark.spark, pytest.mark.faults]


def stage(shop: Shop) -> tuple[str, BatchResult]:
    """Land and load what there is, and release the lease as if it had lapsed."""
    ctx = shop.context()
    (key,) = land(ctx)
    result = stages.load(ctx, key)
    ctx.ledger.lease.release(result.batch_id, result.attempt)
    return key, result


@pytest.mark.long
def test_the_second_of_two_batches_from_one_main_is_merged_again(shop: Shop) -> None:
    ctx = shop.context()
    shop.put("0", [event("c", 1, "new", 1)])
    results, failure = stages.run(ctx)
    assert failure is None
    assert len(results) == 1

    shop.put("a", [event("u", 1, "paid", 5), event("c", 2, "new", 6)])
    first, _ = stage(shop)
    shop.put("b", [event("u", 1, "packed", 4), event("c", 3, "new", 7)])
    second, staged = stage(shop)

    stages.publish(ctx, first)
    (orders,) = [s for t in staged.tables for s in t.staged if s.name == "orders"]
    with pytest.raises(PublishRefusedError):
        publish_table(ctx.catalog, orders, staged.batch_id)
    stages.publish(ctx, second)
    assert shop.rows() == [(1, "paid"), (2, "new"), (3, "new")]
    assert not any(ref.startswith("batch_") for ref in shop.refs())

    published = ctx.files.read_manifest(second).batch_id
    with_both = shop.rows()
    stages.publish(ctx, second)
    assert shop.rows() == with_both
    undo_batch(ctx, published)
    assert shop.rows() == [(1, "paid"), (2, "new")]
