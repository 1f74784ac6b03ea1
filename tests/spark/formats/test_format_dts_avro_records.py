"""DTS Avro records with more or less than their operation needs: images, names, transactions."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql import Row, SparkSession

from bench.dts_records import integer, message, text
from sluice.config.format_options import DtsAvroOptions
from spark_jobs.formats.dts_avro.decoder import DtsAvro
from tests.spark.dts_records import NONE, ROW, bare_file, datum
from tests.spark.envelopes import at, in_turn

pytestmark = [pytest.mark.spark, pytest.mark.formats]
NEXT = [integer(1), text("b")]
TX = "gtid:7"
OF_TRANSACTIONS = {
    "INSERT": message("INSERT", after=ROW, tx=TX), "DELETE": message("DELETE", before=ROW, tx=TX),
    "UPDATE": message("UPDATE", before=ROW, after=NEXT, tx=TX),
    "COMMIT": message("COMMIT", object=None, tags={}, tx=TX),
}  # fmt: skip
OF_NONE = {
    "INIT": message("INIT", after=ROW, tx=TX), "DDL": message("DDL", after="x", tx=TX),
    "empty": message("INSERT", after=ROW, tx=""), "zero": message("INSERT", after=ROW, tx="0"),
}  # fmt: skip
MESSAGES: dict[str, Any] = {
    **OF_TRANSACTIONS, **OF_NONE,
    "insert_beside_old": message("INSERT", before=[integer(1), NONE], after=ROW),
    "delete_beside_new": message("DELETE", before=ROW, after=[integer(1), NONE]),
    "marker_with_old_row": message("FILL", before=ROW),
    "no_table": message("INSERT", after=ROW, object="db."),
    "empty_tags": message("INSERT", after=ROW, tags={"l_db_name": "", "l_tb_name": ""}),
    "truncate_of_drds": message("DDL", after="TRUNCATE TABLE t", object="db", source="DRDS"),
    "dropped": message("DDL", after="drop table t restrict", object="db"),
    "last_second": message("INIT", 3, after=ROW, seconds=9_999_999_999),
    "first_milli": message("INIT", 3, after=ROW, seconds=10_000_000_000),
}  # fmt: skip


@pytest.fixture(scope="module")
def rows(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Row]:
    """Every message above, decoded in one read."""
    file = bare_file(tmp_path_factory.mktemp("dts") / "all", [*map(datum, MESSAGES.values())])
    return in_turn(DtsAvro().read(spark, (file,), DtsAvroOptions()).collect(), list(MESSAGES))


def test_changes_and_their_commit_are_of_a_transaction(rows: dict[str, Row]) -> None:
    """A full load and DDL are not: they need not wait for a COMMIT."""
    assert {rows[name]["transaction"] for name in OF_TRANSACTIONS} == {TX}
    assert {name for name, row in rows.items() if row["ends"]} == {"COMMIT"}
    assert {rows[name]["transaction"] for name in OF_NONE} == {None}
    assert (rows["empty"]["tx_id"], rows["zero"]["tx_id"]) == (None, "0")


def test_an_operation_has_the_images_that_it_needs(rows: dict[str, Row]) -> None:
    inserted, deleted = rows["insert_beside_old"], rows["delete_beside_new"]
    assert (inserted["before"], inserted["after"]) == (None, {"id": "1", "v": "a"})
    assert (deleted["before"], deleted["after"]) == ({"id": "1", "v": "a"}, None)
    for row in (inserted, deleted):
        assert (row["outcome"], row["absent"], row["old_absent"]) == ("event", None, None)


@pytest.mark.parametrize(
    ("name", "reason"),
    [("marker_with_old_row", "marker_with_row"), ("no_table", "table_missing")],
)
def test_rejects_say_why(rows: dict[str, Row], name: str, reason: str) -> None:
    assert (rows[name]["outcome"], rows[name]["reason"]) == ("reject", reason)


@pytest.mark.parametrize(
    ("name", "op"), [("empty_tags", "insert"), ("truncate_of_drds", "truncate"), ("dropped", "ddl")]
)
def test_tables_by_their_object_or_their_statement(
    rows: dict[str, Row], name: str, op: str
) -> None:
    row = rows[name]
    assert (row["op"], row["database"], row["table"]) == (op, "db", "t")


def test_times_of_eleven_digits_are_milliseconds(rows: dict[str, Row]) -> None:
    seconds, millis = rows["last_second"], rows["first_milli"]
    assert seconds["position"] == at(9_999_999_999, 3, kind=0)
    assert seconds["source_ts"].timestamp() == 9_999_999_999
    assert millis["position"] == at(10_000_000, 3, kind=0)
    assert millis["source_ts"].timestamp() == 10_000_000
