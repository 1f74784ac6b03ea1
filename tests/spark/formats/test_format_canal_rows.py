"""Canal JSON from files to rows: histories in any order, full loads, TRUNCATE, bad rows."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from sluice.manifest import Manifest, name_batch
from tests.spark.canal_messages import DRS, SWAPPED, message, row, statement
from tests.spark.sandbox import Sandbox, landed, total

pytestmark = [pytest.mark.spark, pytest.mark.formats]


def truth(rows: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    return sorted(tuple(each.values()) for each in rows)


SHOP_TYPES = {
    "id": "bigint(20) unsigned", "price": "decimal(20,4)", "at": "datetime(6)",
    "body": "blob", "kind": "enum('a','b')",
}  # fmt: skip


def shop(op: str, *data: Any, **parts: Any) -> dict[str, Any]:
    return message(op, *data, table="goods", mysqlType=SHOP_TYPES, **parts)


def good(ident: str, price: str | None, body: str = "\x00\xff\n") -> dict[str, Any]:
    return {"id": ident, "price": price, "at": "2024-02-29 01:02:03.5", "body": body, "kind": "1"}


HISTORY = [
    [
        shop("INIT", good("1", "0.0000"), good("2", "2.5"), good("18446744073709551615", "9.1")),
        statement("ALTER", "ALTER TABLE goods ADD x INT"),
    ],
    [
        shop("UPDATE", good("1", "1234567890123456.7891"), old=[{"price": "0.0000"}], offset=1),
        shop("UPDATE", good("3", "2.5"), old=[{"id": "2"}], offset=2),
        shop("INSERT", good("4", None), good("5", "5"), offset=3),
    ],
    [
        shop("DELETE", good("5", "5"), offset=4),
        shop("UPDATE", good("4", "4", "\xe9"), old=[{"price": None, "body": "x"}], offset=5),
        {"type": "MHEARTBEAT", "ts": 1},
    ],
]
AT = datetime(2024, 2, 29, 1, 2, 3, 500000)
GOODS = [
    (Decimal(1), Decimal("1234567890123456.7891"), AT, b"\x00\xff\n", "1"),
    (Decimal(3), Decimal("2.5000"), AT, b"\x00\xff\n", "1"),
    (Decimal(4), Decimal("4.0000"), AT, b"\xe9", "1"),
    (Decimal(2**64 - 1), Decimal("9.1000"), AT, b"\x00\xff\n", "1"),
]


@pytest.mark.parametrize(("turned", "order"), [(False, None), (True, None), (True, "offset")])
def test_from_files_to_rows(
    spark: SparkSession, tmp_path: Path, turned: bool, order: str | None
) -> None:
    """Landed, loaded and published, the parts of a history in both orders and one of them twice.

    By arrival an object's name is its place; by a field a repeat may stand anywhere.
    """
    options = {"order": order} if order else {}
    sandbox = Sandbox(spark, tmp_path, {"format": "canal", "format_options": options})
    parts = [(f"part-{n + 9}.jsonl", lines) for n, lines in enumerate(HISTORY)]
    again = ("part-99.jsonl", HISTORY[1]) if order else parts[1]
    for name, lines in [*(reversed(parts) if turned else parts), again]:
        sandbox.write(name, lines)
        sandbox.publish(sandbox.stage_manifest(_only(sandbox, name)))
    assert truth(sandbox.rows("goods")) == GOODS
    assert sandbox.types("goods") == {
        "id": "decimal(20, 0)", "price": "decimal(20, 4)", "at": "timestamp",
        "body": "binary", "kind": "string",
    }  # fmt: skip


def _only(sandbox: Sandbox, name: str) -> Any:
    """A batch of one object, as landing makes it the first time."""
    file = landed(sandbox.landing / name, name)
    return Manifest("p", name_batch("p", (file,)), (file,))


def test_landing_and_what_does_not_fit(spark: SparkSession, tmp_path: Path) -> None:
    """One pretty-printed array: a row of a message may be quarantined without the others."""
    sandbox = Sandbox(spark, tmp_path, {"format": "canal", "landing": {"url": "landing"}})
    bad = [good("2", "1.00001"), good("3", "1", "\u20ac"), {**good("4", "1"), "at": "0" * 101}]
    lines = [shop("INSERT", good("1", "1"), *bad), shop("DELETE", old=[good("1", "1")])]
    (sandbox.landing / "all.json").write_text(json.dumps(lines, indent=2))
    sandbox.configure(format="canal", landing={"url": "landing", "pattern": "**/*.json"})
    result = sandbox.load_landed()
    assert [r["id"] for r in sandbox.rows("goods")] == [1]
    dead = sandbox.quarantined()
    assert sorted((d["reason"], d["detail"], d["record"]) for d in dead) == [
        ("does_not_fit", f"at: '{'0' * 100}…' does not fit timestamp_ntz", 1),
        ("does_not_fit", "body: '\u20ac' does not fit binary[latin1]", 1),
        ("does_not_fit", "price: '1.00001' does not fit decimal(20,4)", 1),
        ("other_form", "", 2),
    ]  # fmt: skip
    assert all(json.loads(d["raw"])["table"] == "goods" for d in dead)
    assert total(result).quarantined == 4


def test_keys_of_kafka_are_passed_over(spark: SparkSession, tmp_path: Path) -> None:
    """As console tools print them before the messages: Canal's tell nothing."""
    sandbox = Sandbox(spark, tmp_path, {"format": "canal"})
    messages = [json.dumps(shop("INSERT", good(str(n), "1"))) for n in range(1, 4)]
    keys = ("null\t", "some key\t", '{"id":3}^')
    sandbox.write("1.txt", map("".join, zip(keys, messages, strict=True)))
    result = sandbox.load_landed()
    assert sorted(r["id"] for r in sandbox.rows("goods")) == [1, 2, 3]
    assert total(result).quarantined == 0


def test_a_truncate_of_dts_empties_the_table(spark: SparkSession, tmp_path: Path) -> None:
    sandbox = Sandbox(spark, tmp_path, {"format": "canal"})
    sandbox.load_records([
        message("INSERT", row("1", "a"), row("2", "b")),
        statement("DDL", "TRUNCATE TABLE t"),
        message("INSERT", row("3", "c")),
    ])  # fmt: skip
    assert truth(sandbox.rows("t")) == [(3, "c")]


def test_the_swapped_form_to_rows(spark: SparkSession, tmp_path: Path) -> None:
    sandbox = Sandbox(spark, tmp_path, {"format": "canal", "format_options": {"form": SWAPPED}})
    sandbox.load_records([
        message("INIT", row("1", "a"), row("2", "b"), row("3", "c")),
        message("UPDATE", row("1", "a"), row("2", "b"), old=[row("1", "z"), row("4", "b")]),
        message("DELETE", old=[row("3", "c")]),
    ])  # fmt: skip
    assert truth(sandbox.rows("t")) == [(1, "z"), (4, "b")]


def test_an_absent_column_keeps_its_value(spark: SparkSession, tmp_path: Path) -> None:
    sandbox = Sandbox(spark, tmp_path, {"format": "canal"})
    sandbox.load_records([
        message("INSERT", row("1", "a"), row("2", "b")),
        message("UPDATE", {"id": "1"}, old=[{}]),
        message("UPDATE", row("2", None), old=[{"v": "b"}]),
    ])  # fmt: skip
    assert truth(sandbox.rows("t")) == [(1, "a"), (2, None)]


@pytest.mark.parametrize("key", [["id"], []])
def test_a_column_that_old_has_alone_was_set_to_null(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, key: list[str]
) -> None:
    """As writers leave it out that write no NULL."""
    sandbox = Sandbox(spark, tmp_path, {"format": "canal", "tables": {"db.t": {"key": key}}})
    sandbox.driven(monkeypatch)
    sandbox.run_each(
        [message("INSERT", row("1", "a"), row("2", "b"))],
        [message("UPDATE", {"id": "1"}, old=[{"v": "a"}])],
    )
    assert truth(sandbox.rows("t")) == [(1, None), (2, "b")]


def test_rows_of_a_table_without_a_key(spark: SparkSession, tmp_path: Path) -> None:
    """Equal rows of one message are two; the same file again adds none."""
    tables = {"db.t": {"key": []}}
    sandbox = Sandbox(spark, tmp_path, {"format": "canal", "tables": tables})
    same = message("INSERT", row("1", "a"), row("1", "a"), row("2", "b"), pkNames=None)
    sandbox.load_records([same, message("DELETE", row("2", "b"), pkNames=None)], "a.jsonl")
    sandbox.load(sandbox.write("a.jsonl", [same]))
    assert truth(sandbox.rows("t")) == [(1, "a"), (1, "a")]


@pytest.mark.parametrize("cut", [2, 3])
def test_updates_of_one_transaction_that_end_in_the_same_row(
    spark: SparkSession, tmp_path: Path, cut: int
) -> None:
    """TiCDC has one place for both, so that their new rows count once; each old row is gone."""
    tables = {"db.t": {"key": []}}
    sandbox = Sandbox(spark, tmp_path, {"format": "canal", "tables": tables})
    at = [{"_tidb": {"commitTs": ts}, "pkNames": None} for ts in (4, 5)]
    history = [
        *(message("INSERT", row(n, n), **at[0]) for n in ("1", "2")),
        *(message("UPDATE", row("3", "3"), old=[row(n, n)], **at[1]) for n in ("1", "2")),
    ]
    sandbox.load_halves(history, cut, again=0)
    assert truth(sandbox.rows("t")) == [(3, "3")]


def test_values_of_huawei_drs_and_booleans(spark: SparkSession, tmp_path: Path) -> None:
    types = {"id": "int", "at": "timestamp", "b": "blob", "yes": "boolean"}
    values = {"id": "1", "at": "1624614713.201", "b": "[106, 103]", "yes": "true"}
    sandbox = Sandbox(spark, tmp_path, {"format": "canal", "format_options": {"form": DRS}})
    records = [
        message("INSERT", values, mysqlType=types),
        message("UPDATE", values | {"at": "1624614713"}, old=[{"id": "1"}], mysqlType=types),
        message("INSERT", values | {"id": "2", "yes": "5"}, mysqlType=types),
        message("INSERT", values | {"id": "3"}, mysqlType=types),
        message("DELETE", old=[values | {"id": "3"}], mysqlType=types),
    ]
    sandbox.load_records(records)
    at = datetime(2021, 6, 25, 9, 51, 53, tzinfo=UTC)
    assert truth(sandbox.rows("t")) == [
        (1, at, b"jg", 1),
        (2, at + timedelta(milliseconds=201), b"jg", 5),
    ]
