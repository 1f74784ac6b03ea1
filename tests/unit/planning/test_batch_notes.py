"""What an operator is told of names in the configuration that nothing in a batch has."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from sluice.config.pipeline import Landing, Pipeline, TableConfig
from sluice.operations.preview import Forecast
from sluice.result import BatchResult
from spark_jobs.decoding import time_units
from spark_jobs.formats import FORMATS
from spark_jobs.merging.hint_notes import otherwise_read, unread
from spark_jobs.merging.notes import unknown_columns, unlisted
from spark_jobs.planning.plan import TablePlan, plan_table
from spark_jobs.planning.stored_hints import hints_to_store
from spark_jobs.planning.table_inputs import StoredTable
from spark_jobs.planning.table_summary import Source, TableSummary

ROWS: dict[int, tuple[str, ...]] = {1: ("id", "Total", "note")}


def pipeline(**more: Any) -> Pipeline:
    given = {"name": "shop", "format": "debezium", "landing": {"url": "l"}, "namespace": "n"}
    return Pipeline.model_validate({**given, **more})


def summary(name: str, records: int, images: dict[int, tuple[str, ...]] = ROWS) -> TableSummary:
    return TableSummary(Source("shop", "public", name), records=records, images=images)


def test_records_of_an_unlisted_table_are_reported() -> None:
    listed = pipeline(tables={"public.order": None})
    assert [*unlisted(listed, [summary("orders", 4)])] == [
        "4 records are of shop.public.orders, which `tables:` does not list; list what is to be "
        "loaded, then: sluice run shop --table shop.public.orders"
    ]


def test_of_many_tables_that_are_not_listed_five_are_named_in_one_line() -> None:
    listed = pipeline(tables={"orders": None})
    others = [summary(f"t{n}", n) for n in range(1, 9)]
    assert [*unlisted(listed, [summary("orders", 9), *others])] == [
        "36 records are of shop.public.t8 (8), shop.public.t7 (7), shop.public.t6 (6), "
        "shop.public.t5 (5), shop.public.t4 (4), 3 more, which `tables:` does not list; list "
        "what is to be loaded, then: sluice run shop --table TABLE"
    ]


@pytest.mark.parametrize(
    "more", [{}, *({"tables": {f"{of}orders": None}} for of in ("", "public.", "shop.public."))]
)
def test_no_note_about_tables_that_are_loaded(more: dict[str, Any]) -> None:
    statements = summary("other", 2, images={})
    nameless = TableSummary(Source("", "", ""), ignored=3)
    chosen = pipeline(**more).choosing([])
    assert [*unlisted(chosen, [summary("orders", 4), statements, nameless])] == []


def notes_on_columns(seen: dict[int, tuple[str, ...]] = ROWS, **table: Any) -> list[str]:
    made = Pipeline(name="p", format="debezium", namespace="n", landing=Landing(url="l"))
    config = TableConfig(key=["id"], **table)
    fmt = FORMATS["debezium"]
    return [
        *unknown_columns(plan_table(made, fmt, summary("orders", 1, seen), config, StoredTable()))
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


def planned_with(**columns: str) -> TablePlan:
    config = TableConfig(key=["id"], columns=columns)
    return plan_table(pipeline(), FORMATS["debezium"], summary("orders", 1), config, StoredTable())


def test_a_hint_of_another_encoding_than_the_stored_rows_were_read_by_is_told() -> None:
    plan = planned_with(Total="timestamp[ms]", note="string", id="bigint")
    (note,) = otherwise_read("shop", plan, '{"total": "timestamptz[us]", "note": "varchar"}')
    assert note == (
        "shop.public.orders: Total is read by timestamp[ms], but its stored rows were read by "
        "timestamptz[us] and stay as they are; to read those again by timestamp[ms]: sluice "
        "rollback shop --batch BATCH for their batches, the newest first, sluice release shop "
        "--batch BATCH, then sluice run shop"
    )
    assert [*otherwise_read("shop", plan, None)] == []
    (note,) = otherwise_read("shop", planned_with(at="date[ms@UTC]"), '{"at": "date[ms]"}')
    assert "at is read by date[ms@UTC], but its stored rows were read by date[ms]" in note


def test_a_table_keeps_the_hints_by_which_its_rows_were_read() -> None:
    plan = planned_with(note="binary[hex]", id="bigint")
    first = hints_to_store(plan, None)
    assert first == '{"id": "bigint", "note": "binary[hex]"}'
    assert hints_to_store(plan, first) is None
    assert hints_to_store(planned_with(id="int"), first) == '{"id": "int", "note": "binary[hex]"}'
    assert hints_to_store(planned_with(ID="int"), first) == '{"ID": "int", "note": "binary[hex]"}'
    assert hints_to_store(planned_with(), None) is None
    rebuilt = replace(plan, summary=TableSummary(plan.source))
    assert hints_to_store(rebuilt, None) is None


def test_a_table_of_which_no_record_fits_is_told_with_what_one_has() -> None:
    plan = planned_with(note="timestamp[ms]")
    assert unread("shop", plan, 2, "note: 'x' does not fit timestamp[ms]", ["note"]) == (
        "of 2 records of shop.public.orders none was read: note: 'x' does not fit timestamp[ms]; "
        "is its hint right? After a change: sluice reprocess shop"
    )
    assert unread("shop", plan, 1, "key_is_null:id", []) == (
        "of 1 record of shop.public.orders none was read: key_is_null:id; after a change: sluice "
        "reprocess shop"
    )


def test_a_hint_is_asked_about_under_any_name_of_its_column() -> None:
    plan = planned_with(Qty="int")
    column = replace(plan.columns[0], name="amount", others=("qty",))
    plan = replace(plan, columns=(column,))
    assert "is its hint right?" in unread(
        "shop", plan, 1, "amount: 'x' does not fit int", ["amount"]
    )


# Microseconds of 2026-03-02, read as milliseconds.
FAR = 1_772_409_600_000_000 * 1000.0


@pytest.mark.parametrize(
    ("every", "late", "microseconds", "told"),
    [(2, 2, 2, True), (4, 3, 2, True), (4, 2, 2, False), (4, 4, 2, False), (0, 0, 0, False)],
)
def test_most_values_are_odd_and_most_of_these_fit_another_unit_or_nothing_is_told(
    every: int, late: int, microseconds: int, told: bool
) -> None:
    counted = {"all": every, "late": late, "early": 0, "least": FAR, "us": microseconds}
    counted = {f"timed_0_{name}": n for name, n in {**counted, "s": 0, "ns": 0}.items()}
    notes = time_units.found(planned_with(note="timestamp[ms]", Total="timestamp"), counted)
    text = (
        f"shop.public.orders: note: {late} of {every} values are after 2200 with timestamp[ms]; "
        "timestamp[us] would give 2026-03-02…: is the unit right?"
    )
    assert notes == ((text,) if told else ())


def test_notes_survive_json_and_older_results_have_none() -> None:
    result = BatchResult("p", "b", "a", (), notes=("look here",))
    assert BatchResult.from_json(result.to_json()) == result
    assert BatchResult.from_json(
        '{"pipeline": "p", "batch_id": "b", "attempt": "a", "tables": [], "unassigned": {}}'
    ) == BatchResult("p", "b", "a", ())
    forecast = Forecast(notes=("look here",))
    assert Forecast.from_json(forecast.to_json()) == forecast
