"""Columns that no event of a batch describes, while those of earlier batches did, without Spark."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping

import pytest

from sluice.column_renames import Rename
from sluice.config.pipeline import Landing, Pipeline, TableConfig
from sluice.config.schema_change import OnTypeChange
from sluice.ledger.column_log import ColumnStatement
from sluice.types.columns import STRING, ColumnType, parse_type
from spark_jobs.formats import FORMATS
from spark_jobs.planning.other_names import known_names
from spark_jobs.planning.plan import plan_table
from spark_jobs.planning.planned_column import PlannedColumn
from spark_jobs.planning.renames_known import following
from spark_jobs.planning.table_inputs import StoredTable
from spark_jobs.planning.table_summary import Source, TableSummary
from tests.spark.connect import BIGINT, TEXT, Type, money, schema_of

BEFORE, OTHER = 7, 8
RENAMED = Rename("0000.2.0010", (("c", "d"),))
VARIABLE: Type = {"type": "struct", "name": "io.debezium.data.VariableScaleDecimal", "fields": []}
CLOCK: Type = {"type": "int64", "name": "io.debezium.time.MicroTime"}
ISO: Type = {"type": "string", "name": "io.debezium.time.IsoTimestamp"}


def column(
    fmt: str, stored: str, described: str | None = None, hints: dict[str, str] | None = None
) -> PlannedColumn:
    """The stored column `c` in a batch of records without descriptions."""
    pipeline = Pipeline(name="p", format=fmt, namespace="shop", landing=Landing(url="landing"))
    summary = TableSummary(Source("shop", "", "t"), images={1: ("id", "c")})
    before = {BEFORE: described} if described else {}
    types = StoredTable({"id": "bigint", "c": stored}, ("id",), described=before)
    config = TableConfig(key=["id"], columns=hints or {})
    planned = plan_table(pipeline, FORMATS[fmt], summary, config, types)
    return next(c for c in planned.columns if c.name == "c")


def of_two(
    stored: str, first: Type, second: Type, policy: OnTypeChange, batch: Iterable[int]
) -> PlannedColumn:
    """The stored column `c`, which had two descriptions, in a batch with those of `batch` and with
    records that have none."""
    pipeline = Pipeline(
        name="p", format="debezium", namespace="shop", landing=Landing(url="landing"),
        on_type_change=policy,
    )  # fmt: skip
    before = {BEFORE: connect(first), OTHER: connect(second)}
    types = {ident: before[ident] for ident in batch}
    summary = TableSummary(Source("shop", "", "t"), images={1: ("id", "c")}, types=types)
    known = StoredTable({"id": "bigint", "c": stored}, ("id",), described=before)
    planned = plan_table(pipeline, FORMATS["debezium"], summary, TableConfig(key=["id"]), known)
    return next(c for c in planned.columns if c.name == "c")


def renamed(
    stored: dict[str, str],
    described: Type,
    hints: dict[str, str],
    told: Iterable[ColumnStatement],
    types: dict[int, str] | None = None,
) -> dict[str, Mapping[int | None, ColumnType]]:
    """How a batch is read that describes `types`, since `c` is called `d`."""
    pipeline = Pipeline(name="p", format="debezium", namespace="shop", landing=Landing(url="l"))
    summary = TableSummary(Source("shop", "", "t"), images={1: ("id", "d")}, types=types or {})
    config = TableConfig(key=["id"], columns=hints)
    names = known_names(summary, config, ["id"], (RENAMED,), told)
    before = {BEFORE: connect(described)}
    known = StoredTable({"id": "bigint", **stored}, ("id",), names, before)
    made = plan_table(pipeline, FORMATS["debezium"], summary, config, known)
    planned = following(pipeline, made, (RENAMED,), known.types)
    return {c.name: c.readings for c in planned.columns if c.name != "id"}


def list_of(items: Type) -> Type:
    return {"type": "array", "items": items}


def connect(kind: Type) -> str:
    return json.dumps(schema_of({"c": kind}, "after"))


def avro(kind: str) -> str:
    fields = [{"name": "c", "type": kind}]
    return json.dumps({"type": "record", "name": "row", "fields": fields})


@pytest.mark.parametrize(
    ("kind", "stored", "reading"),
    [
        (VARIABLE, "string", ColumnType("string", "variable")),
        (CLOCK, "string", ColumnType("time", "us")),
        (money(60, 40), "string", ColumnType("string", "base64:40")),
        (money(9, 2), "decimal(9,2)", ColumnType("decimal", "base64", 9, 2)),
        ({"type": "bytes"}, "binary", ColumnType("binary", "base64")),
        (list_of(ISO), "string", ColumnType("string", "list:timestamp_ntz[]")),
        (list_of(CLOCK), "string", ColumnType("string", "list:time[us]")),
    ],
    ids=["variable", "time", "wide", "decimal", "bytes", "list of ISO texts", "list of times"],
)  # fmt: skip
def test_a_value_that_its_text_does_not_show_is_read_as_in_a_batch_with_its_description(
    kind: Type, stored: str, reading: ColumnType
) -> None:
    """Whether records with and without a description come in one batch or in two."""
    assert column("debezium", stored, connect(kind)).readings == {BEFORE: reading}
    assert column("debezium", stored, connect(kind)).stored == parse_type(stored)


@pytest.mark.parametrize("batch", [(), (BEFORE,), (OTHER,)], ids=["none", "first", "second"])
@pytest.mark.parametrize(
    ("stored", "first", "second", "policy", "readings"),
    [
        ("string", VARIABLE, TEXT, "fail", (ColumnType("string", "variable"), STRING)),
        ("string", CLOCK, TEXT, "fail", (ColumnType("time", "us"), STRING)),
        ("bigint", BIGINT, CLOCK, "quarantine", (ColumnType("bigint"), ColumnType("time", "us"))),
    ],
    ids=["variable", "time", "other type"],
)  # fmt: skip
def test_a_column_that_had_two_descriptions_is_read_alike_whichever_of_them_a_batch_has(
    stored: str, first: Type, second: Type, policy: OnTypeChange,
    readings: tuple[ColumnType, ColumnType], batch: tuple[int, ...],
) -> None:  # fmt: skip
    found = of_two(stored, first, second, policy, batch)
    assert found.readings == dict(zip((BEFORE, OTHER), readings, strict=True))
    assert found.stored == parse_type(stored)


@pytest.mark.parametrize("described", [False, True])
def test_values_that_went_to_another_column_do_not_count(described: bool) -> None:
    """With `new_column` the times are in `c__string`."""
    found = of_two("bigint", BIGINT, CLOCK, "new_column", [BEFORE] if described else [])
    assert found.readings == {BEFORE if described else None: ColumnType("bigint")}


@pytest.mark.parametrize("stored", [{"c": "string"}, {"c": "string", "d": "string"}])
def test_a_column_is_read_under_its_new_name_as_under_the_one_that_was_described(
    stored: dict[str, str],
) -> None:
    """In the first batch with the new name and in the next ones."""
    reading = {BEFORE: ColumnType("time", "us")}
    assert renamed(stored, CLOCK, {}, []) == {"c": reading, "d": reading}
    plain = {None: STRING}
    assert renamed(stored, TEXT, {}, []) == {"c": plain, "d": plain}


def test_a_description_of_the_new_name_is_the_one_that_counts_for_it() -> None:
    """In the first batch that has it as in the next ones."""
    text = {OTHER: json.dumps(schema_of({"d": TEXT}, "after"))}
    for stored in ({"c": "string"}, {"c": "string", "d": "string"}):
        assert renamed(stored, CLOCK, {}, [], text)["d"] == {OTHER: STRING}


def test_a_description_of_an_earlier_batch_is_not_read_without_a_hint() -> None:
    """Two columns were called `c`, so the hint of one says nothing of the other."""
    stored = {"c": "decimal(9,2)", "d": "decimal(20,0)"}
    unsigned = parse_type("decimal(20,0)[unsigned]")
    again = [ColumnStatement("shop.t", "0000.2.0020", ((None, "c"),), "")]
    found = renamed(stored, money(9, 2), {"d": "decimal(20,0)[unsigned]"}, again)
    assert found == {"c": {BEFORE: ColumnType("decimal", "base64", 9, 2)}, "d": {None: unsigned}}


@pytest.mark.parametrize(("kind", "stored"), [(TEXT, "string"), (BIGINT, "bigint")])
def test_other_values_are_read_by_their_text(kind: Type, stored: str) -> None:
    assert column("debezium", stored, connect(kind)).readings == {None: parse_type(stored)}


def test_a_hint_counts_for_all_records() -> None:
    found = column("debezium", "string", connect(CLOCK), {"c": "time[ms]"})
    assert found.readings == {None: ColumnType("time", "ms")}


@pytest.mark.parametrize(
    ("fmt", "reading"),
    [
        ("debezium", "binary[base64]"), ("huawei_cdl", "binary[base64]"),
        ("streamx", "binary[base64]"), ("maxwell", "binary[base64]"),
        ("dts_avro", "binary[base64]"), ("aws_dms", "binary[hex]"),
    ],
)  # fmt: skip
def test_bytes_are_read_as_the_format_writes_them(fmt: str, reading: str) -> None:
    assert column(fmt, "binary").readings == {None: parse_type(reading)}


@pytest.mark.parametrize("described", [None, avro("bytes")])
@pytest.mark.parametrize("fmt", ["datastream", "rows", "datahub_tuple", "canal"])
def test_bytes_that_a_format_writes_in_several_ways_need_a_hint(
    fmt: str, described: str | None
) -> None:
    """What a reader made of the bytes of a typed file says nothing of texts."""
    assert column(fmt, "binary", described).readings == {None: STRING}
    assert column(fmt, "binary", described, {"c": "binary[hex]"}).readings == {
        None: parse_type("binary[hex]")
    }
