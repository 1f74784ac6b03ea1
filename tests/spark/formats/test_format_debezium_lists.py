"""Debezium's arrays: JSON text of their elements, each read as its description tells."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import Row, SparkSession

from spark_jobs.formats.common.connect import DECIMAL, connect_type, row_columns
from spark_jobs.values import decode
from tests.spark import avroevents
from tests.spark.avroevents import VARIABLE, connect_decimal, container, envelope, semantic
from tests.spark.debezium_events import event
from tests.spark.sandbox import Sandbox

pytestmark = [pytest.mark.spark, pytest.mark.formats]

Schema = dict[str, Any]
CONNECT = "org.apache.kafka.connect.data"
TIME = "io.debezium.time"


def numeric(scale: int) -> Schema:
    return {"type": "bytes", "name": DECIMAL, "parameters": {"scale": str(scale)}}


def listed(items: Any) -> Schema:
    return {"type": "array", "items": items}


def named(kind: str, name: str) -> Schema:
    return {"type": kind, "name": name, "optional": True}


# items, text, text of the column (None: does not fit)
LISTS: dict[str, tuple[Any, str, str | None]] = {
    "numeric": (numeric(2), '["B8Y=","Fw==",null,"/2o="]', '["19.90","0.23",null,"-1.50"]'),
    "whole": (numeric(0), '["B8Y="]', '["1990"]'),
    "beyond": (numeric(-2), '["BQ=="]', '["500"]'),
    "wide": (numeric(1), '["AQAAAAAAAAAAAAAAAAAAAAAA"]',
             '["8711228593176024664662389950253266213273.6"]'),
    "variable": (named("struct", "io.debezium.data.VariableScaleDecimal"),
                 '[{"scale":2,"value":"/2o="},null]', '["-1.50",null]'),
    "day": (named("int32", f"{TIME}.Date"), "[19753, null,-1]", '["2024-01-31",null,"1969-12-31"]'),
    "day_connect": (named("int32", f"{CONNECT}.Date"), "[19753]", '["2024-01-31"]'),
    "clock": (named("int32", f"{TIME}.Time"), "[5]", '["00:00:00.005000"]'),
    "clock_us": (named("int64", f"{TIME}.MicroTime"), "[86400000000]", '["24:00:00"]'),
    "clock_ns": (named("int64", f"{TIME}.NanoTime"), "[7]", '["00:00:00.000000007"]'),
    "millis": (named("int64", f"{TIME}.Timestamp"), "[1704164645678]",
               '["2024-01-02T03:04:05.678000"]'),
    "micros": (named("int64", f"{TIME}.MicroTimestamp"), "[1704164645678901,null]",
               '["2024-01-02T03:04:05.678901",null]'),
    "nanos": (named("int64", f"{TIME}.NanoTimestamp"), "[1704164645678901000]",
              '["2024-01-02T03:04:05.678901"]'),
    "finer": (named("int64", f"{TIME}.NanoTimestamp"), "[1704164645678901001]", None),
    "day_iso": (named("string", f"{TIME}.IsoDate"), '["2024-01-31Z", null,"-0043-03-15Z"]',
                '["2024-01-31",null,"-0043-03-15"]'),
    "iso": (named("string", f"{TIME}.IsoTimestamp"), '["2024-01-02T03:04:05.6Z",null]',
            '["2024-01-02T03:04:05.600000",null]'),
    "no_iso": (named("string", f"{TIME}.IsoDate"), '["x"]', None),
    "empty": (named("int32", f"{TIME}.Date"), "[]", "[]"),
    "no_list": (named("int32", f"{TIME}.Date"), "5", None),
    "no_day": (named("int32", f"{TIME}.Date"), '[1, "x"]', None),
    "no_base64": (numeric(2), '["B8Y=","?"]', None),
    # as they come
    "texts": ({"type": "string"}, '["a", null]', '["a", null]'),
    "doubles": ({"type": "double"}, "[1.10, 2]", "[1.10, 2]"),
    "longs": ({"type": "int64"}, "[9007199254740993]", "[9007199254740993]"),
    "truths": ({"type": "boolean"}, "[true]", "[true]"),
    "bytes": ({"type": "bytes"}, '["YQ=="]', '["YQ=="]'),
    "zoned": (named("string", f"{TIME}.ZonedTimestamp"), '["2024-01-02T03:04:05Z"]',
              '["2024-01-02T03:04:05Z"]'),
    "nested": (listed(numeric(2)), '[["B8Y="]]', '[["B8Y="]]'),
    "untold": (None, '["B8Y="]', '["B8Y="]'),
}  # fmt: skip


@pytest.fixture(scope="module")
def read(spark: SparkSession) -> Row:
    texts = spark.createDataFrame([tuple(text for _, text, _ in LISTS.values())], list(LISTS))
    kinds = {name: connect_type(listed(items)) for name, (items, *_) in LISTS.items()}
    assert {kind.spark for kind in kinds.values()} == {"string"}
    values = [decode(texts[name], kind).alias(name) for name, kind in kinds.items()]
    found = texts.select(*values).first()
    assert found is not None
    return found


@pytest.mark.parametrize("name", LISTS)
def test_list_elements_are_read_by_their_description(read: Row, name: str) -> None:
    assert read[name] == LISTS[name][2]


def test_lists_of_decimals_as_json_numbers_are_text_without_an_encoding() -> None:
    """With the converter's `decimal.format=NUMERIC` elements are numbers of JSON."""
    row = '{"fields":[{"type":"struct","field":"after","fields":[{"type":"array","field":"p",'
    items = f'"items":{{"type":"bytes","name":"{DECIMAL}","parameters":{{"scale":"2"}}}}}}]}}]}}'
    (column,) = row_columns(row + items, numeric=True)
    assert (column.type.name, column.type.encoding) == ("string", "")


def test_lists_of_both_encodings_load_alike(spark: SparkSession, tmp_path: Path) -> None:
    """One batch of JSON and Avro; a hint of text changes nothing."""
    table = {"key": ["id"], "columns": {"d": "string"}}
    sandbox = Sandbox(spark, tmp_path, {"format": "debezium", "tables": {"t": table}})
    fields = [{"type": "int32", "field": "id", "optional": False},
              {"field": "p", **listed(numeric(2))},
              {"field": "d", **listed(named("int32", f"{TIME}.Date"))},
              {"field": "v", **listed(named("struct", str(VARIABLE["connect.name"])))}]  # fmt: skip
    schema = {"type": "struct", "fields": [{"type": "struct", "field": "after", "fields": fields}]}
    row = {"id": 1, "p": ["B8Y=", None], "d": [19753], "v": [{"scale": 1, "value": "Fw=="}]}
    sandbox.write("a.jsonl", [{"schema": schema, "payload": event(after=row)}])
    columns = {"id": {"type": "int"}, "p": listed(["null", connect_decimal(2, None)]),
               "d": listed(semantic("int", f"{TIME}.Date")), "v": listed(VARIABLE)}  # fmt: skip
    typed = {"id": 2, "p": [Decimal("19.90"), None], "d": [19753],
             "v": [{"scale": 1, "value": b"\x17"}]}  # fmt: skip
    container(sandbox.landing / "b.avro", envelope(columns), [avroevents.event(row=typed)])
    sandbox.load_landed()
    assert sandbox.quarantined() == []
    wanted = {"p": '["19.90",null]', "d": '["2024-01-31"]', "v": '["2.3"]'}
    rows = sorted(sandbox.rows("t"), key=lambda found: int(found["id"]))
    assert rows == [{"id": 1, **wanted}, {"id": 2, **wanted}]
