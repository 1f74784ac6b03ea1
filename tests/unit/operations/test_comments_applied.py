"""Comments of targets: what the published batches say together, whatever came when."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest
from pyiceberg.schema import Schema
from pyiceberg.types import IntegerType, NestedField, StringType

from sluice.ledger import states
from sluice.ledger.comment_log import CommentStatement, record, recorded
from sluice.ledger.ledger import Ledger
from sluice.names import PROP_DEFAULTS
from sluice.operations import comments
from sluice.operations.context import Context
from tests.unit.projects import SHOP, open_shop

pytestmark = pytest.mark.catalog

TARGET = ("shop", "orders")


def statement(
    position: int, column: str | None, comment: str | None, turn: int = 0
) -> CommentStatement:
    return CommentStatement(*TARGET, f"0000.2.{position}", turn, column, comment)


BATCHES = {
    "b1": [
        statement(1, "id", "the key"),
        statement(1, None, "orders", turn=1),
        statement(1, "a", "first"),
    ],
    "b2": [statement(2, "a", "second"), statement(2, "NAME", "called")],
    "b3": [statement(3, "name", None), statement(3, "gone", "of no column")],
}


@pytest.fixture
def shop(tmp_path: Path) -> Context:
    return shop_with(tmp_path)


def shop_with(root: Path, pipeline: str = SHOP) -> Context:
    ctx = open_shop(root, pipeline)
    Ledger(ctx.catalog).ensure()
    ctx.catalog.create_namespace_if_not_exists("shop")
    schema = Schema(
        NestedField(1, "id", IntegerType(), required=True),
        NestedField(2, "a", StringType(), required=False),
        NestedField(3, "name", StringType(), required=False),
        NestedField(4, "own", StringType(), required=False, doc="of nobody's DDL"),
    )
    ctx.catalog.create_table(TARGET, schema)
    return ctx


def publish(ctx: Context, *batches: str) -> None:
    for batch in batches:
        record(ctx.catalog, "shop", batch, BATCHES[batch])
        comments.apply_comments(ctx, batch)
        ctx.ledger.batches.record(batch, states.PUBLISHED)


def shown(ctx: Context) -> dict[str, str | None]:
    table = ctx.catalog.load_table(TARGET)
    docs = {f.name: f.doc or None for f in table.schema().fields if f.name != "own"}
    assert table.schema().find_field("own").doc == "of nobody's DDL"
    return docs | {"": table.properties.get("comment")}


ALL = {"id": "the key", "a": "second", "name": None, "": "orders"}


@pytest.mark.parametrize("order", list(itertools.permutations(BATCHES)), ids="-".join)
def test_the_last_by_position_counts_in_whatever_order_batches_come(
    shop: Context, order: tuple[str, ...]
) -> None:
    publish(shop, *order)
    assert shown(shop) == ALL


@pytest.mark.parametrize(
    ("undone", "left"),
    [
        ("b1", {"id": None, "a": "second", "name": None, "": None}),
        ("b2", {"id": "the key", "a": "first", "name": None, "": "orders"}),
        ("b3", {"id": "the key", "a": "second", "name": "called", "": "orders"}),
    ],
)
def test_comments_of_an_undone_batch_are_removed(
    shop: Context, undone: str, left: dict[str, str | None]
) -> None:
    publish(shop, *BATCHES)
    shop.ledger.batches.record(undone, states.ROLLING_BACK)
    comments.apply_comments(shop)
    assert shown(shop) == left


def test_comments_of_an_unpublished_batch_are_not_applied(shop: Context) -> None:
    record(shop.catalog, "shop", "b1", BATCHES["b1"])
    comments.apply_comments(shop)
    assert set(shown(shop).values()) == {None}


def test_a_comment_goes_with_its_column(shop: Context) -> None:
    """What was said of `a` below its rename is said of `name`; what was above, of another `a`."""
    renames = '{"": [["0000.2.2", [["a", "name"]]]]}'
    with shop.catalog.load_table(TARGET).transaction() as transaction:
        transaction.set_properties({PROP_DEFAULTS: renames})
    publish(shop, "b1")
    assert shown(shop) == {"id": "the key", "a": None, "name": "first", "": "orders"}
    publish(shop, "b2")
    assert shown(shop) == {"id": "the key", "a": "second", "name": "called", "": "orders"}


def test_nothing_is_written_where_nothing_is_new(shop: Context) -> None:
    publish(shop, *BATCHES)
    before = shop.catalog.load_table(TARGET).metadata_location
    comments.apply_comments(shop)
    assert shop.catalog.load_table(TARGET).metadata_location == before


def test_a_target_that_is_not_there_waits(shop: Context) -> None:
    shop.catalog.drop_table(TARGET)
    publish(shop, "b1")
    assert not shop.catalog.table_exists(TARGET)


def test_a_pipeline_that_follows_no_changes_takes_no_comments(tmp_path: Path) -> None:
    shop = shop_with(tmp_path, SHOP + "on_schema_change: additive\n")
    publish(shop, *BATCHES)
    assert set(shown(shop).values()) == {None}


def test_attempt_without_comments_removes_those_of_the_attempt_before(shop: Context) -> None:
    for statements, known in (([], 0), (BATCHES["b1"], 3), ([], 0), ([], 0), (BATCHES["b1"], 3)):
        record(shop.catalog, "shop", "b1", statements)
        assert len(recorded(shop.catalog, "shop")) == known
