"""Which defaults of Connect's schemas are told, and which Debezium makes up for an expression."""

from __future__ import annotations

import json
from typing import Any

import pytest

from spark_jobs.formats.common.connect import row_columns

ZONED = "io.debezium.time.ZonedTimestamp"
UUID = "io.debezium.data.Uuid"
NO_UUID = "00000000-0000-0000-0000-000000000000"
STRUCTURED = "io.debezium.time.Structured"
EPOCH: dict[str, Any] = {"year": 1970, "month": 1, "day": 1}
CLOCK: dict[str, Any] = {"hour": 0, "minute": 0, "second": 0, "nanos": 0, "precision": 6}
MADE_UP: dict[str, tuple[str, str, Any]] = {
    "days": ("int32", "io.debezium.time.Date", 0),
    "connect_days": ("int32", "org.apache.kafka.connect.data.Date", 0),
    "millis": ("int64", "io.debezium.time.Timestamp", 0),
    "connect_millis": ("int64", "org.apache.kafka.connect.data.Timestamp", 0),
    "micros": ("int64", "io.debezium.time.MicroTimestamp", 0),
    "nanos": ("int64", "io.debezium.time.NanoTimestamp", 0),
    "iso_date": ("string", "io.debezium.time.IsoDate", "1970-01-01Z"),
    "iso": ("string", "io.debezium.time.IsoTimestamp", "1970-01-01T00:00:00Z"),
    "zoned": ("string", ZONED, "1970-01-01T00:00:00Z"),
    "zoned_micros": ("string", ZONED, "1970-01-01T00:00:00.000000Z"),
    "uuid": ("string", UUID, NO_UUID),
    "parts_of_a_date": ("struct", f"{STRUCTURED}Date", EPOCH | {"specialValue": None}),
    "parts": ("struct", f"{STRUCTURED}Timestamp", EPOCH | CLOCK | {"specialValue": None}),
    "parts_of_picoseconds": (
        "struct", f"{STRUCTURED}ZonedTimestampPrecision12",
        EPOCH | {"hour": 0, "picoseconds": 0, "precision": 12, "offsetSeconds": 0, "zoneId": "Z"},
    ),
}  # fmt: skip
TOLD: dict[str, tuple[str, str | None, Any, str]] = {
    "number": ("int32", None, 0, "0"),
    "text": ("string", None, "1970-01-01T00:00:00Z", "1970-01-01T00:00:00Z"),
    "uuid_of_text": ("string", None, NO_UUID, NO_UUID),
    "midnight": ("int64", "io.debezium.time.MicroTime", 0, "0"),
    "next_day": ("int32", "io.debezium.time.Date", 1, "1"),
    "millis": ("int64", "io.debezium.time.Timestamp", 1704164645678, "1704164645678"),
    "zoned": ("string", ZONED, "1970-01-01T00:00:00.000001Z", "1970-01-01T00:00:00.000001Z"),
    "uuid": ("string", UUID, NO_UUID[:-1] + "1", NO_UUID[:-1] + "1"),
    "truth": ("boolean", None, True, "true"),
    "list": ("array", None, ["x", None, '\u00fc"'], '["x",null,"\u00fc\\""]'),
    "midnight_in_parts": (
        "struct",
        f"{STRUCTURED}Time",
        CLOCK,
        '{"hour":0,"minute":0,"second":0,"nanos":0,"precision":6}',
    ),
    "parts": (
        "struct",
        f"{STRUCTURED}Timestamp",
        EPOCH | CLOCK | {"nanos": 1000},
        '{"year":1970,"month":1,"day":1,"hour":0,"minute":0,"second":0,"nanos":1000,"precision":6}',
    ),
    "struct": ("struct", None, {"x": 1.5, "l": [True, {}]}, '{"x":1.5,"l":[true,{}]}'),
}


def default(kind: str, name: str | None, value: Any) -> str | None:
    field = {"field": "c", "type": kind, "name": name, "default": value}
    row = {"fields": [{"field": "after", "type": "struct", "fields": [field]}]}
    (column,) = row_columns(json.dumps(row), numeric=False)
    return column.default


@pytest.mark.parametrize("name", MADE_UP)
def test_default_that_stands_for_an_expression_is_no_default(name: str) -> None:
    """`now()` comes as the epoch and `gen_random_uuid()` as zeros, which no old row holds."""
    assert default(*MADE_UP[name]) is None


@pytest.mark.parametrize("name", TOLD)
def test_default_that_may_be_the_sources_own_is_kept(name: str) -> None:
    *field, wanted = TOLD[name]
    assert default(*field) == wanted


@pytest.mark.parametrize("number", [
    "1.10", "1.0E-5", "1.0E-7", "1.0E10", "1e10", "-0", "12345678901234567890.123",
])  # fmt: skip
@pytest.mark.parametrize("shape", ["{}", "[{},2]", '{{"n":{}}}'])
def test_a_number_keeps_the_digits_that_it_is_sent_with(number: str, shape: str) -> None:
    """A list or struct is stored as its text, so a default has to be spelt as a value is."""
    text = shape.format(number)
    kind = "double" if text == number else "array"
    field = f'{{"field":"c","type":"{kind}","default":{text}}}'
    row = f'{{"fields":[{{"field":"after","type":"struct","fields":[{field}]}}]}}'
    (column,) = row_columns(row, numeric=False)
    assert column.default == text
