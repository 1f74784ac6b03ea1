"""Which names the source had for the columns of a key."""

from __future__ import annotations

import pytest

from sluice.column_renames import Rename
from sluice.config.pipeline import TableConfig
from sluice.errors import PlanError
from sluice.ledger.column_log import ColumnStatement
from sluice.names import dropped_column
from spark_jobs.planning.key_names import key_for_names, key_names, without_key
from spark_jobs.planning.stretches import DECLARED
from spark_jobs.planning.table_summary import Source, TableSummary

SUMMARY = TableSummary(Source("shop", "", "orders"))
NOTHING = TableConfig()


def rename(at: str, *pairs: tuple[str, str]) -> Rename:
    return Rename(at, pairs)


def statement(at: str, *pairs: tuple[str | None, str | None]) -> ColumnStatement:
    return ColumnStatement("shop.orders", at, pairs, "")


def test_all_names_of_a_chain_are_the_key_s_column() -> None:
    renames = (rename("1", ("Id", "num")), rename("2", ("num", "order_id"), ("a", "b")))
    assert key_names(SUMMARY, ["num"], renames, []) == {"id": "num", "order_id": "num"}
    assert key_names(SUMMARY, ["a"], renames, []) == {"b": "a"}
    assert key_names(SUMMARY, ["c"], renames, []) == {}


def test_renames_without_the_keys_are_of_other_columns() -> None:
    renames = (rename("1", ("id", "num"), ("a", "b")), rename("2", ("num", "order_id")))
    assert without_key(renames, ["order_id"]) == (rename("1", ("a", "b")),)
    assert without_key(renames, ["other"]) == renames


def test_a_dropped_column_whose_name_came_again_is_none_of_the_key_s() -> None:
    renames = (rename("1", ("size", dropped_column("size"))), rename(DECLARED, ("id", "num")))
    assert key_names(SUMMARY, ["id"], renames, []) == {"num": "id"}
    assert without_key(renames, ["size"]) == renames


@pytest.mark.parametrize(
    "statements",
    [
        [statement("1", ("id", "num"), (None, "id"))],
        [statement("1", ("id", "num")), statement("2", (None, "ID"))],
        [statement("0", ("num", None)), statement("1", ("id", "num"))],
    ],
)
def test_a_name_that_two_columns_had_is_refused(statements: list[ColumnStatement]) -> None:
    with pytest.raises(PlanError, match="'id' of the key, and id and num are also names of"):
        key_names(SUMMARY, ["id"], (rename("1", ("id", "num")),), statements)


def test_a_key_that_events_tell_is_called_as_in_the_table() -> None:
    summary = TableSummary(Source("shop", "", "orders"), keys={1: ("_Op", "id")})
    assert key_for_names(summary, NOTHING, None, (), ()) == ["_Op__source", "id"]
    renames = (rename("1", ("_op__source", "kind")),)
    assert key_for_names(summary, NOTHING, None, (), renames) == ["kind", "id"]


def test_a_taken_name_beside_another_of_the_key_is_another_column() -> None:
    summary = TableSummary(Source("shop", "", "orders"), images={1: ("_Op", "kind")})
    with pytest.raises(PlanError, match="_op__source and kind are also names of another column"):
        key_names(summary, ["kind"], (rename("1", ("_op__source", "kind")),), [])


def test_a_key_that_was_added_before_its_rename_is_one_column() -> None:
    statements = [statement("0", (None, "id")), statement("1", ("id", "num"))]
    assert key_names(SUMMARY, ["id"], (rename("1", ("id", "num")),), statements) == {"num": "id"}


def test_columns_of_the_key_that_changed_their_names_among_them_are_refused() -> None:
    renames = (rename("1", ("a", "b"), ("b", "a")),)
    with pytest.raises(PlanError, match="a and b are also"):
        key_names(SUMMARY, ["a", "b"], renames, [])


def test_a_row_with_both_names_is_of_two_columns() -> None:
    summary = TableSummary(Source("shop", "", "orders"), images={1: ("ID", "num")})
    with pytest.raises(PlanError, match="id and num"):
        key_names(summary, ["id"], (rename("1", ("id", "num")),), [])


def test_key_comes_from_stored_columns_configuration_events_or_script() -> None:
    renames = (rename("1", ("id", "num")),)
    events = TableSummary(Source("shop", "", "orders"), keys={1: ("id",), 2: ("num",)})
    given = TableConfig(key=["k"])
    assert key_for_names(events, given, ("_sluice_nocase_id",), (), renames) == ["id"]
    assert key_for_names(events, given, None, (), renames) == ["k"]
    assert key_for_names(events, NOTHING, None, ("s",), renames) == ["num"]
    assert key_for_names(SUMMARY, NOTHING, None, ("s",), renames) == ["s"]
