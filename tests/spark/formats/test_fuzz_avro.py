"""Damaged Avro: the batch ends, every record has an outcome, and sound ones are loaded."""

from __future__ import annotations

import io
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import fastavro
import pytest
from pyspark.sql import SparkSession

from bench import dts_records
from tests.avro_blocks import varint
from tests.spark import avroevents
from tests.spark.avroevents import PRICED, event, source, wire, write_schemas
from tests.spark.dts_records import datum, prefixed
from tests.spark.sandbox import Sandbox, total

pytestmark = [pytest.mark.spark, pytest.mark.formats]

RECORDS: Final = 200
SCHEMA: Final = {
    "type": "record", "name": "row",
    "fields": [
        {"name": "id", "type": "int"}, {"name": "note", "type": "string"},
        {"name": "kind", "type": {"type": "enum", "name": "k", "symbols": ["A", "B"]}},
        {"name": "size", "type": ["null", "long"]}, {"name": "ok", "type": "boolean"},
    ],
}  # fmt: skip


def damaged(message: bytes, dice: random.Random) -> bytes:
    at, some = dice.randrange(len(message)), dice.randrange(1, 20)
    before, behind = message[:at], message[at:]
    huge = dice.choice([10**6, 2**31, 2**62, -1, -(2**63)])
    return dice.choice([
        before + bytes([behind[0] ^ 1 << dice.randrange(8)]) + behind[1:],
        before + dice.choice([b"\0", b"\1", b"\x7f", b"\x80", b"\xff"]) + behind[1:],
        before, before + behind[some:], before + dice.randbytes(some) + behind,
        before + varint(huge) + behind, before + varint(huge) + behind[1:],
        before + b"\xff" * 12 + behind[1:], before + behind * 3, b"", b"\0" * some,
    ])  # fmt: skip


def of_debezium(number: int) -> bytes:
    told = event("c", PRICED | {"id": number, "name": f"n{number}"}, source(pos=number))
    return wire(7, avroevents.LATER, told)


def of_dts(number: int) -> bytes:
    row = [dts_records.integer(number), dts_records.text(f"n{number}")]
    return datum(dts_records.message("INSERT", number, after=row))


@pytest.mark.parametrize(
    ("name", "made", "options"),
    [
        ("debezium", of_debezium, {"layout": "length_delimited", "schemas": "schemas"}),
        ("dts_avro", of_dts, {"framing": "length_prefixed"}),
    ],
)
def test_damaged_messages_are_accounted_for(
    spark: SparkSession, tmp_path: Path, name: str, made: Callable[[int], bytes],
    options: dict[str, Any],
) -> None:  # fmt: skip
    dice = random.Random(name)
    if "schemas" in options:
        (tmp_path / "schemas").mkdir()
        options = options | {"schemas": str(write_schemas(tmp_path / "schemas"))}
    sound = [made(number) for number in range(1, RECORDS + 1)]
    messages = [damaged(one, dice) if n % 2 else one for n, one in enumerate(sound)]
    table = {"debezium": "shop.t", "dts_avro": "db.t"}[name]
    pipeline = {
        "format": name, "format_options": options, "max_bad_share": 1.0,
        "on_type_change": "quarantine", "tables": {table: {"key": ["id"]}},
    }  # fmt: skip
    lake = Sandbox(spark, tmp_path, pipeline)
    (lake.landing / "a.bin").write_bytes(prefixed(*messages))
    counts = total(lake.load_landed())
    assert counts.read == RECORDS
    kept = lake.quarantined()
    assert counts.quarantined == len(kept) <= RECORDS // 2
    assert [bad for bad in kept if not bad["reason"]] == []
    ids = {int(row["id"]) for row in lake.rows("t")}
    assert ids >= {n + 1 for n in range(0, RECORDS, 2)}


def test_damaged_blocks_cost_their_own_records(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Within sound frames, so that Spark finds the damage."""
    dice = random.Random(1)
    options = {"table": "t"}
    tables = {"t": {"key": ["id"], "columns": {"id": "int"}}}
    pipeline = {"format": "rows", "format_options": options, "tables": tables, "max_bad_share": 1.0}
    lake = Sandbox(spark, tmp_path, pipeline)
    monkeypatch.setattr("sluice.operations.load.submit", lake.submit)
    header = io.BytesIO()
    fastavro.writer(header, SCHEMA, [], codec="null")
    sync, content = header.getvalue()[-16:], header.getvalue()
    for number in range(RECORDS):
        row = {"id": number, "note": f"n{number}", "kind": "A", "size": number, "ok": True}
        body = io.BytesIO()
        fastavro.schemaless_writer(body, SCHEMA, row)
        plain = damaged(body.getvalue(), dice) if number % 2 else body.getvalue()
        content += b"\2" + varint(len(plain)) + plain + sync
    (lake.landing / "a.avro").write_bytes(content)
    counts = lake.run().total
    assert (counts.read, counts.balanced) == (RECORDS, True)
    assert {row["id"] for row in lake.rows("t")} >= set(range(0, RECORDS, 2))
    reasons = [bad["reason"] for bad in lake.quarantined()]
    assert "damaged_avro" in reasons
    assert len(reasons) <= RECORDS // 2
