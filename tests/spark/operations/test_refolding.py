"""Undo of a batch that others followed leaves what the others give; a rebuild restores a target."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from sluice import names
from sluice.catalog.table_rollback import rollback_table
from sluice.errors import FollowedError, RollbackRefusedError, TerminalError
from sluice.ledger import states
from sluice.operations import refolding, stages
from sluice.operations.context import Context
from sluice.operations.held_files import release
from sluice.operations.rollback import RollbackRequest, roll_back
from sluice.operations.undo import finish_undone, undo_batch
from sluice.operations.valid_publications import publications
from spark_jobs.lake.cut import Cutter
from spark_jobs.verifying.changelogs import verify
from tests import reference
from tests.reference import Change
from tests.spark.deliveries import load
from tests.spark.histories import KEYED, TABLES, as_rows, history, meaning, of_table
from tests.spark.sandbox import NAMESPACE, Sandbox
from tests.spark.shop import event as paper
from tests.spark.versions import comparable, histories, newest

pytestmark = pytest.mark.spark

MODES = {"keyed": ["current", "history"], "partial": ["soft_delete", "history"]}


@pytest.fixture
def lake(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Sandbox:
    """The tables of the property tests, two of them with histories; drivers run in here."""
    tables = TABLES | {name: KEYED | {"modes": modes} for name, modes in MODES.items()}
    return Sandbox(spark, tmp_path, {"format": "debezium", "tables": tables}).driven(monkeypatch)


def refuse_difference(lake: Sandbox, log: list[Change]) -> None:
    """Every table, history and tombstone is what these changes make, and nothing else."""
    for table in TABLES:
        mine = reference.versions(of_table(log, table), "id") if table in MODES else []
        if table in MODES:
            assert histories(lake, table) == comparable(mine), table
        if table == "partial":
            assert newest(lake, table) == comparable({v.values["id"]: v for v in mine}.values())
        else:
            assert as_rows(lake.rows(table)) == meaning(log, table), table
    ledger = lake.context().ledger
    found = verify(lake.spark, Cutter(lake.catalog, ledger, NAMESPACE), None)
    assert [t.agrees for t in found.tables] == [True] * len(TABLES), found


def state(lake: Sandbox, batch_id: str) -> str:
    row = lake.context().ledger.batches.get(batch_id)
    assert row is not None
    return row.state


@pytest.mark.long
def test_a_batch_beneath_others_is_undone_alone(lake: Sandbox) -> None:
    _, parts = history(seed=2, parts=3)
    batches = [load(lake, f"{at}.jsonl", part) for at, part in enumerate(parts)]
    with pytest.raises(FollowedError):
        undo_batch(lake.context(), batches[1])
    refolding.undo_or_refold(lake.context(), batches[1])
    refuse_difference(lake, parts[0] + parts[2])
    assert [state(lake, b) for b in batches] == [
        states.PUBLISHED, states.ROLLED_BACK, states.PUBLISHED,
    ]  # fmt: skip
    assert lake.context().ledger.files.known()["1.jsonl"].state == states.FILE_HELD


@pytest.mark.long
def test_a_batch_that_is_half_back_beneath_others_is_undone(lake: Sandbox) -> None:
    """The last batch wrote all tables but the one that went back before it."""
    _, parts = history(seed=2, parts=3)
    parts[2] = [change for change in parts[2] if change.table != "keyed"]
    batches = [load(lake, f"{at}.jsonl", part) for at, part in enumerate(parts)]
    ctx = lake.context()
    ctx.ledger.batches.record(batches[1], states.ROLLING_BACK, attempt="given-up-1")
    for p in publications(ctx, batches[1]):
        if p.table_name in names.published_tables("keyed"):
            rollback_table(ctx.catalog, p.staged, batches[1])
    refolding.undo_or_refold(ctx, batches[1])
    assert state(lake, batches[1]) == states.ROLLED_BACK
    refuse_difference(lake, parts[0] + parts[2])


@pytest.mark.long
def test_a_batch_that_was_undone_beneath_others_comes_again(lake: Sandbox) -> None:
    log, parts = history(seed=2, parts=3)
    batches = [load(lake, f"{at}.jsonl", part) for at, part in enumerate(parts)]
    refuse_difference(lake, log)
    assert refolding.undo_or_refold(lake.context(), batches[1], True).folds
    refuse_difference(lake, log)
    refolding.undo_or_refold(lake.context(), batches[1])

    # What was built on the batch that is gone is undone in the same way.
    refolding.undo_or_refold(lake.context(), batches[0])
    refuse_difference(lake, parts[2])
    assert release(lake.context(), batches[1]) == 1
    assert lake.run().batch_id == batches[1]
    refuse_difference(lake, parts[1] + parts[2])
    (undoing,) = [
        row.batch_id for row in lake.context().ledger.batches.all()
        if row.details.get("undone") == [batches[0]]
    ]  # fmt: skip
    with pytest.raises(RollbackRefusedError, match="release"):
        refolding.undo_or_refold(lake.context(), undoing)


@pytest.mark.long
def test_to_undoes_the_batches_that_were_published_between(lake: Sandbox) -> None:
    log, parts = history(seed=5, parts=4)
    batches = [load(lake, f"{at}.jsonl", part) for at, part in enumerate(parts)]
    refolding.undo_or_refold(lake.context(), batches[2])
    refuse_difference(lake, [c for c in log if c not in parts[2]])
    refolding.undo_or_refold_after(lake.context(), batches[0])
    refuse_difference(lake, parts[0])


@pytest.fixture
def damaged(lake: Sandbox) -> list[Change]:
    """A lake of which somebody has changed every table behind Sluice's back."""
    log, parts = history(seed=3, parts=2)
    for at, part in enumerate(parts):
        load(lake, f"{at}.jsonl", part)
    tombstones = f"{names.changelog_namespace(NAMESPACE)}.keyed__tombstones"
    for name in ("pipeline", "batch", "attempt"):  # what the last load's session signs by
        lake.spark.conf.unset(f"spark.sql.iceberg.snapshot-property.sluice.{name}")
    for table in (*TABLES, "keyed__history", "partial__history"):
        damage(lake, f"{NAMESPACE}.{table}")
    damage(lake, tombstones)
    return log


def damage(lake: Sandbox, table: str) -> None:
    """Of a third of the rows one is missing, one moved to another key or content, one is double."""
    name = f"lake.{table}"
    column = lake.spark.table(name).columns[0]
    lake.spark.sql(f"DELETE FROM {name} WHERE pmod(hash(_position), 3) = 0")
    lake.spark.sql(f"UPDATE {name} SET `{column}` = 77 WHERE pmod(hash(_position), 3) = 1")


@pytest.mark.long
def test_a_rebuild_makes_every_table_again(lake: Sandbox, damaged: list[Change]) -> None:
    with pytest.raises(AssertionError):
        refuse_difference(lake, damaged)
    first = lake.context().ledger.batches.all()[0].batch_id
    with pytest.raises(RollbackRefusedError, match="somebody else"):
        refolding.undo_or_refold(lake.context(), first)
    asked = RollbackRequest(rebuild=True, dry_run=True)
    assert roll_back(lake.context(), asked) == [
        f"would make again: {NAMESPACE}.{table}" for table in sorted(TABLES)
    ]
    refolding.rebuild(lake.context())
    refuse_difference(lake, damaged)
    assert refolding.rebuild(lake.context(), "keyed") == []  # nothing differs, nothing moves
    with pytest.raises(TerminalError, match="keyless"):
        refolding.rebuild(lake.context(), "orders")


@pytest.mark.long
def test_a_crash_in_the_publication_is_completed(
    lake: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, parts = history(seed=4, parts=2)
    batches = [load(lake, f"{at}.jsonl", part) for at, part in enumerate(parts)]
    with monkeypatch.context() as crash:
        crash.setattr("sluice.operations.publish.finish_undone", lambda *_: died())
        with pytest.raises(ZeroDivisionError):
            refolding.undo_or_refold(lake.context(), batches[0])
    assert state(lake, batches[0]) == states.PUBLISHED
    ledger = lake.context().ledger
    (left,) = ledger.unfinished()
    ledger.lease.release(left.batch_id, left.attempt)
    assert stages.reconcile(lake.context()) == []
    assert state(lake, batches[0]) == states.ROLLED_BACK
    refuse_difference(lake, parts[1])


@pytest.mark.long
def test_interrupted_undo_of_two_batches_is_loaded_again(
    lake: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As an earlier release left it: of the first there are no changes any more."""
    _, parts = history(seed=4, parts=3)
    batches = [load(lake, f"{at}.jsonl", part) for at, part in enumerate(parts)]
    context, first = lake.context(), min(batches[:2])
    with monkeypatch.context() as crash:
        crash.setattr(
            "sluice.operations.publish.finish_undone",
            lambda c, b, order: finish_undone(c, b, order) if b == first else died(),
        )
        with pytest.raises(ZeroDivisionError):
            refolding._refold_without(context, batches[:2], "as asked", False, {})
    assert sorted(state(lake, b) for b in batches[:2]) == [states.PUBLISHED, states.ROLLED_BACK]
    (left,) = context.ledger.unfinished()
    told = {"undone": sorted(batches[:2]), "half_published": True}
    context.ledger.batches.record(left.batch_id, states.FAILED, attempt="x", replace_details=told)
    assert stages.run(lake.context())[1] is None
    assert [state(lake, b) for b in batches[:2]] == [states.ROLLED_BACK] * 2
    refuse_difference(lake, parts[2])


def died() -> Any:
    raise ZeroDivisionError


@pytest.mark.long
def test_row_goes_with_the_last_batch_that_has_it(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The batch that repeats it wrote nothing, and nothing needed to be folded for it then."""
    tables = {"orders": {"key": ["id"], "columns": {"id": "int"}}}
    shop = Sandbox(spark, tmp_path, {"format": "debezium", "tables": tables}).driven(monkeypatch)

    def load_record(name: str, record: str) -> str:
        shop.write(name, [record])
        return shop.run().batch_id

    paid = paper("c", "orders", 20, id=1, status="paid")
    load_record("0.jsonl", paper("c", "orders", 5, id=9, status="base"))
    batches = [load_record("1.jsonl", paid), load_record("2.jsonl", paid.replace('"op"', ' "op"'))]
    for batch in batches:
        refolding.undo_or_refold(shop.context(), batch)
    assert [row["id"] for row in shop.rows("orders")] == [9]
    assert shop.agrees()


@pytest.mark.long
@pytest.mark.parametrize("back", [refolding.undo_or_refold, refolding.undo_or_refold_after])
def test_a_row_that_was_taken_out_beneath_its_delete_does_not_come_back(
    spark: SparkSession,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    back: Callable[[Context, str], refolding.Undone],
) -> None:
    """When it was taken out nothing was to be written, for the key was gone already."""
    tables = {"orders": {"key": ["id"], "columns": {"id": "int"}}}
    shop = Sandbox(spark, tmp_path, {"format": "debezium", "tables": tables}).driven(monkeypatch)
    first, second, third = shop.run_each(
        [paper("c", "orders", 5, id=9, status="base")],
        [paper("c", "orders", 20, id=1, status="paid")],
        [paper("d", "orders", 30, id=1, status="paid")],
    )
    refolding.undo_or_refold(shop.context(), second)
    back(shop.context(), third if back is refolding.undo_or_refold else first)
    assert state(shop, third) == states.ROLLED_BACK
    assert [row["id"] for row in shop.rows("orders")] == [9]
    assert shop.agrees()
