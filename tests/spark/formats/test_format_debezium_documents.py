"""MongoDB's documents by Debezium: rows, keys, and the order inside a transaction."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from sluice.config.format_options import DebeziumOptions
from sluice.positions import arrival_of
from spark_jobs.canonical import ALL_BUT
from spark_jobs.formats.debezium.decoder import Debezium
from tests.spark.debezium_events import event
from tests.spark.envelopes import at, decode_named, jsonl
from tests.spark.sandbox import Sandbox

DEFAULTS = DebeziumOptions()
pytestmark = pytest.mark.spark

MONGO_MS = 1704164645000
MONGO = {"connector": "mongodb", "db": "shop", "collection": "t", "ts_ms": MONGO_MS}


def test_documents_of_mongodb(spark: SparkSession, tmp_path: Path) -> None:
    """The images are text; the connector shows only in the second line of the second file."""
    document = {
        "_id": {"$oid": "5f9b"}, "n": {"$numberLong": "12345678901"}, "d": 1.5, "o": {"a": [1]},
        "none": None,
    }  # fmt: skip
    files = (
        jsonl(tmp_path / "a.jsonl", [{"ts_ms": 5}]),
        jsonl(tmp_path / "b.jsonl", [
            {"ts_ms": 6},
            event("c", src=MONGO | {"ord": 2}, after=json.dumps(document)),
            event("u", src=MONGO | {"ord": 10}, after=json.dumps({"_id": 1})),
            event("r", src=MONGO | {"ord": 1}, after=json.dumps({"_id": 1})),
        ]),
    )  # fmt: skip
    decoded = Debezium().read(spark, files, DEFAULTS)
    rows = [r for r in decoded.collect() if r["outcome"] == "event"]
    assert rows[0]["after"] == {
        "_id": "5f9b", "n": "12345678901", "d": "1.5", "o": '{"a":[1]}', "none": None
    }  # fmt: skip
    assert {r["table"] for r in rows} == {"t"}
    assert rows[0]["position"] == at(1704164645000, 2) < rows[1]["position"]
    assert rows[2]["position"] < rows[0]["position"]


def test_documents_have_a_key_of_their_own(spark: SparkSession, tmp_path: Path) -> None:
    """It is `_id`, which the record's key calls `id`; a delete may have nothing but that."""
    document, ident = json.dumps({"_id": {"$oid": "5f9b"}}), {"id": json.dumps({"$oid": "5f9b"})}
    deleted = event("d", src=MONGO | {"ord": 3}, before=None)
    records = [
        event("c", src=MONGO | {"ord": 1}, after=document),
        {"key": ident, "value": event("u", src=MONGO | {"ord": 2}, after=document)},
        {"key": ident, "value": deleted},
        {"key": {"schema": {}, "payload": {"id": '"5f9b"'}}, "value": {"payload": deleted}},
        {"key": ident, "value": None},
        deleted,
    ]
    rows = Debezium().read(spark, (jsonl(tmp_path / "k.jsonl", records),), DEFAULTS).collect()
    document_event = {"_id": "5f9b"}
    assert [r["after"] or r["before"] for r in rows[:4]] == [document_event] * 4
    assert [r["key"] for r in rows[:4]] == [["_id"]] * 4
    assert rows[4]["reason"] == "tombstone"
    assert rows[5]["reason"] == "image_missing"


def document_event(op: str, ident: int, **more: Any) -> dict[str, Any]:
    """An event with its key, at one place of the log unless told."""
    document = None if op == "d" else json.dumps({"_id": ident, "n": more.pop("n", 0)})
    source = MONGO | {"ord": 5} | more
    key = {"id": json.dumps(ident)}
    return {"key": key, "value": event(op, src=source, before=None, after=document)}


def changed(description: Any, ident: int | None = 1, **more: Any) -> dict[str, Any]:
    """An update without its row, as `capture.mode=change_streams` has it."""
    source = MONGO | {"ord": 1}
    key = None if ident is None else {"id": json.dumps(ident)}
    document_event = {"after": None, "before": None, "updateDescription": description} | more
    return {"key": key, "value": event("u", src=source, **document_event)}


def describe(fields: Any = None, removed: Any = None, cut: Any = None) -> dict[str, Any]:
    text = fields if fields is None or isinstance(fields, str) else json.dumps(fields)
    return {"updatedFields": text, "removedFields": removed, "truncatedArrays": cut}


UPDATES: dict[str, Any] = {
    "both": changed(describe({"a": {"$numberLong": "5"}, "o": {"x.y": 1}}, ["b"])),
    "set": changed(describe({"a": None})),
    "removed": changed({"removedFields": ["b", "c"]}),
    "dotted": changed(describe({"a": 1, "o.x": 2})),
    "dotted_removed": changed(describe({"a": 1}, ["o.x"])),
    "cut": changed(describe({"a": 1}, cut=[{"field": "l", "size": 1}])),
    "cut_alone": changed(describe(cut=[{"field": "l", "size": 1}])),
    "no_key": changed(describe({"a": 1}), None),
    "twice": changed(describe('{"a":1,"a":2}')),
    "twice_removed": changed(describe({"a": 1}, ["a"])),
    "null_removed": changed(describe({"a": 1}, [None])),
    "no_document": changed(describe("{a")),
    "patch": changed(None, patch='{"$set":{"a":1}}'),
    "untold": changed(None),
    "empty": changed(describe("{}", [], [])),
    "whole": changed(describe({"a": 1}), after='{"_id":1,"a":1,"b":2}'),
}


def test_mongodb_updates_with_changed_fields_only(spark: SparkSession, tmp_path: Path) -> None:
    rows = decode_named(spark, Debezium(), tmp_path, UPDATES)
    found = {n: (r["outcome"], r["reason"], r["after"], r["absent"]) for n, r in rows.items()}
    ident = {"_id": "1"}
    wanted = {
        "both": ident | {"a": "5", "o": '{"x.y":1}', "b": None},
        "set": ident | {"a": None}, "removed": ident | {"b": None, "c": None},
    }  # fmt: skip
    for name, row in wanted.items():
        assert found.pop(name) == ("event", None, row, [ALL_BUT, *row]), name
    assert found.pop("whole") == ("event", None, ident | {"a": "1", "b": "2"}, None)
    for name in ("untold", "empty"):
        assert found.pop(name)[:2] == ("ignore", "no_change_told"), name
    assert {outcome[:2] for outcome in found.values()} == {("reject", "image_missing")}


def test_update_whose_document_is_gone_is_ignored_where_asked(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Of `change_streams_update_full` alone, where its delete follows, be it of whole fields."""
    rows = decode_named(spark, Debezium(), tmp_path, UPDATES, update_without_document="ignore")
    found = {name: (row["outcome"], row["reason"]) for name, row in rows.items()}
    assert found.pop("whole") == ("event", None)
    assert found.pop("patch") == ("reject", "image_missing")
    for name in ("untold", "empty"):
        assert found.pop(name) == ("ignore", "no_change_told"), name
    assert set(found.values()) == {("ignore", "document_gone")}


def test_fields_that_a_mongodb_update_does_not_name_are_kept(
    spark: SparkSession, tmp_path: Path
) -> None:
    """A time of extended JSON is a number of milliseconds to the hint, also where it is text."""
    hints = {"t": {"columns": {"at": "timestamp[ms]", "on": "timestamp[ms]"}}}
    sandbox = Sandbox(spark, tmp_path, {"format": "debezium", "tables": hints})
    times = {"at": {"$date": 1565546054692}, "on": {"$date": "2019-08-11T17:54:14.692Z"}}
    later = {"at": {"$date": {"$numberLong": "-1"}}}
    update = changed(describe(later, ["b"]))
    update["value"]["source"] |= {"ord": 9}
    first = document_event("c", 1, ord=1)
    first["value"]["after"] = json.dumps({"_id": 1, "a": "x", "b": "y"} | times)
    sandbox.write("1.jsonl", [first, changed(None)])
    sandbox.load_landed()
    sandbox.write("2.jsonl", [update])
    sandbox.load_landed()
    before = datetime(1969, 12, 31, 23, 59, 59, 999000, UTC)
    on = datetime(2019, 8, 11, 17, 54, 14, 692000, UTC)
    assert sandbox.rows("t") == [{"at": before, "on": on, "_id": "1", "a": "x", "b": None}]


def test_events_of_a_transaction_are_in_the_order_of_arrival(
    spark: SparkSession, tmp_path: Path
) -> None:
    """They share `ts_ms` and `ord`; a position alone, and a snapshot's, say no more than before."""
    records = [
        document_event("c", 1, txnNumber=7),
        document_event("d", 1, lsid="x"),
        document_event("c", 2),
        document_event("r", 3, txnNumber=7),
    ]
    written = (jsonl(tmp_path / "a9.jsonl", records), jsonl(tmp_path / "a10.jsonl", records[:1]))
    files = tuple(replace(file, arrival=arrival_of(file.key)) for file in written)
    rows = Debezium().read(spark, files, DEFAULTS).collect()
    rows.sort(key=lambda r: ("a10" in r["file"], r["ordinal"]))
    insert, delete, alone, read, later = (r["position"] for r in rows)
    place = at(MONGO_MS, 5)
    assert alone == place
    assert read.startswith("0.")
    assert [insert, delete, later] == sorted([insert, delete, later])
    assert len({insert, delete, later}) == 3
    assert all(position.startswith(f"{place}.") for position in (insert, delete, later))


def test_documents_after_a_transaction_that_inserts_and_deletes_them(
    spark: SparkSession, tmp_path: Path
) -> None:
    """A document that it makes and takes away is gone; one that it makes anew is there."""
    sandbox = Sandbox(spark, tmp_path, {"format": "debezium"})
    first = [
        document_event("c", 3, ord=1, n=1),
        document_event("c", 1, txnNumber=7, n=1),
        document_event("d", 3, txnNumber=7),
    ]
    second = [
        document_event("d", 1, txnNumber=7),
        document_event("c", 2, txnNumber=7, n=1),
        document_event("u", 2, txnNumber=7, n=2),
        document_event("c", 3, txnNumber=7, n=3),
    ]
    sandbox.write("1.jsonl", first)
    sandbox.load_landed()
    sandbox.write("2.jsonl", second)
    sandbox.load_landed()
    rows = sorted(sandbox.rows("t"), key=lambda row: row["_id"])
    assert rows == [{"_id": "2", "n": "2"}, {"_id": "3", "n": "3"}]


def test_a_tombstone_deletes_its_document_where_asked(spark: SparkSession, tmp_path: Path) -> None:
    """Of a compacted topic nothing else may be left of a delete."""
    sandbox = Sandbox(
        spark, tmp_path, {"format": "debezium", "format_options": {"tombstones": "delete"}}
    )
    gone = {"key": {"id": "1"}, "value": None}
    sandbox.load_records([document_event("c", 1, ord=1), document_event("c", 2, ord=2), gone])
    assert [row["_id"] for row in sandbox.rows("t")] == ["2"]


IDENTS = {
    "uuid": (
        {"$binary": "2ai7ZbKjTJuVmRmYBtHQ1w==", "$type": "04"},
        {"$binary": {"base64": "2ai7ZbKjTJuVmRmYBtHQ1w==", "subType": "04"}},
    ),
    "date": ({"$date": 1565546054692}, {"$date": "2019-08-11T17:54:14.692Z"}),
    "whole_second": ({"$date": 1565546054000}, {"$date": "2019-08-11T17:54:14Z"}),
    "before_1970": ({"$date": -1}, {"$date": {"$numberLong": "-1"}}),
    "int64": ({"$numberLong": "1004"}, 1004),
    "compound": ({"shop": {"$numberLong": "-7"}, "no": 1}, {"shop": -7, "no": 1}),
    "with_dates": (
        {"from": {"$date": 0}, "to": {"$date": 1565546054692}, "d": 1.5},
        {"from": {"$date": "1970-01-01T00:00:00Z"}, "to": {"$date": "2019-08-11T17:54:14.692Z"},
         "d": 1.5},
    ),
    "with_binary": (
        {"a": {"$binary": "AA==", "$type": "00"}, "b": {"$oid": "5f"}},
        {"a": {"$binary": {"base64": "AA==", "subType": "00"}}, "b": {"$oid": "5f"}},
    ),
    "with_pattern": (
        {"a": {"$regex": 'x"\\d', "$options": "i"}},
        {"a": {"$regularExpression": {"pattern": 'x"\\d', "options": "i"}}},
    ),
    "not_a_number": ({"a": float("nan")}, {"a": {"$numberDouble": "NaN"}}),
}  # fmt: skip
"""By type: as an image has it, and as a record's key and `updatedFields` have it."""


def test_delete_finds_its_document_whatever_the_type_of_its_id(
    spark: SparkSession, tmp_path: Path
) -> None:
    records: dict[str, Any] = {}
    for name, (strict, relaxed) in IDENTS.items():
        document = json.dumps({"_id": strict})
        key = {"id": json.dumps(relaxed)}
        records[f"{name}.after"] = event("c", src=MONGO | {"ord": 1}, after=document)
        records[f"{name}.key"] = {"key": key, "value": event("d", src=MONGO, before=None)}
    rows = decode_named(spark, Debezium(), tmp_path, records)
    for name in IDENTS:
        assert rows[f"{name}.after"]["after"] == rows[f"{name}.key"]["before"], name
    assert rows["uuid.key"]["before"] == {"_id": json.dumps(IDENTS["uuid"][0]).replace(" ", "")}
    assert rows["date.key"]["before"] == {"_id": "1565546054692"}
    assert rows["compound.key"]["before"] == {"_id": '{"shop":-7,"no":1}'}


def test_changed_fields_are_spelled_as_whole_documents(spark: SparkSession, tmp_path: Path) -> None:
    """A text that looks like a value of extended JSON is left alone by both."""
    text = {"text": '{"a":{"$numberLong":"7"},"b":{"$date":"2019-08-11T17:54:14Z"}}'}
    strict = {name: pair[0] for name, pair in IDENTS.items()} | text
    relaxed = {name: pair[1] for name, pair in IDENTS.items()} | text
    records = {
        "whole": event("c", src=MONGO | {"ord": 1}, after=json.dumps({"_id": 1} | strict)),
        "changed": changed(describe(relaxed)),
    }
    rows = decode_named(spark, Debezium(), tmp_path, records)
    assert rows["changed"]["after"] == rows["whole"]["after"]
    assert rows["whole"]["after"]["text"] == text["text"]


def test_documents_are_spelled_alike_in_every_mode_of_the_connector(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Canonical Extended JSON wraps every number, those inside of documents and lists too."""
    strict: dict[str, Any] = {
        "d": -2.5, "n": 3, "in": {"x": 1.5e-7, "t": {"$date": -5}}, "a": [0.1, 9],
    }  # fmt: skip
    extended = {
        "d": {"$numberDouble": "-2.5"}, "n": {"$numberInt": "3"},
        "in": {"x": {"$numberDouble": "1.5e-07"}, "t": {"$date": {"$numberLong": "-5"}}},
        "a": [{"$numberDouble": "0.1"}, {"$numberInt": "9"}],
    }  # fmt: skip
    records = {
        name: event("c", src=MONGO | {"ord": 1}, after=json.dumps({"_id": 1} | document))
        for name, document in {"strict": strict, "extended": extended}.items()
    }
    rows = decode_named(spark, Debezium(), tmp_path, records)
    assert rows["extended"]["after"] == rows["strict"]["after"]
    assert rows["strict"]["after"]["a"] == "[0.1,9]"


def test_a_text_that_looks_like_extended_json_stays_a_text(
    spark: SparkSession, tmp_path: Path
) -> None:
    texts = {
        "id": '{"$oid":"abc"}', "n": '{"$numberLong":"5"}', "said": 'he said "{"$oid":"abc"}"',
    }  # fmt: skip
    document = {"_id": texts["id"], "o": {"$oid": "5f"}, "in": {"t": texts["n"]}} | texts
    key = {"id": json.dumps(texts["id"])}
    records = {
        "whole": event("c", src=MONGO | {"ord": 1}, after=json.dumps(document)),
        "gone": {"key": key, "value": event("d", src=MONGO | {"ord": 2}, before=None)},
    }
    rows = decode_named(spark, Debezium(), tmp_path, records)
    nested = json.dumps(document["in"], separators=(",", ":"))
    assert rows["whole"]["after"] == {"_id": texts["id"], "o": "5f", "in": nested} | texts
    assert rows["gone"]["before"] == {"_id": texts["id"]}
