"""Huawei CDL JSON: messages that look like a message of another kind, and are none."""

from __future__ import annotations

import json
from typing import Any

import pytest
from pyspark.sql import Row, SparkSession

from spark_jobs.formats.huawei_cdl.decoder import HuaweiCdl
from tests.spark.cdl_messages import BARE, LSN, pairs, v1, v2
from tests.spark.envelopes import assert_event, assert_rejected, at, decode_named

pytestmark = [pytest.mark.spark, pytest.mark.formats]
REDO = {"commit_scn": 99, "scn": 98, "ssn": 3}
MESSAGES: dict[str, Any] = {
    # events
    "insert_with_a_status": v1(status="BEGIN"),
    "insert_with_a_statement": v1(ddl="TRUNCATE TABLE t"),
    "insert_beside_the_heartbeats": v1(SEG_OWNER="cdc_cdl"),
    "truncate_with_an_identifier": v2("t", after=None, unique=None, HEARTBEAT_IDENTIFIER="x"),
    "ddl_without_an_operation": v1(None, **BARE, ddl="DROP TABLE t"),
    "ddl_without_a_table": v1("DDL", **BARE, TABLE_NAME=None, ddl="CREATE SCHEMA s"),
    # rejects
    "update_with_a_statement": v1("UPDATE", **BARE, ddl="DROP TABLE t"),
    "update_of_nothing": v1("UPDATE", **BARE, HEARTBEAT_IDENTIFIER=None),
    "key_without_an_operation": v1(None, data=None),
    "source_alone": {"payload": {"ts_ms": 5, "source": {"db": "cdl"}}},
    "other_status": {"payload": {"status": "DONE", "message_version": "2.0"}},
    "heartbeat_of_another_version": v1("HEARTBEAT", **BARE, message_version="3.0"),
    "before_twice": json.dumps(v1("DELETE")).replace(
        '"before": {"id": 1', '"before": {"id": 1, "id": 2'),
    # places
    "update_in_a_snapshot": v2("u", {"snapshot": "true"}),
    "padded_rs_id": v1(properties=pairs(**REDO, rs_id=" 0x00000a.00000010.0001 ")),
    "bare_rs_id": v1(properties=pairs(**REDO, rs_id="00000a.00000010.0001")),
    "redo_beside_an_lsn": v1(properties=pairs(**REDO, rs_id="0xa.10.1", lsn=LSN)),
    # old rows
    "key_alone_with_lobs": v1("DELETE", before=None, LOB_COLUMNS="a"),
    "insert_over_lobs": v1(before={"id": 9, "a": None}, LOB_COLUMNS="a"),
}  # fmt: skip


@pytest.fixture(scope="module")
def rows(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Row]:
    """Every message above, decoded in one read, by its name."""
    return decode_named(spark, HuaweiCdl(), tmp_path_factory.mktemp("cdl"), MESSAGES)


@pytest.mark.parametrize("name", [name for name in MESSAGES if name.startswith("insert_")])
def test_a_row_is_a_row_whatever_stands_beside_it(rows: dict[str, Row], name: str) -> None:
    assert_event(rows[name], "insert")
    assert (rows[name]["after"], rows[name]["ddl"]) == ({"id": "1", "name": "a"}, None)


def test_statements_and_truncates_are_no_heartbeats(rows: dict[str, Row]) -> None:
    assert_event(rows["truncate_with_an_identifier"], "truncate")
    for name, ddl in {
        "ddl_without_an_operation": "DROP TABLE t", "ddl_without_a_table": "CREATE SCHEMA s",
    }.items():  # fmt: skip
        assert_event(rows[name], "ddl")
        assert rows[name]["ddl"] == ddl


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("update_with_a_statement", "image_missing"), ("update_of_nothing", "image_missing"),
        ("key_without_an_operation", "not_an_envelope"),
        ("source_alone", "not_an_envelope"), ("other_status", "not_an_envelope"),
        ("heartbeat_of_another_version", "unknown_version:3.0"),
        ("before_twice", "duplicate_column"),
    ],
)  # fmt: skip
def test_what_only_seems_to_be_ignorable_is_rejected(
    rows: dict[str, Row], name: str, reason: str
) -> None:
    assert_rejected(rows[name], reason, MESSAGES[name])


def test_a_change_has_its_own_place_whatever_its_source_says_of_a_snapshot(
    rows: dict[str, Row],
) -> None:
    assert rows["update_in_a_snapshot"]["position"].startswith(f"{at(LSN, LSN)}.")


@pytest.mark.parametrize("name", ["padded_rs_id", "bare_rs_id", "redo_beside_an_lsn"])
def test_a_place_in_oracles_redo_in_any_spelling_and_above_an_lsn(
    rows: dict[str, Row], name: str
) -> None:
    assert rows[name]["position"] == at(99, 98, 10, 16, 1, 3)


def test_large_columns_say_nothing_of_a_row_that_is_not_sent(rows: dict[str, Row]) -> None:
    """Of a key alone every other column is unknown; an insert has no old row."""
    assert rows["key_alone_with_lobs"]["old_absent"] == ["", "id"]
    assert (rows["insert_over_lobs"]["before"], rows["insert_over_lobs"]["old_absent"]) == (
        None, None,
    )  # fmt: skip
