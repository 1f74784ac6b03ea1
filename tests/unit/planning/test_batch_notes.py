"""What an operator is told of names in the configuration that nothing in a batch has."""

from __future__ import annotations

from typing import Any

import pytest

from sluice.config.pipeline import Landing, Pipeline, TableConfig
from sluice.operations.preview import Forecast
from sluice.result import BatchResult
from spark_jobs.formats import FORMATS
from spark_jobs.merging.notes import unknown_columns, unlisted
from spark_jobs.planning.discover import Source, TableSummary
from spark_jobs.planning.plan import plan_table
from spark_jobs.planning.table_inputs import StoredTable

ROWS: dict[int, tuple[str, ...]] = {1: ("id", "Total", "note")}


def pipeline(**more: Any) -> Pipeline:
    given = {"name": "shop", "format": "debezium", "landing": {"url": "l"}, "namespace": "n"}
    return Pipeline.model_validate({**given, **more})


def found(name: str, records: int, images: dict[int, tuple[str, ...]] = ROWS) -> TableSummary:
    return TableSummary(Source("shop", "public", name), records=records, images=images)


def test_records_of_an_unlisted_table_are_reported() -> None:
    listed = pipeline(tables={"public.order": None})
    assert unlisted(listed, [found("orders", 4)]) == (
        "4 records are of shop.public.orders, which `tables:` does not list; to load them list "
        "it, then: sluice run shop --table shop.public.orders"
    )


def test_of_many_tables_that_are_not_listed_five_are_named_in_one_line() -> None:
    listed = pipeline(tables={"orders": None})
    others = [found(f"t{n}", n) for n in range(1, 9)]
    assert unlisted(listed, [found("orders", 9), *others]) == (
        "36 records are of shop.public.t8 (8), shop.public.t7 (7), shop.public.t6 (6), "
        "shop.public.t5 (5), shop.public.t4 (4), 3 more, which `tables:` does not list; to load "
        "them list it, then: sluice run shop --table TABLE"
    )


@pytest.mark.parametrize(
    "tables", [None, {"orders": None}, {"public.orders": None}, {"shop.public.orders": None}]
)
def test_no_note_about_tables_that_are_loaded(tables: dict[str, None] | None) -> None:
    statements = found("other", 2, images={})
    nameless = TableSummary(Source("", "", ""), ignored=3)
    chosen = pipeline(tables=tables).choosing([])
    assert unlisted(chosen, [found("orders", 4), statements, nameless]) == ""


def notes_on_columns(seen: dict[int, tuple[str, ...]] = ROWS, **table: Any) -> list[str]:
    made = Pipeline(name="p", format="debezium", namespace="n", landing=Landing(url="l"))
    config = TableConfig(key=["id"], **table)
    fmt = FORMATS["debezium"]
    return [
        *unknown_columns(plan_table(made, fmt, found("orders", 1, seen), config, StoredTable()))
    ]


def test_hints_for_columns_that_no_event_has_are_reported() -> None:
    wrong = notes_on_columns(
        columns={"idd": "bigint", "TOTAL": "decimal(9,2)"}, null_misfits=["nope", "idd"]
    )
    assert wrong == [
        "columns of shop.public.orders that no event of the batch has: idd, nope; its columns are "
        "Total, id, note"
    ]


def test_no_note_about_hints_for_existing_columns() -> None:
    assert (
        notes_on_columns(columns={"ID": "bigint", "total": "decimal(9,2)"}, null_misfits=["note"])
        == []
    )
    assert notes_on_columns({}, columns={"id": "bigint", "idd": "bigint"}) == []  # a TRUNCATE alone


def test_notes_survive_json_and_older_results_have_none() -> None:
    result = BatchResult("p", "b", "a", (), notes=("look here",))
    assert BatchResult.from_json(result.to_json()) == result
    assert BatchResult.from_json(
        '{"pipeline": "p", "batch_id": "b", "attempt": "a", "tables": [], "unassigned": {}}'
    ) == BatchResult("p", "b", "a", ())
    forecast = Forecast(notes=("look here",))
    assert Forecast.from_json(forecast.to_json()) == forecast
