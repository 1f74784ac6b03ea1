"""One odd file is left out or refused; the others land."""

from __future__ import annotations

import io
import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sluice.containers import avro_check
from sluice.containers.csv_rows import CsvStyle
from sluice.errors import SluiceError, TransientError
from sluice.landing.inspection import Inspection, Inspector
from sluice.manifest import JSON_LINES, Manifest
from sluice.objects.store import StoredObject, faults_of_the_store
from sluice.operations.context import Context
from sluice.operations.inspecting import Inspecting
from sluice.operations.selection import open_landing
from tests.all_readable import land
from tests.unit.landing_folders import AVRO_SCHEMA, Lake, avro_bytes, raw, reasons
from tests.unit.projects import open_shop

pytestmark = pytest.mark.catalog


@pytest.fixture
def context(tmp_path: Path, messages: list[str]) -> Context:
    opened = replace(open_shop(tmp_path), say=messages.append)
    (tmp_path / "landing" / "good.jsonl").write_text('{"op": 1}\n')
    return opened


def landed(context: Context) -> Manifest:
    (key,) = land(context)
    return context.files.read_manifest(key)


def test_file_name_that_is_no_utf8_is_left_out_and_reported(
    context: Context, messages: list[str]
) -> None:
    folder = os.fsencode(context.project.root / "landing")
    Path(os.fsdecode(folder + b"/x\xff.jsonl")).write_text('{"op": 2}\n')
    assert [f.key for f in landed(context).files] == ["good.jsonl"]
    (message,) = (line for line in messages if "no UTF-8" in line)
    assert message.startswith("land: pipeline shop: the file b'x\\xff.jsonl' is left out")
    assert land(context) == []


def failing(monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    """Looking at `odd.jsonl` fails."""

    inspect = Inspector.inspect

    def look(inspector: Inspector, found: StoredObject) -> Inspection:
        if found.key == "odd.jsonl":
            raise error
        return inspect(inspector, found)

    monkeypatch.setattr(Inspector, "inspect", look)


def test_a_file_that_nobody_foresaw_is_one_reject(
    context: Context, monkeypatch: pytest.MonkeyPatch, messages: list[str]
) -> None:
    (context.project.root / "landing" / "odd.jsonl").write_text('{"op": 2}\n')
    failing(monkeypatch, RecursionError("too deep"))
    manifest = landed(context)
    assert [f.key for f in manifest.files] == ["good.jsonl", "odd.jsonl"]
    (reject,) = manifest.rejects
    assert (reject.key, reject.record) == ("odd.jsonl", 0)
    assert reject.reason == "unreadable_file: RecursionError"
    odd = manifest.files[1]
    assert (odd.container, odd.staged) == (JSON_LINES, True)
    assert Path(odd.url.removeprefix("file://")).read_bytes() == b""
    assert any("odd.jsonl goes into quarantine as a whole" in line for line in messages)


@pytest.mark.parametrize("error", [TransientError("away"), OSError("disk"), MemoryError()])
def test_a_fault_of_the_machine_is_not_the_files(
    context: Context, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    (context.project.root / "landing" / "odd.jsonl").write_text('{"op": 2}\n')
    failing(monkeypatch, error)
    with pytest.raises(type(error)):
        land(context)


def test_an_error_of_a_store_that_nobody_foresaw_is_not_the_files(
    context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = open_landing(context)
    found = list(store.list())
    monkeypatch.setattr(store, "open", lambda *_: 1 / 0)
    with pytest.raises(TransientError, match=r"good\.jsonl: ZeroDivisionError"):
        Inspecting(context, store, named=False).all(found)


@pytest.mark.parametrize("error", [FileNotFoundError("k"), SluiceError("k")])
def test_foreseen_errors_of_a_store_stay(error: Exception) -> None:
    with pytest.raises(type(error)), faults_of_the_store("k"):
        raise error


def zigzag(number: int) -> bytes:
    number <<= 1
    out = b""
    while number >= 0x80:
        out += bytes([number & 0x7F | 0x80])
        number >>= 7
    return out + bytes([number])


def container(schema: str) -> bytes:
    text = schema.encode()
    name = b"avro.schema"
    entry = zigzag(len(name)) + name + zigzag(len(text)) + text
    return b"Obj\x01" + zigzag(1) + entry + zigzag(0) + b"0" * 16


def record(name: str, *types: Any) -> dict[str, Any]:
    fields = [{"name": f"f{n}", "type": kind} for n, kind in enumerate(types)]
    return {"type": "record", "name": name, "fields": fields}


def doubling(levels: int) -> dict[str, Any]:
    """Each type holds two of the one before: short, and endless once they are put in."""
    defined = [record("t0", "int")]
    defined += [record(f"t{n}", f"t{n - 1}", f"t{n - 1}") for n in range(1, levels)]
    return record("top", *defined)


def nested(levels: int) -> Any:
    node: Any = "int"
    for _ in range(levels):
        node = {"type": "array", "items": node}
    return node


FIELD = {"name": "f", "type": "int"}
BAD = {
    "no json": "not json",
    "brackets": "[" * 100_000,
    "undefined": json.dumps(record("a", "nowhere")),
    "undefined inside": json.dumps(record("a", {"type": "array", "items": "nowhere"})),
    "itself": json.dumps(record("a", ["null", "a"])),
    "no type": '{"name": "a"}',
    "no name": '{"type": "fixed", "size": 4}',
    "fields of nothing": '{"type": "record", "name": "a", "fields": null}',
    "number": "7",
    "long": json.dumps({**record("a", "int"), "doc": "y" * (1 << 20)}),
    "doubling": json.dumps(doubling(40)),
    "deep": json.dumps(record("a", nested(120))),
    "deeper": json.dumps(record("a", nested(400))),
    "field twice": json.dumps({**record("a", "int", "int"), "fields": [FIELD, FIELD]}),
    "symbol twice": json.dumps({"type": "enum", "name": "e", "symbols": ["i", "i"]}),
    "branch twice": json.dumps(record("a", ["int", "int"])),
    "named branch twice": json.dumps(record("a", record("b", "int"), ["b", "b"])),
    "union within a union": json.dumps(record("a", ["null", ["int"]])),
    "negative size": json.dumps(record("a", {"type": "fixed", "name": "f", "size": -1})),
}


@pytest.mark.parametrize("name", BAD)
def test_a_bad_avro_schema_refuses_its_file(lake: Lake, name: str) -> None:
    content = container(BAD[name])
    look = lake.look(content, "a.avro")
    assert reasons(look) == [(0, "bad_avro_schema")]
    assert (look.file.container, look.file.avro_schema, lake.staged(look)) == (JSON_LINES, "", b"")
    assert raw(look) == content[: 64 << 10]


GOOD = {
    "record": AVRO_SCHEMA,
    "primitive": "bytes",
    "union": ["null", AVRO_SCHEMA],
    "logical": record("a", {"type": "long", "logicalType": "timestamp-micros"}),
    "used again": record("a", {"type": "fixed", "name": "f", "size": 4}, "f", {"type": "f"}),
    "namespace": {
        **record("a", record("b", "int"), "b", "x.y.b"),
        "namespace": "x.y",
    },
    "dotted": record("x.y.a", record("b", "int"), "b", "x.y.b"),
    "enum": record("a", ["null", {"type": "enum", "name": "e", "symbols": ["i"]}], ["null", "e"]),
    "wrapped": {"type": record("a", {"type": ["null", "string"]})},
    "map": record("a", {"type": "map", "values": record("b", "int")}, "b"),
    "wide": record("a", *["string"] * 20_000),
    "deep": record("a", nested(90)),
    "branches": record("a", ["null", "int", record("b", "int"), record("c", "int"), nested(1)]),
    "one name in two namespaces": record(
        "x.a", record("b", "int"), record("y.b", "int"), ["b", "y.b"]
    ),
    "wrong decimal": record("a", {"type": "bytes", "logicalType": "decimal"}),
}


@pytest.mark.parametrize("name", GOOD)
def test_readable_avro_schema_is_sound(name: str) -> None:
    assert avro_check.is_sound(json.dumps(GOOD[name]))


def test_blocks_that_spark_cannot_decompress_refuse_their_file(lake: Lake) -> None:
    of_lz4 = avro_bytes().replace(b"avro.codec\x08null", b"avro.codec\x06lz4")
    assert of_lz4 != avro_bytes()
    assert reasons(lake.look(of_lz4, "a.avro")) == [(0, "unknown_avro_codec")]
    parquet = io.BytesIO()
    pq.write_table(pa.table({"id": [1]}), parquet, compression="brotli")
    look = lake.look(parquet.getvalue(), "a.parquet", tables=CsvStyle())
    assert reasons(look) == [(0, "unknown_parquet_codec")]


def test_a_schema_is_looked_at_in_a_cut_file_too(lake: Lake) -> None:
    look: Inspection = lake.look(container("not json") + b"\x02\x10", "a.avro")
    assert reasons(look) == [(0, "bad_avro_schema")]
    assert reasons(lake.look(avro_bytes()[:-1], "b.avro")) == [(1, "truncated_avro")]
