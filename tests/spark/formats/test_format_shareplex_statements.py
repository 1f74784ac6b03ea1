"""SharePlex JSON's records without a row, and the names of their transactions."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql import Row, SparkSession

from spark_jobs.formats.shareplex import SharePlex
from tests.spark.envelopes import assert_rejected, at, decode_named
from tests.spark.shareplex_records import record

pytestmark = [pytest.mark.spark, pytest.mark.formats]
STATEMENT = "alter table O.T add (C date)"
RECORDS: dict[str, Any] = {
    "commit": {"meta": {"op": "COMMIT", "scn": "100", "trans": "7.0.4"}},
    "commit_with_key": record("commit", key={"ID": "1"}),
    "sql": record("ddl") | {"sql": STATEMENT},
    "half_a_name": record("ddl", table="O.") | {"ddl": STATEMENT},
    "two_numbers": record("ins", {"ID": "1"}, trans="7.5"),
    "three_numbers": record("ins", {"ID": "1"}, trans="7.0.4"),
    "four_numbers": record("ins", {"ID": "1"}, trans="7.0.4.1"),
}


@pytest.fixture(scope="module")
def rows(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Row]:
    return decode_named(spark, SharePlex(), tmp_path_factory.mktemp("shareplex"), RECORDS)


def test_a_commit_in_capitals_ends_its_transaction(rows: dict[str, Row]) -> None:
    commit = rows["commit"]
    assert (commit["outcome"], commit["reason"]) == ("ignore", "transaction_marker")
    assert (commit["transaction"], commit["ends"]) == ("7.0.4", True)


def test_a_commit_with_the_row_in_key_is_no_marker(rows: dict[str, Row]) -> None:
    record = rows["commit_with_key"]
    assert_rejected(record, "unknown_op:commit", RECORDS["commit_with_key"])
    assert record["ends"] is False


def test_a_statement_that_is_the_text_of_sql(rows: dict[str, Row]) -> None:
    assert (rows["sql"]["op"], rows["sql"]["ddl"]) == ("ddl", STATEMENT)


def test_a_statement_of_a_name_without_a_table_is_refused(rows: dict[str, Row]) -> None:
    """Unlike one of no name, which concerns no table."""
    assert_rejected(rows["half_a_name"], "bad_table", RECORDS["half_a_name"])


def test_up_to_three_numbers_name_a_transaction(rows: dict[str, Row]) -> None:
    """One of four is no number of three, with which it would fall together."""
    assert rows["two_numbers"]["position"] == at(100, 7, 5, 0, 2)
    assert rows["three_numbers"]["position"] == at(100, 7, 0, 4, 2)
    assert rows["four_numbers"]["position"] != rows["three_numbers"]["position"]
