"""The Spark process killed in the middle of a merge: the retry ends as if nothing had happened."""

from __future__ import annotations

import pytest

from tests.faults.conftest import PATIENCE_SECONDS, Shop, event, run, wait_for_branch
from tests.faults.lake import descendants, finish, kill

pytestmark = [pytest.mark.spark, pytest.mark.faults]


@pytest.mark.long
def test_a_driver_killed_in_its_merge_leaves_nothing_behind(shop: Shop) -> None:
    shop.put("1", [event("c", k, "new", 10 + k) for k in range(200)])
    code, output = finish(run(shop), PATIENCE_SECONDS)
    assert code == 0, output
    before = shop.rows()

    shop.put(
        "2", [event("u", k, "paid", 1000 + k) for k in range(100)] + [event("d", 150, "", 2000)]
    )
    process = run(shop)
    wait_for_branch(shop, process)
    kill(reversed(descendants(process.pid)))
    code, output = finish(process, PATIENCE_SECONDS)
    assert code != 0
    assert shop.rows() == before

    code, output = finish(run(shop), PATIENCE_SECONDS)
    assert code == 0, output
    assert shop.rows() == [(k, "paid" if k < 100 else "new") for k in range(200) if k != 150]
    assert not any(ref.startswith("batch_") for ref in shop.refs())
    assert shop.context().ledger.unfinished() == []
