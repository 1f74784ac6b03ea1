"""Maintenance, a reprocess, a rebuild, an undo by folding that die: the next one completes it.

Each is killed at a point and started again, and the result is compared with an undisturbed one.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from sluice.catalog.client import open_catalog
from sluice.config.project import load_project
from sluice.faults import Point
from sluice.ledger.tables import BATCHES
from sluice.names import LEDGER_NAMESPACE
from tests.faults.lake import Contents, Lake, event, second_hour

pytestmark = [
    pytest.mark.spark, pytest.mark.faults, pytest.mark.long,
    # So pyiceberg deletes rows of such a table, whose files are written anew.
    pytest.mark.filterwarnings("ignore:Merge on read is not yet supported"),
]  # fmt: skip
FORGETFUL: Final = "maintenance: {tombstone_days: 1, changelog_days: 1}\nkeep_tags: 1\n"
BATCH: Final = "<the first batch>"
# In seconds. A batch's id depends on it, and the rows have the id.
LANDED_AT: Final = 1_772_330_400
CHECK: Final = 'checks: [{name: fails, sql: "SELECT 1 FROM {table}"}]'


def _age(lake: Lake) -> None:
    """Let all batches be some days old."""
    table = open_catalog(load_project(lake.root)).load_table((LEDGER_NAMESPACE, BATCHES))
    rows = table.scan().to_arrow()
    at = pc.subtract(rows["at"], pa.scalar(timedelta(days=3)))
    table.overwrite(rows.set_column(rows.column_names.index("at"), rows.schema.field("at"), at))


def _damage(lake: Lake) -> None:
    """Delete rows of two targets, as another writer would."""
    catalog = open_catalog(load_project(lake.root))
    catalog.load_table(("shop", "orders")).delete("id < 9")
    catalog.load_table(("shop", "customers")).delete("id = 3")


def _mend(lake: Lake) -> None:
    """Hint a wider type, so that values fit that did not fit the first time."""
    _pipeline_is(lake, "decimal(9,2)", "decimal(18,2)")


def _fail(lake: Lake) -> None:
    """Land events with a new column, which fail a check."""
    _pipeline_is(lake, "shop.visits: {", f"shop.visits: {{{CHECK}, ")
    tiers = [event("u", "customers", 200 + k, {"id": k, "tier": "new"}) for k in (4, 5)]
    key = "dt=2026-03-01/hr=02/d.jsonl"
    lake.land(key, [*tiers, event("c", "visits", 210, {"at": 7})])
    os.utime(lake.root / "landing" / key, (LANDED_AT, LANDED_AT))


def _maintain(lake: Lake) -> None:
    """Run the maintenance that comes some days later."""
    (left,) = lake.leftovers()
    os.utime(lake.root / "data" / "warehouse" / "_sluice" / "shop" / left, (LANDED_AT, LANDED_AT))
    code, output = lake.command("maintain", "shop")
    assert code == 0, output


def _let_pass(lake: Lake) -> None:
    _pipeline_is(lake, f"{CHECK}, ", "")


def _pipeline_is(lake: Lake, before: str, after: str) -> None:
    path = lake.root / "pipelines" / "shop.yaml"
    path.write_text(path.read_text().replace(before, after))


def _nothing(_: Lake) -> None:
    pass


@dataclass(frozen=True)
class Operation:
    """A command, what is done to the lake before it, and the points at which it is killed; `then`:
    what is done before it is started again."""

    command: tuple[str, ...]
    before: Callable[[Lake], None]
    points: tuple[str, ...]
    then: Callable[[Lake], None] = _nothing


OPERATIONS: Final = {
    "maintain": Operation(
        ("maintain", "shop"), _age,
        (
            f"{Point.MAINTAIN_FLOOR}:1", f"{Point.MAINTAIN_FLOOR}:2",
            f"{Point.TABLE_PROPERTY}:1", f"{Point.LEDGER_REWRITTEN}:1",
            f"{Point.MAINTAIN_FORGOTTEN}:1", f"{Point.MAINTAIN_FORGOTTEN}:3",
            f"{Point.MAINTAIN_STEP}:1", f"{Point.MAINTAIN_STEP}:4", f"{Point.MAINTAIN_STEP}:9",
        ),
    ),
    "reprocess": Operation(
        ("reprocess", "shop", "--reason", "wider"), _mend,
        (
            Point.LAND_MANIFEST, Point.LAND_RECORDED, Point.LOAD_PROMOTED,
            Point.LOAD_DECODED, Point.LOAD_MERGED, Point.LOAD_RECORDED, Point.PUBLISH_INTENT,
            Point.PUBLISH_MARKED, Point.PUBLISH_TABLE,
        ),
    ),
    "rebuild": Operation(
        ("rollback", "shop", "--rebuild"), _damage,
        (
            Point.LAND_MANIFEST, Point.LAND_RECORDED,
            Point.LOAD_BRANCHED, Point.LOAD_RESULT, Point.LOAD_RECORDED, Point.PUBLISH_MARKED,
            Point.PUBLISH_INTENT, Point.PUBLISH_TABLE,
        ),
    ),
    "undo beneath": Operation(
        ("rollback", "shop", "--batch", BATCH), _nothing,
        (
            Point.LOAD_BRANCHED, Point.LOAD_RECORDED, Point.PUBLISH_INTENT, Point.PUBLISH_TABLE,
            Point.PUBLISH_UNDOING, f"{Point.PUBLISH_UNTAGGED}:1", f"{Point.PUBLISH_UNTAGGED}:2",
            f"{Point.TABLE_CHANGES}:1", Point.ROLLBACK_CHANGES, Point.ROLLBACK_RECORDED,
            Point.ROLLBACK_HELD, Point.ROLLBACK_FILES, Point.ROLLBACK_DONE, Point.PUBLISH_FILES,
        ),
    ),
    "fail": Operation(
        ("run", "shop"), _fail,
        (
            f"{Point.LOAD_RESTORED}:1", f"{Point.LOAD_RESTORED}:2", f"{Point.TABLE_BRANCH}:1",
            Point.LOAD_FAILED,
        ),
        _let_pass,
    ),
}  # fmt: skip
# The next rebuild has a manifest of its own; this one is removed once it is old.
_UNKNOWN_TO_THE_LEDGER: Final = ("rebuild", Point.LAND_MANIFEST)
FAULTS: Final = [(name, point) for name, found in OPERATIONS.items() for point in found.points]


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Lake:
    """A lake with two hours loaded, of which one record is in quarantine."""
    lake = Lake.make(tmp_path_factory.mktemp("operations") / "shop", FORGETFUL)
    _load(lake)
    *readable, _ = second_hour()
    lake.land("dt=2026-03-01/hr=01/b.jsonl", [*readable, _WIDE])
    _load(lake)
    lake.save("loaded")
    return lake


_WIDE: Final = event("u", "orders", 190, {"id": 7, "total": "12345678901.50"})


def _load(lake: Lake) -> None:
    code, output = lake.command("run", "shop")
    assert code == 0, output


@pytest.fixture(scope="module")
def wanted(lake: Lake) -> Callable[[str], Contents]:
    """Return a function for the content of the lake after an undisturbed operation."""
    known: dict[str, Contents] = {}

    def of(name: str) -> Contents:
        if name not in known:
            command = _prepared(lake, OPERATIONS[name])
            before = lake.contents()
            OPERATIONS[name].then(lake)
            code, output = lake.command(*command)
            assert code == 0, output
            known[name] = lake.contents()
            assert known[name] != before, f"{name} has nothing to do: its points would say nothing"
        return known[name]

    return of


def _prepared(lake: Lake, operation: Operation) -> tuple[str, ...]:
    lake.restore("loaded")
    operation.before(lake)
    first = min(lake.context().ledger.batches.all(), key=lambda batch: batch.seq).batch_id
    return tuple(first if word == BATCH else word for word in operation.command)


@pytest.mark.parametrize(("name", "fault"), FAULTS)
def test_an_operation_that_dies_is_completed_by_the_next(
    lake: Lake, wanted: Callable[[str], Contents], name: str, fault: str
) -> None:
    complete = wanted(name)
    command = _prepared(lake, OPERATIONS[name])
    code, output = lake.command(*command, fault=fault)
    assert code != 0, f"{fault} was never reached: {output}"
    assert "check fails" not in output, f"{fault} was never reached: {output}"

    OPERATIONS[name].then(lake)
    code, output = lake.command(*command)
    assert code == 0, output
    assert lake.contents().rows == complete.rows
    if (name, fault) == _UNKNOWN_TO_THE_LEDGER:
        _maintain(lake)
    assert lake.leftovers() == []
    assert lake.command("verify", "shop")[0] == 0
