"""Comments that DDL tells: the same in every order of arrival, and gone with a rollback."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from sluice.errors import PlanError
from sluice.ledger.pipeline_lease import PipelineLease
from sluice.operations import comments, refolding, stages
from sluice.operations.held_files import release
from spark_jobs.decoding import ddl_comments
from tests.spark.renamed import Row, ddl, event
from tests.spark.sandbox import Sandbox

pytestmark = pytest.mark.spark

BATCHES: dict[str, list[Row]] = {
    "rows": [event("c", 2, id=1, title="a"), event("c", 3, id=2, title="b")],
    "said": [
        ddl(1, "CREATE TABLE orders (id INT COMMENT 'key', title TEXT COMMENT 'old') COMMENT 'o'"),
        ddl(4, "ALTER TABLE `orders` MODIFY COLUMN title TEXT COMMENT 'it''s; DROP TABLE x\x1b'"),
    ],
    "renamed": [ddl(6, "ALTER TABLE orders RENAME COLUMN title TO name")],
    "since": [ddl(7, "ALTER TABLE orders COMMENT = 'all orders'"), event("c", 8, id=3, name="c")],
}
WANTED = {"": "all orders", "id": "key", "title": None, "name": "it's; DROP TABLE x"}
ORDERS = (
    ["rows", "said", "renamed", "since"],
    ["since", "renamed", "said", "rows"],
    ["said", "since", "rows", "renamed"],
)


@pytest.fixture
def lake(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Sandbox:
    """With a ledger; drivers run in here."""
    orders = {"key": ["id"], "columns": {"id": "int"}}
    shop = Sandbox(spark, tmp_path, {"format": "debezium", "tables": {"orders": orders}})
    return shop.driven(monkeypatch)


def run(lake: Sandbox, name: str) -> str:
    lake.write(f"{name}.jsonl", BATCHES[name])
    return lake.run().batch_id


def shown(lake: Sandbox) -> dict[str, Any]:
    """The comment of the target, and of those of its columns that are the source's."""
    table = lake.catalog.load_table(("shop", "orders"))
    docs = {f.name: f.doc or None for f in table.schema().fields if f.name[0] != "_"}
    return {"": table.properties.get("comment"), **docs}


@pytest.mark.parametrize(
    "order",
    [
        pytest.param(order, marks=[] if order[0] == "since" else [pytest.mark.long])
        for order in ORDERS
    ],
    ids="-".join,
)
def test_comments_depend_on_the_set_of_statements_alone(lake: Sandbox, order: list[str]) -> None:
    for name in order:
        run(lake, name)
    assert shown(lake) == WANTED
    assert lake.agrees()


@pytest.mark.long
def test_a_comment_on_a_column_whose_name_is_taken_is_that_of_its_replacement(
    lake: Sandbox,
) -> None:
    said = ddl(2, "ALTER TABLE orders MODIFY COLUMN _op TEXT COMMENT 'kind'")
    lake.write("0.jsonl", [event("c", 1, id=1, _op="a"), said])
    lake.run()
    schema = lake.catalog.load_table(("shop", "orders")).schema()
    assert schema.find_field("_op__source").doc == "kind"


@pytest.mark.long
def test_a_comment_is_undone_with_its_batch_and_comes_again(lake: Sandbox) -> None:
    batches = {name: run(lake, name) for name in ("rows", "said", "renamed", "since")}
    refolding.undo_or_refold(lake.context(), batches["said"])
    assert shown(lake) == {"": "all orders", "id": None, "title": None, "name": None}
    refolding.undo_or_refold(lake.context(), batches["since"])
    assert shown(lake)[""] is None
    for name in ("said", "since"):
        release(lake.context(), batches[name])
    stages.run(lake.context())
    assert shown(lake) == WANTED


def test_reconcile_sets_comments_of_a_publication_that_died(
    lake: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    run(lake, "rows")
    lake.write("said.jsonl", BATCHES["said"])
    with monkeypatch.context() as dying:
        dying.setattr(comments, "apply_comments", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            stages.run(lake.context())
    assert set(shown(lake).values()) == {None}
    monkeypatch.setattr(PipelineLease, "has_lapsed", lambda *_: True)
    stages.reconcile(lake.context())
    assert shown(lake)["id"] == "key"


def test_comment_on_statements_of_oracle_are_applied(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    orders = {"key": ["ID"], "columns": {"ID": "int"}}
    shop = Sandbox(spark, tmp_path, {"format": "shareplex", "tables": {"S.ORDERS": orders}})
    shop.driven(monkeypatch)
    place = {"time": "2017-06-16T14:24:34", "trans": "7.0.1", "seq": 1, "table": "S.ORDERS"}
    shop.write("a.jsonl", [
        {"meta": place | {"op": "ins", "scn": "5"}, "data": {"ID": "1"}},
        {"meta": place | {"op": "ddl", "scn": "7"}, "ddl": "COMMENT ON COLUMN S.ORDERS.ID IS ''"},
        {"meta": place | {"op": "ddl", "scn": "6"}, "ddl": "COMMENT ON COLUMN S.ORDERS.ID IS 'x'"},
        {"meta": place | {"op": "ddl", "scn": "6"}, "ddl": "COMMENT ON TABLE S.ORDERS IS 'all'"},
        {"meta": place | {"op": "ddl", "scn": "8"}, "ddl": "COMMENT ON COLUMN S.OTHER.ID IS 'y'"},
    ])  # fmt: skip
    shop.run()
    table = shop.catalog.load_table(("shop", "ORDERS"))
    assert (table.properties["comment"], table.schema().find_field("ID").doc) == ("all", None)


def test_too_many_comments_are_refused_as_such(
    lake: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ddl_comments, "_MOST", 0)
    lake.write("a.jsonl", [ddl(1, "COMMENT ON TABLE orders IS 'all'")])
    with pytest.raises(PlanError, match=r"may set a comment: .*sluice release p --batch"):
        lake.run()
