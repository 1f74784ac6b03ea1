"""Keys whose texts the source compares otherwise than by bytes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from sluice.errors import PlanError
from sluice.source_names import is_reserved
from tests.spark.sandbox import Sandbox

pytestmark = pytest.mark.spark

Row = dict[str, Any]


def event(op: str, lsn: int, before: Row | None, after: Row | None) -> Row:
    source = {"connector": "postgresql", "db": "shop", "schema": "public", "table": "customers",
              "lsn": lsn, "ts_ms": lsn * 1000}  # fmt: skip
    return {"op": op, "before": before, "after": after, "source": source, "ts_ms": 0}


def row(code: str, visits: int) -> Row:
    return {"code": code, "visits": visits}


EVENTS = [
    event("c", 1, None, row("abc", 1)),
    event("c", 2, None, row("padded  ", 1)),
    event("c", 3, None, row("ΟΔΟΣ", 1)),
    event("c", 4, None, row("gone", 1)),
    event("u", 5, row("abc", 1), row("ABC", 2)),  # one row, its key spelled anew
    event("u", 6, row("padded", 1), row("padded", 2)),
    event("u", 7, row("ABC", 2), row("Abc ", 3)),
    event("d", 8, row("GONE", 1), None),
    event("u", 9, row("οδος", 1), row("Other", 2)),  # a key that really changes
    event("u", 10, row("padded", 2), row("pad ded", 3)),
]
COLLATED = {"key": ["code"], "columns": {"visits": "int"}, "collations": {"code": "nocase_rtrim"}}


@pytest.fixture
def lake(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Sandbox:
    tables = {"customers": {**COLLATED, "modes": ["current", "history"]}}
    return Sandbox(spark, tmp_path, {"format": "debezium", "tables": tables}).driven(monkeypatch)


def columns_of_source(rows: list[Row]) -> list[Row]:
    return [{n: v for n, v in r.items() if not is_reserved(n)} for r in rows]


@pytest.mark.parametrize("parts", [1, pytest.param(3, marks=pytest.mark.long)])
def test_equal_texts_are_one_key(lake: Sandbox, parts: int) -> None:
    """In one batch, and in several with the newest first."""
    size = -(-len(EVENTS) // parts)
    for number, start in enumerate(reversed(range(0, len(EVENTS), size))):
        lake.write(f"{number}.jsonl", EVENTS[start : start + size])
        lake.run()
    rows = {r["code"]: r["visits"] for r in columns_of_source(lake.rows("customers"))}
    assert rows == {"Abc ": 3, "Other": 2, "pad ded": 3}
    versions = {(r["code"], r["visits"], r["_is_current"]) for r in lake.rows("customers__history")}
    assert versions == {
        ("abc", 1, False), ("ABC", 2, False), ("Abc ", 3, True), ("gone", 1, False),
        ("padded  ", 1, False), ("padded", 2, False), ("pad ded", 3, True),
        ("ΟΔΟΣ", 1, False), ("Other", 2, True),
    }  # fmt: skip
    assert lake.agrees()


@pytest.mark.parametrize(
    ("collation", "keys"),
    [("nocase", {"A ", "A", "B"}), ("rtrim", {"a", "A", "B", "b"})],
)
def test_each_collation_decides_which_keys_are_equal(
    spark: SparkSession, tmp_path: Path, collation: str, keys: set[str]
) -> None:
    tables = {"customers": {"key": ["code"], "collations": {"code": collation}}}
    shop = Sandbox(spark, tmp_path, {"format": "debezium", "tables": tables})
    texts = ["a ", "a", "A ", "A", "b", "B"]
    shop.load_records([event("c", i, None, row(text, i)) for i, text in enumerate(texts, 1)])
    assert {r["code"] for r in shop.rows("customers")} == keys


def test_the_language_of_a_machine_counts_for_nothing(spark: SparkSession, tmp_path: Path) -> None:
    """In Turkish the upper case of `i` has a dot, and so one key would be two."""
    tables = {"customers": COLLATED}
    shop = Sandbox(spark, tmp_path, {"format": "debezium", "tables": tables})
    locale = spark._jvm.java.util.Locale  # type: ignore[union-attr]
    shop.load_records([event("c", 1, None, row("straßei", 1))])
    usual = locale.getDefault()
    locale.setDefault(locale.forLanguageTag("tr"))
    try:
        shop.load_records([event("u", 2, row("straßei", 1), row("STRASSEI", 2))])
        shop.load_records([event("c", 3, None, row("Straßei", 3))])
    finally:
        locale.setDefault(usual)
    assert columns_of_source(shop.rows("customers")) == [row("Straßei", 3)]


def test_a_collation_needs_a_text_of_the_key(spark: SparkSession, tmp_path: Path) -> None:
    shop = Sandbox(spark, tmp_path, {"format": "debezium"})

    def refused(**table: Any) -> str:
        shop.configure(format="debezium", tables={"customers": table})
        with pytest.raises(PlanError) as caught:
            shop.load_records(EVENTS[:1])
        return str(caught.value)

    assert "not plain text" in refused(
        key=["visits"], columns={"visits": "int"}, collations={"visits": "rtrim"}
    )
    plain = {name: told for name, told in COLLATED.items() if name != "collations"}
    shop.configure(format="debezium", tables={"customers": plain})
    shop.load_records(EVENTS[:1])
    assert "stored table has ['code']" in refused(**COLLATED)


NULLED = {
    "key": ["code", "part"],
    "columns": {"part": "decimal(9,2)", "visits": "int"},
    "null_keys": ["code", "part"],
}
NULLS = [
    event("c", 1, None, {"code": None, "part": "1.0", "visits": 1}),
    event("c", 2, None, {"code": "", "part": "1.0", "visits": 2}),
    event("c", 3, None, {"code": "=", "part": None, "visits": 3}),
    event("c", 4, None, {"code": None, "part": None, "visits": 4}),
    event("u", 5, {"code": None, "part": "1"}, {"code": None, "part": "1.00", "visits": 5}),
    event("d", 6, {"code": None, "part": None, "visits": 4}, None),
    event("u", 7, {"code": "=", "part": None}, {"code": "=", "part": "2", "visits": 7}),
    event("d", 8, {"code": "", "part": "1.00", "visits": 2}, None),
    event("c", 9, None, {"code": None, "part": None, "visits": 9}),
]


@pytest.mark.parametrize("parts", [1, pytest.param(3, marks=pytest.mark.long)])
def test_null_is_a_value_of_the_key_with_null_keys(lake: Sandbox, parts: int) -> None:
    """NULL is one key, an empty text another; a decimal is one key however it is written."""
    lake.configure(
        format="debezium", tables={"customers": {**NULLED, "modes": ["current", "history"]}}
    )
    size = -(-len(NULLS) // parts)
    for number, start in enumerate(reversed(range(0, len(NULLS), size))):
        lake.write(f"{number}.jsonl", NULLS[start : start + size])
        lake.run()
    rows = {(r["code"], str(r["part"]), r["visits"]) for r in lake.rows("customers")}
    assert rows == {(None, "1.00", 5), ("=", "2.00", 7), (None, "None", 9)}
    open_versions = [r for r in lake.rows("customers__history") if r["_is_current"]]
    assert sorted(r["visits"] for r in open_versions) == [5, 7, 9]
    assert lake.agrees()


def test_key_column_missing_in_a_record_is_not_null(lake: Sandbox) -> None:
    lake.configure(format="debezium", max_bad_records=5, tables={"customers": NULLED})
    lake.write("a.jsonl", [NULLS[0], event("c", 2, None, {"code": "a", "visits": 2})])
    lake.run()
    assert [r["visits"] for r in lake.rows("customers")] == [1]
    (lost,) = lake.quarantined()
    assert (lost["reason"], lost["detail"]) == ("does_not_fit", "key_is_null:part")
