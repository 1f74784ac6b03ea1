"""What forgotten changes brought stays in all versions of rows that are put together."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from sluice.operations import refolding
from tests.spark.shop import Shop, event

pytestmark = pytest.mark.spark

UNSENT = "__debezium_unavailable_value"


def pipeline(modes: Sequence[str]) -> dict[str, Any]:
    return {"format": "debezium", "tables": {"orders": {"key": ["id"], "modes": list(modes)}}}


@pytest.fixture
def shop(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Shop:
    shop = Shop(spark, tmp_path, pipeline(["current", "history"]))
    shop.driven(monkeypatch)
    return shop


def document_event(op: str, position: int, ident: int, body: str, title: str) -> str:
    return event(op, "orders", position, id=ident, body=body, title=title)


def bodies(shop: Shop, titles: Iterable[str]) -> list[tuple[str, str | None]]:
    rows = shop.rows("orders__history")
    return sorted((r["title"], r["body"]) for r in rows if r["title"] in titles)


def history_of_a_value_that_only_the_row_knew(shop: Shop) -> None:
    """Load a version whose `body` came with a change that maintenance has forgotten."""
    shop.configure(**pipeline(["current"]))
    shop.run(document_event("c", 10, 1, "a", "one"), document_event("u", 12, 1, "b", "two"))
    shop.maintain()
    shop.run(document_event("u", 20, 1, UNSENT, "three"))
    shop.configure(**pipeline(["current", "history"]))
    shop.run(document_event("c", 30, 3, "x", "other"))
    assert bodies(shop, ["three"]) == [("three", "b")]


def test_a_value_that_only_the_row_knew_stays(shop: Shop) -> None:
    history_of_a_value_that_only_the_row_knew(shop)
    shop.run(document_event("u", 20, 1, UNSENT, "three"), document_event("c", 31, 4, "x", "other"))
    assert bodies(shop, ["three"]) == [("three", "b")]


@pytest.mark.long
def test_a_value_that_only_the_row_knew_stays_whatever_comes_later(shop: Shop) -> None:
    """And by a rebuild."""
    history_of_a_value_that_only_the_row_knew(shop)
    shop.run(document_event("u", 15, 1, UNSENT, "late"), document_event("d", 40, 1, "", ""))
    assert bodies(shop, ["late", "three"]) == [("late", "b"), ("three", "b")]
    refolding.rebuild(shop.context())
    assert bodies(shop, ["late", "three"]) == [("late", "b"), ("three", "b")]
    shop.run(document_event("u", 17, 1, "c", "later"))
    assert bodies(shop, ["late", "later", "three"]) == [
        ("late", "b"),
        ("later", "c"),
        ("three", "c"),
    ]


@pytest.mark.long
def test_a_moved_row_keeps_what_its_old_key_had(shop: Shop) -> None:
    """Though maintenance forgets the old half of the change, and not the new one."""
    shop.run(document_event("c", 10, 1, "a", "one"), document_event("d", 20, 1, "a", "one"))
    between = datetime.now(UTC)
    shop.run(document_event("c", 20, 2, UNSENT, "two"))
    shop.run(document_event("u", 30, 2, UNSENT, "four"))
    assert bodies(shop, ["two", "four"]) == [("four", "a"), ("two", "a")]
    shop.maintain(after=timedelta(days=30) - (datetime.now(UTC) - between))
    shop.run(document_event("u", 25, 2, UNSENT, "three"))
    assert bodies(shop, ["two", "three", "four"]) == [("four", "a"), ("three", "a"), ("two", "a")]


@pytest.mark.long
def test_a_late_change_before_a_move_goes_with_the_row(shop: Shop) -> None:
    """Above the floor the changes count, and not what the row had before they came."""
    shop.run(document_event("c", 10, 1, "a", "one"))
    shop.maintain()
    shop.run(document_event("d", 20, 1, "a", "one"), document_event("c", 20, 2, UNSENT, "two"))
    shop.run(document_event("d", 30, 2, "a", "two"), document_event("c", 30, 3, UNSENT, "three"))
    assert bodies(shop, ["two", "three"]) == [("three", "a"), ("two", "a")]
    shop.run(document_event("u", 15, 1, "b", "late"))
    assert bodies(shop, ["two", "three"]) == [("three", "b"), ("two", "b")]
    assert [row["body"] for row in shop.rows("orders")] == ["b"]


@pytest.mark.long
def test_a_change_that_is_left_below_the_floor_keeps_its_values(shop: Shop) -> None:
    """The floor passes it with another batch, and what came before it is forgotten."""
    shop.run(document_event("c", 10, 1, "a", "one"))
    shop.maintain()
    shop.configure(**pipeline(["current"]))
    shop.run(document_event("u", 12, 1, "b", "two"), document_event("c", 25, 2, "x", "other"))
    between = datetime.now(UTC)
    shop.run(document_event("u", 20, 1, UNSENT, "three"))
    shop.configure(**pipeline(["current", "history"]))
    shop.maintain(after=timedelta(days=30) - (datetime.now(UTC) - between))
    shop.run(document_event("c", 40, 4, "x", "other"))
    assert bodies(shop, ["three"]) == [("three", "b")]
    shop.run(document_event("u", 30, 1, UNSENT, "four"), document_event("c", 31, 3, "x", "other"))
    assert bodies(shop, ["three", "four"]) == [("four", "b"), ("three", "b")]


@pytest.mark.long
def test_a_move_that_comes_late_brings_what_the_old_key_had(shop: Shop) -> None:
    """Though a version from after it knew nothing of that."""
    shop.run(document_event("c", 10, 1, "a", "one"))
    shop.maintain()
    shop.run(document_event("u", 30, 2, UNSENT, "three"))
    shop.run(document_event("d", 20, 1, "a", "one"), document_event("c", 20, 2, UNSENT, "two"))
    assert bodies(shop, ["two", "three"]) == [("three", "a"), ("two", "a")]
