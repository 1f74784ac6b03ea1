"""Debezium in Avro from landed files to tables: layouts, tombstones, delivery in any order."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.spark.avroevents import (
    KEY,
    KEYED,
    LATER,
    ROW,
    VARIABLE,
    container,
    decode,
    envelope,
    event,
    key_schema,
    optional,
    pairs,
    source,
    wire,
    write_schemas,
)
from tests.spark.envelopes import jsonl
from tests.spark.sandbox import Sandbox, total

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_schemas(tmp_path_factory.mktemp("schemas"))


def encoded(op: str, after: Any = None, **more: Any) -> dict[str, Any]:
    """An event of the schema ORDERS_LINE in Avro's JSON encoding."""
    image = None if after is None else {"srv.shop.t.Value": after}
    lsn = {"long": more.pop("lsn", 5)}
    src = {"connector": "postgresql", "db": "shop", "table": "t", "lsn": lsn}
    return {"before": None, "after": image, "op": op, "source": src, "ts_ms": {"long": 9}} | more


def json_encoding_lines() -> list[str]:
    columns = {"id": {"type": "int"}, "n": optional("long"), "b": optional("bytes"),
               "v": optional(VARIABLE), "u": ["null", "string", "int"]}  # fmt: skip
    schema = envelope(columns)
    schema["fields"][2]["type"] = {"type": "record", "name": "Source", "fields": [
        {"name": "connector", "type": "string"}, {"name": "db", "type": "string"},
        {"name": "table", "type": "string"}, {"name": "lsn", **optional("long")}]}  # fmt: skip
    variable = {"io.debezium.data.VariableScaleDecimal": {"scale": 1, "value": "\u00ff"}}
    full = {"id": 1, "n": {"long": 2**62}, "b": {"bytes": "\u0000\u00e9"}, "v": variable,
            "u": {"int": 3}}  # fmt: skip
    empty = {"id": 2, "n": None, "b": None, "v": None, "u": {"string": "s"}}
    lines = [
        (1, encoded("c", full)),
        (2, encoded("c", empty, lsn=6)),
        (2, encoded("u", empty | {"n": {"long": 7}}, lsn=7)),
    ]
    header = f"{json.dumps(key_schema('id'))}^{json.dumps(schema)}"
    texts = [f'{{"id": {key}}}^{json.dumps(value)}' for key, value in lines]
    return [header, *texts, '{"id": 2}^', '{"id": 3}^', '{"id": 4}^{"op": 1.5e']


def test_the_json_encoding_as_it_is_landed(spark: SparkSession, tmp_path: Path) -> None:
    """A line of schemas tells it; the tombstone of a key that had an event deletes its row."""
    sandbox = Sandbox(spark, tmp_path, {"format": "debezium",
                                        "format_options": {"tombstones": "delete"}})  # fmt: skip
    sandbox.write("topic.txt", json_encoding_lines())
    result = sandbox.stage_manifest(sandbox.land())
    sandbox.publish(result)
    assert sandbox.rows("t") == [{"id": 1, "n": 2**62, "b": b"\0\xe9", "v": "-0.1", "u": "3"}]
    counts = total(result)
    assert (counts.read, counts.ignored, counts.quarantined) == (6, 1, 1)
    (bad,) = sandbox.quarantined()
    assert (bad["reason"], bad["raw"]) == ("not_an_envelope", b'{"id": 4}^{"op": 1.5e')


def test_a_tombstone_comes_after_the_last_event_of_its_key_and_before_the_next(
    spark: SparkSession, folder: Path, tmp_path: Path
) -> None:
    first, later = (wire(1, ROW, event("c", src=source(row=row))) for row in (0, 1))
    file = jsonl(tmp_path / "t.jsonl", pairs([
        (KEYED, None), (KEYED, first), (wire(2, KEY, {"id": 2}), None),
        (KEYED, None), (KEYED, later), (None, None),
    ]))  # fmt: skip
    options = {"layout": "base64", "schemas": str(folder)}
    found = decode(spark, file, tombstones="delete", **options)
    assert [r["op"] for r in found] == [None, "insert", None, "delete", "insert", None]
    deleted = found[3]
    assert (deleted["before"], deleted["key"], deleted["table"]) == ({"id": "1"}, ["id"], "t")
    assert (deleted["outcome"], deleted["types"]) == ("event", found[1]["types"])
    full = [f"{r['position']}.{role}" for r, role in ((found[1], 1), (deleted, 0), (found[4], 1))]
    assert full == sorted(full)
    assert [r["outcome"] for r in decode(spark, file, **options)].count("ignore") == 4


def framed(messages: Iterable[tuple[bytes | None, bytes | None]]) -> bytes:
    parts = [m for pair in messages for m in pair]
    return b"".join(
        struct.pack(">i", -1) if m is None else struct.pack(">i", len(m)) + m for m in parts
    )


def changed(ident: int, pos: int, op: str, name: str) -> tuple[bytes, bytes]:
    return wire(2, KEY, {"id": ident}), wire(
        1, ROW, event(op, {"id": ident, "name": name}, source(pos=pos))
    )


def priced(ident: int, pos: int, name: str, price: str) -> tuple[bytes, bytes]:
    row = {"id": ident, "name": name, "price": Decimal(price)}
    return wire(2, KEY, {"id": ident}), wire(7, LATER, event("u", row, source(pos=pos)))


HISTORY: dict[str, list[tuple[bytes | None, bytes | None]]] = {
    "t/1.bin": [changed(1, 1, "r", "one"), changed(2, 1, "r", "two"), changed(3, 11, "c", "c")],
    "t/2.bin": [changed(1, 21, "u", "uno"), priced(2, 22, "due", "1.50"), changed(3, 23, "d", "c")],
    "t/3.bin": [(wire(2, KEY, {"id": 3}), None), priced(1, 31, "eins", "-0.01"), (None, b"\0bad")],
}  # fmt: skip


@pytest.mark.long
@pytest.mark.parametrize("order", [("1", "2", "3", "3"), ("3", "2", "2", "1")])
def test_rows_do_not_depend_on_delivery(
    spark: SparkSession, folder: Path, tmp_path: Path, order: tuple[str, ...]
) -> None:
    """Length-delimited files, landed, decoded, merged; the schema changes inside a file."""
    options = {"layout": "length_delimited_pairs", "schemas": str(folder)}
    sandbox = Sandbox(spark, tmp_path, {"format": "debezium", "format_options": options})
    for number, name in enumerate(order):
        path = sandbox.landing / f"{number}-{name}.bin"
        # Bytes that landing has not seen: the same file under another name it would pass over.
        again = framed([(None, None)]) * number
        path.write_bytes(framed(HISTORY[f"t/{name}.bin"]) + again)
        sandbox.publish(sandbox.stage_manifest(sandbox.land()))
    rows = sorted(sandbox.rows("t"), key=lambda r: r["id"])
    assert rows == [
        {"id": 1, "name": "eins", "price": Decimal("-0.01")},
        {"id": 2, "name": "due", "price": Decimal("1.50")},
    ]
    assert sandbox.types("t") == {"id": "int", "name": "string", "price": "decimal(10, 2)"}
    reasons = [r["reason"] for r in sandbox.quarantined()]
    assert set(reasons) == {"not_confluent_avro"}


def test_a_bad_record_of_a_container_is_quarantined(spark: SparkSession, tmp_path: Path) -> None:
    sandbox = Sandbox(spark, tmp_path, {"format": "debezium", "tables": {"t": {"key": ["id"]}}})
    container(sandbox.landing / "a.avro", ROW, [event(), event("x")])
    result = sandbox.stage_manifest(sandbox.land())
    sandbox.publish(result)
    assert sandbox.rows("t") == [{"id": 1, "name": "a"}]
    (bad,) = sandbox.quarantined()
    assert (bad["reason"], json.loads(bad["raw"])["op"]) == ("unknown_op:x", "x")


def test_untouched_rows_hold_the_default_of_an_added_decimal(
    spark: SparkSession, tmp_path: Path
) -> None:
    """`numeric` without a precision: a record of scale and bytes, as its default is."""
    columns = {"id": {"type": "int"}, "name": optional("string"),
               "v": {"type": VARIABLE, "default": {"scale": 1, "value": "\u0037"}}}  # fmt: skip
    sandbox = Sandbox(spark, tmp_path, {"format": "debezium", "tables": {"t": {"key": ["id"]}}})
    container(sandbox.landing / "a.avro", ROW, [event(), event(row={"id": 2, "name": "b"})])
    row = {"id": 2, "name": "b", "v": {"scale": 0, "value": b"\7"}}
    container(sandbox.landing / "b.avro", envelope(columns), [event("u", row, source(pos=6))])
    sandbox.publish(sandbox.stage_manifest(sandbox.land()))
    assert {r["id"]: r["v"] for r in sandbox.rows("t")} == {1: "5.5", 2: "7"}
