"""StreamX JSON: every operation, order, keys, types, and what is no message at all."""

from __future__ import annotations

import json
import re
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import Row, SparkSession

from sluice.config.format_options import StreamxOptions
from sluice.types.columns import ColumnType
from spark_jobs.formats.streamx import StreamX
from tests.spark.envelopes import (
    assert_rejected,
    assert_tables,
    at,
    decode_named,
    expected_tables,
    fold,
    jsonl,
)
from tests.spark.sandbox import Sandbox

DEFAULTS = StreamxOptions()
pytestmark = pytest.mark.spark
ROW_ID = "#alibaba_rds_row_id#"
# The operations besides those on rows, as DataWorks' page "Appendix: DataHub message formats" lists
# them, spelled out: a list of the decoder's own would lose what the decoder loses.
DDL = ("DDL", "CREATE", "ALTER", "ERASE", "QUERY", "RENAME", "CINDEX", "DINDEX")
IGNORED = (
    "TRANSACTION_BEGIN", "TRANSACTION_END", "GTID", "XACOMMIT", "XAROLLBACK", "MHEARTBEAT",
)  # fmt: skip
BAD_LINES = {
    "cut": '{"schema": {',
    "text": '{"payload": "x"}',
    "heartbeat_with_text": '{"payload": {"op": "MHEARTBEAT", "before": 1}}',
    "other": '{"a": 1}',
}

NOTHING_LEFT_OUT = {"ddl": None}
"""A writer that writes this leaves no NULL out, so a column that a row lacks was not sent."""


def message(op: str, sequence: str | None = "5", **parts: Any) -> dict[str, Any]:
    """A message on table `t`; `before` and `after` are rows."""
    images = {n: {"dataColumn": parts[n]} for n in ("before", "after") if n in parts}
    payload = {"op": op, "sequenceId": sequence, "timestamp": {"eventTime": 1605339932000}}
    source = {"dbName": "db", "schemaName": "s", "tableName": "t"}
    schema = {"primaryKey": parts.get("key", ["id"]), "source": source}
    return {"schema": schema, "payload": payload | images | parts.get("payload", {})}


def truncate(key: list[str], *columns: str) -> dict[str, Any]:
    """A TRUNCATE whose schema describes the table."""
    told = message("TRUNCATE", key=key)
    described = [{"name": name, "type": "LONG"} for name in columns]
    return told | {"schema": told["schema"] | {"dataColumn": described}}


def described(told: dict[str, Any], *columns: str) -> dict[str, Any]:
    """A message whose schema has these columns."""
    listed = [{"name": name, "type": "STRING"} for name in columns]
    return told | {"schema": told["schema"] | {"dataColumn": listed}}


MESSAGES: dict[str, Any] = {
    "partial": described(message("UPDATE_AFTER", before={"id": 1}, after={"ID": 1, "n": 2},
                                 payload=NOTHING_LEFT_OUT), "id", "n", "doc"),
    "partial_insert": described(message("INSERT", after={"id": 1}), "id", "doc"),
    "whole_update": described(message("UPDATE", after={"id": 1, "rowid": 2},
                                      payload=NOTHING_LEFT_OUT), "id"),
    "insert": message("INSERT", after={"id": 1, "n": None}),
    "update": message("UPDATE_AFTER", before={"id": 1}, after={"id": 2}),
    "update_plain": message("UPDATE", after={"id": 2}),
    "old_half": message("UPDATE_BEFOR", before={"id": 1}),
    "old_half_spelt_out": message("UPDATE_BEFORE", before={"id": 1}),
    "delete": message("DELETE", before={"id": 1}),
    "truncate": message("TRUNCATE", payload={"ddl": {"text": "TRUNCATE t", "ddlMeta": "x"}}),
    "truncate_told": truncate(["ID"], "id", "n"), "truncate_half_told": truncate(["id", "k"], "id"),
    "full_load": message("INSERT", "-1", after={"id": 1}, payload={"timestamp": {
        "eventTime": -1, "systemTime": 1731661820245}}),
    "full_load_by_time": message("INSERT", "7", after={"id": 1}, payload={"timestamp": {
        "eventTime": -1}}),
    "full_load_by_sequence": message("INSERT", "-1", after={"id": 1}),
    "insert_with_both": message("INSERT", before={"id": 2}, after={"id": 1}),
    "delete_with_both": message("DELETE", before={"id": 1}, after={"id": 2}),
    "long_sequence": message("INSERT", "9" * 40, after={"id": 1}),
    "no_sequence": message("INSERT", None, after={"id": 1}),
    "bad_sequence": message("INSERT", "-2", after={"id": 1}),
    "no_table": {**message("INSERT", after={"id": 1}), "schema": {"source": {"tableName": ""}}},
    "no_table_truncate": {**message("TRUNCATE"), "schema": {}},
    "exact": json.dumps(message("INSERT", after={"id": 0})).replace(
        '"id": 0', '"id": 12345678901234567890.123456789, "x": 1.10, "o": {"k": 1.10}'),
    "twice": json.dumps(message("INSERT", after={"id": 0})).replace('"id": 0', '"id": 1, "id": 2'),
    "statement": message("DDL", payload={"ddl": {"text": "ALTER TABLE t ADD c INT"}}),
    "truncate_stated": message("QUERY", payload={"ddl": {"text": "TRUNCATE TABLE t"}}),
    "truncate_in_brackets": message("DDL", payload={"ddl": {"text": "truncate table [dbo].[T];"}}),
    "truncate_of_a_part": message("DDL", payload={"ddl": {
        "text": "TRUNCATE TABLE t WITH (PARTITIONS (2))"}}),
    "time_huge": message("INSERT", after={"id": 1}, payload={"timestamp": {
        "eventTime": 9223372036854775807}}),
    "unknown": message("MERGE", after={"id": 1}),
    "wrong_case": message("insert", after={"id": 1}),
    "no_image": message("INSERT", before={"id": 1}),
    "no_old_image": message("DELETE", after={"id": 1}),
    "empty_image": message("INSERT", key=None, after={}),
    "empty_old_image": message("DELETE", key=None, before={}),
    "no_key": message("INSERT", key=None, after={"id": 1}),
    "empty_key": message("INSERT", key=[], after={"id": 1}),
    "other_case_key": message("INSERT", key=["ID"], after={"id": 1}),
    "hidden_key": message("INSERT", key=None, after={"id": 1, ROW_ID: 15}),
    "half_key": message("INSERT", key=["id", "name"], after={"id": 1}),
    **{op: message(op, payload={"ddl": {"text": f"{op} x"}}) for op in DDL},
    **{op: {"schema": {}, "payload": {"op": op}} for op in IGNORED},
    **BAD_LINES,
}  # fmt: skip


@pytest.fixture(scope="module")
def rows(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Row]:
    """Every message above, decoded in one read, by its name."""
    folder = tmp_path_factory.mktemp("streamx")
    return decode_named(spark, StreamX(), folder, MESSAGES)


@pytest.mark.parametrize(
    ("name", "op"),
    [
        ("insert", "insert"), ("update", "update"), ("update_plain", "update"),
        ("old_half", "delete"), ("old_half_spelt_out", "delete"), ("delete", "delete"),
        ("truncate", "truncate"), ("statement", "ddl"), *((op, "ddl") for op in DDL),
        ("time_huge", "insert"), ("truncate_stated", "truncate"),
        ("truncate_in_brackets", "truncate"), ("truncate_of_a_part", "ddl"),
    ],
)  # fmt: skip
def test_operations(rows: dict[str, Row], name: str, op: str) -> None:
    assert (rows[name]["outcome"], rows[name]["op"], rows[name]["raw"]) == ("event", op, None)


@pytest.mark.parametrize("op", IGNORED)
def test_markers_and_heartbeats_are_ignored(rows: dict[str, Row], op: str) -> None:
    assert (rows[op]["outcome"], rows[op]["reason"]) == ("ignore", op)


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("unknown", "unknown_op:MERGE"), ("wrong_case", "unknown_op:insert"),
        ("no_image", "image_missing"), ("no_old_image", "image_missing"),
        ("empty_image", "image_missing"), ("empty_old_image", "image_missing"),
        ("bad_sequence", "bad_sequence_id"), ("twice", "duplicate_column"),
        ("no_table", "table_missing"), ("no_table_truncate", "table_missing"),
        ("cut", "not_json"), ("text", "not_json"),
        ("heartbeat_with_text", "not_json"), ("other", "not_an_envelope"),
    ],
)  # fmt: skip
def test_rejects_say_why_and_keep_their_text(rows: dict[str, Row], name: str, reason: str) -> None:
    assert_rejected(rows[name], reason, MESSAGES[name])


def test_statements_and_times(rows: dict[str, Row]) -> None:
    assert rows["statement"]["ddl"] == "ALTER TABLE t ADD c INT"
    assert rows["insert"]["source_ts"].timestamp() == 1605339932
    assert rows["time_huge"]["source_ts"] is None


def test_images_keep_null_and_exact_text(rows: dict[str, Row]) -> None:
    assert rows["insert"]["after"] == {"id": "1", "n": None}
    assert rows["insert"]["before"] is None
    assert rows["exact"]["after"] == {
        "id": "12345678901234567890.123456789",
        "x": "1.10",
        "o": '{"k": 1.10}',
    }
    assert (rows["update"]["before"], rows["update"]["after"]) == ({"id": "1"}, {"id": "2"})


def test_an_insert_takes_no_row_away_and_a_delete_leaves_none(rows: dict[str, Row]) -> None:
    insert, delete = rows["insert_with_both"], rows["delete_with_both"]
    assert (insert["before"], insert["after"]) == (None, {"id": "1"})
    assert (delete["before"], delete["after"]) == ({"id": "1"}, None)


def test_positions_compare_as_integers_of_any_length(rows: dict[str, Row]) -> None:
    assert rows["insert"]["position"] == at(5)
    assert rows["long_sequence"]["position"] == at("9" * 40)
    assert rows["no_sequence"]["position"] is None
    full_load = rows["full_load"]["position"]
    assert full_load == at(1731661820245, kind=0)
    assert rows["full_load_by_time"]["position"] == "0.010"
    assert rows["full_load_by_sequence"]["position"] == "0.010"
    assert rows["full_load"]["source_ts"] is None
    assert full_load < rows["insert"]["position"] < rows["long_sequence"]["position"]


@pytest.mark.parametrize(
    ("name", "key"),
    [
        ("insert", ["id"]), ("delete", ["id"]), ("no_key", None), ("empty_key", None),
        ("other_case_key", ["ID"]),
        ("hidden_key", [ROW_ID]), ("half_key", None), ("truncate", None),
        ("truncate_told", ["ID"]), ("truncate_half_told", None),
    ],
)  # fmt: skip
def test_keys_are_given_or_left_open(rows: dict[str, Row], name: str, key: list[str]) -> None:
    assert rows[name]["key"] == key


def test_names_times_and_statements(rows: dict[str, Row]) -> None:
    row = rows["ALTER"]
    assert (row["database"], row["schema"], row["table"], row["ddl"]) == ("db", "s", "t", "ALTER x")
    assert row["source_ts"].timestamp() == 1605339932
    assert rows["truncate"]["ddl"] == "TRUNCATE t"


@pytest.mark.parametrize("turned", [False, True])
def test_an_update_in_two_messages(spark: SparkSession, tmp_path: Path, turned: bool) -> None:
    """The old half goes first whatever comes first in the file, with the key changed or not."""
    pairs = [
        message("INSERT", "1", after={"id": 1, "v": "a"}),
        message("UPDATE_BEFOR", "2", before={"id": 1, "v": "a"}),
        message("UPDATE_AFTER", "2", after={"id": 1, "v": "b"}),
        message("INSERT", "3", after={"id": 2, "v": "c"}),
        message("UPDATE_BEFOR", "4", before={"id": 2, "v": "c"}),
        message("UPDATE_AFTER", "4", after={"id": 3, "v": "c"}),
    ]
    file = jsonl(tmp_path / "pairs.jsonl", reversed(pairs) if turned else pairs)
    rows = StreamX().read(spark, (file,), DEFAULTS).collect()
    assert fold(rows, ["id"]) == {
        ("1",): {"id": "1", "v": "b"},
        ("3",): {"id": "3", "v": "c"},
    }


@pytest.fixture
def lake(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Sandbox:
    """A lake whose drivers run in here."""
    return Sandbox(spark, tmp_path, {"format": "streamx"}).driven(monkeypatch)


def test_a_first_batch_of_a_truncate_makes_the_table(lake: Sandbox) -> None:
    inserts = [message("INSERT", sequence, after={"id": int(sequence)}) for sequence in "47"]
    lake.run_each([truncate(["id"], "id")], inserts)
    assert lake.rows("t") == [{"id": 7}]


def load(lake: Sandbox, messages: list[dict[str, Any]], batches: list[tuple[int, ...]]) -> None:
    """Load messages on rows of `id` and `doc`, in batches that name them by their numbers."""
    described_messages = [described(each, "id", "doc") for each in messages]
    lake.run_each(*([described_messages[at] for at in batch] for batch in batches))


@pytest.mark.parametrize(
    "batches",
    [
        pytest.param([(0, 1, 2)], marks=pytest.mark.long),
        pytest.param([(0, 2), (1,)], marks=pytest.mark.long),
        [(2,), (1,), (0,)],
    ],
)
def test_a_key_that_changes_in_two_messages_keeps_what_they_leave_out(
    lake: Sandbox, batches: list[tuple[int, ...]]
) -> None:
    messages = [
        message("INSERT", "1", after={"id": 1, "doc": "x"}),
        message("UPDATE_BEFOR", "2", before={"id": 1}),
        message("UPDATE_AFTER", "2", after={"id": 2}, payload=NOTHING_LEFT_OUT),
    ]
    load(lake, messages, batches)
    assert lake.rows("t") == [{"id": "2", "doc": "x"}]
    assert lake.agrees()


@pytest.mark.parametrize("batches", [[(0, 1, 2)], [(0, 2), (1,)]])
def test_repeated_old_row_deletes_nothing(lake: Sandbox, batches: list[tuple[int, ...]]) -> None:
    """In a message of its own, and beside the new one."""
    messages = [
        message("INSERT", "1", after={"id": 1, "doc": "x"}),
        message("UPDATE_BEFOR", "2", before={"id": 1, "doc": "x"}),
        message("UPDATE_AFTER", "2", before={"id": 1, "doc": "x"}, after={"id": 1, "doc": "y"}),
    ]
    load(lake, messages, batches)
    assert lake.rows("t") == [{"id": "1", "doc": "y"}]


def test_columns_from_the_six_types() -> None:
    names = ("BOOLEAN", "LONG", "DOUBLE", "DATE", "BYTES", "STRING", "GEOMETRY")
    described = json.dumps([{"name": n.lower(), "type": n} for n in names])
    columns = StreamX().columns(described, DEFAULTS)
    assert [c.name for c in columns] == [n.lower() for n in names]
    assert [c.type for c in columns] == [
        ColumnType("boolean"), ColumnType("bigint"), ColumnType("double", "exact"),
        ColumnType("timestamp", "ms"), ColumnType("binary", "base64"),
        ColumnType("string"), ColumnType("string"),
    ]  # fmt: skip


def test_the_vendors_examples(spark: SparkSession, fixtures: Path, tmp_path: Path) -> None:
    folder = fixtures / "seed-examples"
    paths = [p for f in ("datahub-blob-json", "dataworks-kafka-json")
             for p in sorted((folder / f).glob("*.json"))]  # fmt: skip
    file = jsonl(tmp_path / "examples.jsonl", [json.loads(p.read_text()) for p in paths])
    rows = StreamX().read(spark, (file,), DEFAULTS).collect()
    assert len(rows) == len(paths)
    assert {r["outcome"] for r in rows} == {"event", "ignore"}
    assert [r["op"] for r in rows if r["op"]] == [
        "insert", "delete", "update_after", "delete", "ddl",
        "insert", "delete", "update_after", "update", "delete",
    ]  # fmt: skip
    assert {tuple(r["key"]) for r in rows if r["key"]} == {("id", "name"), (ROW_ID,)}


@pytest.mark.parametrize("folder", ["datahub-blob-json", "dataworks-kafka-json"])
def test_the_vendors_templates(
    spark: SparkSession, fixtures: Path, tmp_path: Path, folder: str
) -> None:
    """Without their remarks, some of which have a comma in them, once for each operation that they
    list, with a sequence."""
    path = fixtures / "seed-examples" / folder / "01-format-template.txt"
    plain = re.sub(r"//[^\n]*", "", path.read_text())
    plain = re.sub(r'"?XXX"?', '"7"', plain)
    plain = re.sub(r'(["}\d])[ ]*\n(\s*")', r"\1,\n\2", plain)
    template = json.loads(plain)
    ops = template["payload"]["op"].removesuffix("...").split("/")
    messages = [template | {"payload": template["payload"] | {"op": op}} for op in ops]
    rows = (
        StreamX().read(spark, (jsonl(tmp_path / "examples.jsonl", messages),), DEFAULTS).collect()
    )
    assert len(ops) >= 17
    found = dict(zip(ops, sorted(rows, key=lambda r: r["ordinal"]), strict=True))
    assert {op for op, row in found.items() if row["outcome"] == "ignore"} == set(IGNORED)
    assert {op for op, row in found.items() if row["op"] == "ddl"} == set(DDL) - {"DDL"}
    update = found["UPDATE" if "UPDATE" in found else "UPDATE_AFTER"]
    assert (update["before"]["name"], update["after"]["name"]) == ("scooter", "donald")
    assert not [op for op, row in found.items() if row["outcome"] == "reject"]


def test_real_data(spark: SparkSession, fixtures: Path, tmp_path: Path) -> None:
    case = fixtures / "streamx-json" / "paimon" / "aliyun-insert"
    text = (case / "event-insert.txt").read_text()
    file = jsonl(tmp_path / "e.jsonl", [x for x in text.splitlines() if x.startswith("{")])
    rows = StreamX().read(spark, (file,), DEFAULTS).collect()
    assert rows[0]["position"].startswith("0.")
    assert_tables(rows, expected_tables(case / "final.expected.json"), StreamX())


def test_local_times_and_dates_of_a_job_in_another_zone(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The vendor's example of a DATE is 2020-05-24 18:14:29 in Shanghai; only hints with the zone
    give it, and a DATE without a hint stays the instant."""
    kinds = {"id": "LONG", "created": "DATE", "born": "DATE", "seen": "DATE"}
    told = message("INSERT", after={"id": 1, "created": 1590315269000, "born": 1590249600000,
                                    "seen": 1590315269000})  # fmt: skip
    listed = [{"name": name, "type": kind} for name, kind in kinds.items()]
    told |= {"schema": told["schema"] | {"dataColumn": listed}}
    hints = {"created": "timestamp_ntz[@Asia/Shanghai]", "born": "date[ms@Asia/Shanghai]"}
    pipeline = {"format": "streamx", "tables": {"db.s.t": {"columns": hints}}}
    lake = Sandbox(spark, tmp_path, pipeline).driven(monkeypatch)
    lake.run_each([told])
    assert lake.rows("t") == [
        {"id": 1, "created": datetime(2020, 5, 24, 18, 14, 29), "born": date(2020, 5, 24),
         "seen": datetime(2020, 5, 24, 10, 14, 29, tzinfo=UTC)},
    ]  # fmt: skip


def test_a_described_column_that_an_update_lacks_is_absent(rows: dict[str, Row]) -> None:
    """An insert has no earlier value that could have stayed."""
    absent = {name: rows[name]["absent"] for name in ("partial", "partial_insert", "whole_update")}
    assert absent == {"partial": ["doc"], "partial_insert": None, "whole_update": None}
