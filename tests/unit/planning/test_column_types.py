"""Column types: what a hint may say, the type that holds two, and what others may store."""

from __future__ import annotations

import itertools

import pytest

from sluice.config.pipeline import Landing, Pipeline, TableConfig
from sluice.errors import PlanError
from sluice.types.columns import (
    ColumnType,
    as_described,
    decimal,
    is_code,
    parse_type,
    widest,
    widest_or_text,
)
from spark_jobs.formats import FORMATS
from spark_jobs.formats.base import SourceColumn
from spark_jobs.planning.plan import plan_table
from spark_jobs.planning.stored_types import KnownTypes, planned
from spark_jobs.planning.table_inputs import StoredTable
from spark_jobs.planning.table_summary import Source, TableSummary

SAMPLES = [
    parse_type(text)
    for text in (
        "int", "bigint", "float", "double", "string", "boolean", "binary", "date", "time",
        "timestamp", "timestamp_ntz", "decimal(10,2)", "decimal(38,0)", "decimal(20,10)",
    )
]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("decimal(18,2)", ColumnType("decimal", "", 18, 2)),
        (" DECIMAL( 18 , 2 ) ", ColumnType("decimal", "", 18, 2)),
        ("numeric(5)", ColumnType("decimal", "", 5, 0)),
        ("decimal", ColumnType("decimal", "", 10, 0)),
        ("decimal(10,2)[base64]", ColumnType("decimal", "base64", 10, 2)),
        ("timestamp[ms]", ColumnType("timestamp", "ms")),
        ("timestamptz", ColumnType("timestamp")),
        ("timestamp_ntz[us]", ColumnType("timestamp_ntz", "us")),
        ("date[days]", ColumnType("date", "days")),
        ("time[ns]", ColumnType("time", "ns")),
        ("binary[hex]", ColumnType("binary", "hex")),
        ("binary(16)[hex]", ColumnType("binary", "hex", width=16)),
        ("binary(8000)", ColumnType("binary", width=8000)),
        ("binary(99999999)", ColumnType("binary")),
        ("string[variable]", ColumnType("string", "variable")),
        ("decimal(10,2)[variable]", ColumnType("decimal", "variable", 10, 2)),
        ("timestamp_ntz[ms@Asia/Tokyo]", ColumnType("timestamp_ntz", "ms", zone="Asia/Tokyo")),
        (" TIMESTAMP_NTZ[ MS @ +08:00 ]", ColumnType("timestamp_ntz", "ms", zone="+08:00")),
        ("date[@America/Sao_Paulo]", ColumnType("date", zone="America/Sao_Paulo")),
        ("date[us@UTC]", ColumnType("date", "us", zone="UTC")),
        ("smallint", ColumnType("int")),
        ("long", ColumnType("bigint")),
        ("varchar", ColumnType("string")),
        ("varchar(20)", ColumnType("string")),
        ("char(3)", ColumnType("string")),
        ("CHARACTER(3)", ColumnType("string")),
        ("dec", ColumnType("decimal", "", 10, 0)),
        ("dec(5,2)[base64]", ColumnType("decimal", "base64", 5, 2)),
    ],
)
def test_hints(text: str, kind: ColumnType) -> None:
    assert parse_type(text) == kind


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("money", "known: bigint"),
        ("", "unknown column type"),
        ("decimal(39,0)", "38 digits"),
        ("decimal(5,6)", "38 digits"),
        ("int[ms]", "int takes"),
        ("timestamp[days]", "timestamp takes s, ms, us or ns$"),
        ("date[base64]", "date takes days, s, ms, us or ns$"),
        ("int; drop table t", "unknown column type"),
        ("timestamp_ntz[]", "unknown column type"),
        ("timestamp_ntz[ms@]", "unknown column type"),
        ("timestamp_ntz[ms@Asia/Shangai]", "a time zone is one such as Asia/Shanghai or"),
        ("timestamp_ntz[ms@asia/shanghai]", "a time zone is one such as"),
        ("timestamp_ntz[ms@Asia]", "a time zone is one such as"),
        ("timestamp_ntz[ms@../etc/passwd]", "a time zone is one such as"),
        ("timestamp_ntz[ms@+8]", "a time zone is one such as"),
        ("timestamp_ntz[ms@+19:00]", "a time zone is one such as"),
        ("timestamp[ms@Asia/Shanghai]", "only instants as timestamp_ntz or date take a time zone"),
        ("date[days@Asia/Shanghai]", "only instants as"),
        ("decimal(5,2)[@Asia/Shanghai]", "only instants as"),
    ],
)
def test_mistaken_hints_say_what_is_allowed(text: str, says: str) -> None:
    with pytest.raises(ValueError, match="(?s)" + says.replace("(", r"\(")):
        parse_type(text)


def test_spark_types() -> None:
    assert decimal(38, 10).spark == "decimal(38,10)"
    assert parse_type("time[us]").spark == "string"
    assert parse_type("timestamp_ntz[ms]").spark == "timestamp_ntz"


@pytest.mark.parametrize(
    ("one", "two", "both"),
    [
        ("int", "bigint", "bigint"),
        ("float", "double", "double"),
        ("int", "decimal(5,2)", "decimal(12,2)"),
        ("bigint", "decimal(38,0)", "decimal(38,0)"),
        ("decimal(10,2)", "decimal(8,6)", "decimal(14,6)"),
        ("decimal(10,2)", "decimal(12,2)", "decimal(12,2)"),
        ("timestamp[ms]", "timestamp[us]", "timestamp"),
    ],
)
def test_the_wider_type_holds_both(one: str, two: str, both: str) -> None:
    assert widest(parse_type(one), parse_type(two)) == parse_type(both)


@pytest.mark.parametrize(
    ("one", "two"),
    [
        ("int", "string"),
        ("double", "bigint"),
        ("double", "decimal(10,2)"),
        ("timestamp", "timestamp_ntz"),
        ("date", "timestamp"),
        ("decimal(38,0)", "decimal(38,1)"),
        ("bigint", "decimal(38,20)"),
        ("boolean", "int"),
    ],
)
def test_nothing_holds_two_kinds_without_loss(one: str, two: str) -> None:
    assert widest(parse_type(one), parse_type(two)) is None


def test_widest_does_not_depend_on_order() -> None:
    for one, two in itertools.product(SAMPLES, repeat=2):
        assert widest(one, two) == widest(two, one)
        assert widest(one, one) == one


@pytest.mark.parametrize(
    ("hint", "read_as"),
    [("double", "double"), ("double[exact]", "double[exact]"), ("decimal(9,2)", "decimal(9,2)")],
)
def test_a_hint_of_double_says_that_the_values_are_no_decimals(hint: str, read_as: str) -> None:
    exact = parse_type("double[exact]")
    assert as_described(parse_type(hint), exact) == parse_type(read_as)


@pytest.mark.parametrize(
    ("hint", "described", "typed", "read_as"),
    [
        ("timestamp", "timestamp[ms]", False, "timestamp[ms]"),
        ("timestamp[ms]", "timestamp[us]", False, "timestamp[ms]"),
        ("timestamp[ms]", "timestamp", True, "timestamp"),
        ("date[days]", "timestamp", True, "date"),
        ("timestamp[ms]", "bigint", True, "timestamp[ms]"),
        ("timestamp_ntz[@UTC]", "timestamp[ms]", False, "timestamp_ntz[ms@UTC]"),
        ("date[@UTC]", "timestamp[ms]", False, "date[ms@UTC]"),
        ("timestamp_ntz[ms@UTC]", "timestamp", True, "timestamp_ntz[@UTC]"),
        ("boolean", "decimal(9,2)[base64]", False, "boolean"),
        ("date", "decimal(9,2)[variable]", False, "date"),
    ],
)
def test_how_a_described_value_is_read_by_a_hint(
    hint: str, described: str, typed: bool, read_as: str
) -> None:
    assert as_described(parse_type(hint), parse_type(described), typed) == parse_type(read_as)


def test_a_hint_with_a_time_zone_is_refused_where_the_events_have_days() -> None:
    described = {1: {"day": SourceColumn("day", parse_type("date[days]"))}}
    types = KnownTypes("shop.t", {"day": "date[@Asia/Shanghai]"}, {})
    with pytest.raises(PlanError, match="no time zone: take @Asia/Shanghai out of its hint"):
        planned("day", described, types)
    instants = {1: {"day": SourceColumn("day", parse_type("timestamp[ms]"))}}
    found = planned("day", instants, types)
    assert found.readings[1] == parse_type("date[ms@Asia/Shanghai]")


def test_bytes_have_no_text_that_holds_them() -> None:
    assert widest_or_text(parse_type("int"), parse_type("date")) == parse_type("string")
    assert widest_or_text(parse_type("int"), parse_type("binary")) is None


@pytest.mark.parametrize(
    ("kind", "code"),
    [("decimal(9,2)[base64]", True), ("timestamp[ms]", True), ("date[days]", True),
     ("binary[base64]", False), ("timestamp", False), ("decimal(9,2)", False)],
)  # fmt: skip
def test_types_whose_text_alone_shows_no_value(kind: str, code: bool) -> None:
    assert is_code(parse_type(kind)) is code


def test_columns_of_types_that_only_others_make_are_named() -> None:
    pipeline = Pipeline(name="p", format="maxwell", namespace="shop", landing=Landing(url="l"))
    summary = TableSummary(Source("shop", "", "t"), images={1: ("id",)})
    types = {"tags": "array<string>", "at": "struct<x:int>", "more": "map<string,string>"}
    stored = StoredTable({"id": "bigint", "seen": "timestamp_ntz", **types, "v": "variant"})
    with pytest.raises(PlanError) as refused:
        plan_table(pipeline, FORMATS["maxwell"], summary, TableConfig(key=["id"]), stored)
    lines = str(refused.value).split("\n")
    assert [line.partition(": ")[0] for line in lines] == [
        f"table shop.t, column {name!r}" for name in (*types, "v")
    ]
    assert "drop the column" in lines[0]
