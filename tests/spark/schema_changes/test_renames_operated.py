"""Plan, rollback and undo of a batch that renames a column."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from sluice.errors import TransientError
from sluice.operations import preview, refolding, stages
from sluice.operations.held_files import release
from sluice.operations.undo import undo_batch
from spark_jobs.decoding import plans
from tests.spark.renamed import BATCHES, RENAME, WANTED, Row, names_of, shop_of
from tests.spark.sandbox import Sandbox

pytestmark = pytest.mark.spark


@pytest.fixture
def lake(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Sandbox:
    """With a ledger; drivers run in here."""
    shop = shop_of(spark, tmp_path, modes=["soft_delete", "history"])
    shop.driven(monkeypatch)
    return shop


def run(lake: Sandbox, name: str) -> str:
    """Load and publish one of BATCHES, as `sluice run` does."""
    lake.write(f"{name}.jsonl", BATCHES[name])
    return lake.run().batch_id


def living(lake: Sandbox) -> dict[int, tuple[Any, Any]]:
    gone = {row["id"] for row in lake.rows("orders") if row["_is_deleted"]}
    return {i: both for i, both in names_of(lake).items() if i not in gone}


@pytest.mark.long
def test_a_rename_is_known_before_its_table(lake: Sandbox) -> None:
    """No event of a row has the new name, and the source's table has it."""
    run(lake, "renamed")
    run(lake, "before")
    untouched = {1: "untouched", 2: "touched", 3: "given up", 5: None}
    assert names_of(lake) == {i: (name, None) for i, name in untouched.items()}
    assert lake.agrees()


def test_rename_that_comes_while_the_first_rows_are_decoded(
    lake: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever planned the table without it decodes the batch again."""
    lake.published = [run(lake, "renamed")]
    lake.write("before.jsonl", BATCHES["before"])
    manifest = lake.land()
    with monkeypatch.context() as meanwhile:
        meanwhile.setattr(plans, "published", lambda *_: [])
        with pytest.raises(TransientError, match=r"columns were renamed while .* was decoded"):
            lake.stage_manifest(manifest)
    lake.publish(lake.stage_manifest(manifest))
    assert set(names_of(lake)) == {1, 2, 3, 5}


@pytest.mark.long
def test_plan_shows_a_rename_until_it_is_done(
    lake: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(preview, "submit", lake.look)
    run(lake, "before")
    lake.write("renamed.jsonl", BATCHES["renamed"])
    (looked,) = preview.preview(lake.context()).forecast.tables
    assert (looked.renamed, looked.counts.applied) == (("title → name",), 0)
    lake.run()
    lake.write("since.jsonl", BATCHES["since"])
    (looked,) = preview.preview(lake.context()).forecast.tables
    assert (looked.renamed, looked.counts.applied) == ((), 3)


@pytest.mark.long
def test_a_rename_is_rolled_back(lake: Sandbox) -> None:
    before = run(lake, "before")
    renamed = run(lake, "renamed")
    assert names_of(lake)[1] == ("untouched", None)
    undo_batch(lake.context(), renamed)
    assert {row["title"] for row in lake.rows("orders")} >= {"untouched", "touched"}
    assert lake.agrees()
    run(lake, "since")
    assert living(lake)[1] == (None, "untouched")
    release(lake.context(), renamed)
    (result,), _ = stages.run(lake.context())
    assert living(lake) == WANTED
    assert lake.agrees()
    assert before != result.batch_id


@pytest.mark.long
def test_a_rename_is_undone_beneath_others(lake: Sandbox) -> None:
    run(lake, "before")
    renamed = run(lake, "renamed")
    run(lake, "since")
    assert living(lake) == WANTED
    refolding.undo_or_refold(lake.context(), renamed)
    assert living(lake) == {
        1: (None, "untouched"), 2: ("touched since", None), 4: ("new", None), 5: (None, None),
    }  # fmt: skip
    assert lake.agrees()


@pytest.mark.long
def test_only_rename_is_undone_beneath_others_and_comes_again(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a format that tells no defaults, so that nothing at all is told without it."""
    orders = {"key": ["id"], "columns": {"id": "int"}}
    shop = Sandbox(spark, tmp_path, {"format": "maxwell", "tables": {"orders": orders}})
    shop.driven(monkeypatch)
    batches = []
    each: list[Row | str] = [{"id": 1, "title": "x"}, RENAME, {"id": 2, "name": "y"}]
    for pos, change in enumerate(each):
        shop.write(f"{pos}.jsonl", [of_maxwell(pos + 1, change)])
        batches.append(shop.run().batch_id)
    assert names_of(shop) == {1: ("x", None), 2: ("y", None)}
    refolding.undo_or_refold(shop.context(), batches[1])
    assert names_of(shop) == {1: (None, "x"), 2: ("y", None)}
    assert shop.agrees()
    release(shop.context(), batches[1])
    stages.run(shop.context())
    assert names_of(shop) == {1: ("x", None), 2: ("y", None)}
    assert shop.agrees()


def of_maxwell(pos: int, told: Row | str) -> Row:
    """A row's insert, or a statement."""
    event = {"database": "shop", "table": "orders", "ts": pos, "position": f"bin.000001:{pos}"}
    if isinstance(told, str):
        return {"type": "table-alter", "sql": told, **event}
    return {"type": "insert", "data": told, "xid": pos, "commit": True, **event}
