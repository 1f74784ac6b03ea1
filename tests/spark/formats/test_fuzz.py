"""Damaged records of every JSON format: the batch ends, and what cannot be read is in quarantine.

A record may be damaged into another sound one, so rows are not compared: what has to hold is that
every record has an outcome, and that a record that is no JSON any more is kept byte by byte.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest
from pyspark.sql import SparkSession

from bench.events import COLUMNS, WRITERS, history
from tests.spark.sandbox import Sandbox, total

pytestmark = [pytest.mark.spark, pytest.mark.formats]

TABLES: Final = {
    "debezium": "shop.public.orders", "datastream": "shop.orders", "streamx": "shop.public.orders",
    "canal": "shop.orders", "shareplex": "SHOP.ORDERS", "maxwell": "shop.orders",
    "ogg": "SHOP.ORDERS", "huawei_cdl": "shop.public.orders", "aws_dms": "public.orders",
    "datahub_tuple": "orders",
}  # fmt: skip
RECORDS: Final = 300
DamageError = Callable[[str, random.Random], bytes]


def _cut(line: str, dice: random.Random) -> bytes:
    return line.encode()[: dice.randrange(1, len(line) - 1)]


def _flipped(line: str, dice: random.Random) -> bytes:
    raw = bytearray(line.encode())
    raw[dice.randrange(len(raw))] = dice.choice([b for b in range(256) if b not in b"\r\n"])
    return bytes(raw)


def _replaced(line: str, dice: random.Random) -> bytes:
    """Another value somewhere: of another type, too large, too deep, too long."""
    record = json.loads(line)
    paths = list(_paths(record))
    *parents, last = dice.choice(paths)
    place = record
    for step in parents:
        place = place[step]
    place[last] = "@@"
    deep = "[" * 900 + "]" * 900
    values = ["null", "true", "[]", "{}", '""', "1e999", "-0", "9" * 60, "0.1e-400", deep,
              '"' + "x" * 300_000 + '"', '"\\u0000"', '{"": {"": 1}}', '"\\ud800"']  # fmt: skip
    return json.dumps(record).replace('"@@"', dice.choice(values)).encode()


def _doubled(line: str, dice: random.Random) -> bytes:
    """A field twice in its object."""
    record = json.loads(line)
    name = dice.choice(list(record))
    return f"{line[:-1]}, {json.dumps(name)}: {json.dumps(record[name])}}}".encode()


def _other(line: str, dice: random.Random) -> bytes:
    others = [b"null", b"42", b'"text"', b"{}", b"\xff\xfe\x00", b"{", b"}", b"\x00" * 9]
    return dice.choice(others)


DAMAGES: Final[tuple[DamageError, ...]] = (_cut, _flipped, _replaced, _doubled, _other)


def _paths(value: Any) -> Any:
    steps = value.items() if isinstance(value, dict) else enumerate(value)
    for step, inner in steps:
        yield (step,)
        if isinstance(inner, (dict, list)):
            yield from ((step, *rest) for rest in _paths(inner))


@pytest.mark.parametrize("name", list(WRITERS))
def test_damaged_records_are_accounted_for(spark: SparkSession, tmp_path: Path, name: str) -> None:
    dice = random.Random(name)
    lines = [json.dumps(WRITERS[name](event)) for event in history(RECORDS)]
    damaged = [
        dice.choice(DAMAGES)(line, dice) if dice.random() < 0.5 else line.encode() for line in lines
    ]
    table = {"key": ["id"], "columns": COLUMNS}
    pipeline = {"format": name, "tables": {TABLES[name]: table}, "max_bad_share": 1.0}
    sandbox = Sandbox(spark, tmp_path, pipeline)
    (sandbox.landing / "a.jsonl").write_bytes(b"".join(line + b"\n" for line in damaged))
    counts = total(sandbox.load_landed())
    # A cut document and the text behind it may be kept as one.
    assert counts.read >= 0.95 * RECORDS
    kept = [row["raw"] for row in sandbox.quarantined()]
    lost = [line for line in damaged if not _is_json(line) and not _is_in(line, kept)]
    assert lost == []


def _is_in(line: bytes, kept: list[bytes]) -> bool:
    return any(line.strip() in raw for raw in kept)


def _is_json(line: bytes) -> bool:
    try:
        json.loads(line.decode("utf-8", "replace"), parse_constant=lambda _: 1 / 0)
    except (ValueError, RecursionError, ZeroDivisionError):
        return False
    return True
