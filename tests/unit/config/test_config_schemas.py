"""The JSON schemas of the project's YAML, by which editors complete and check it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from sluice.config.formats import FORMAT_NAMES, options_model
from sluice.config.schemas import json_schemas, schema_text

ROOT = Path(__file__).resolve().parents[3]


@pytest.mark.parametrize("name", sorted(json_schemas()))
def test_make_schemas_has_nothing_to_write_anew(name: str) -> None:
    assert (ROOT / "include/schemas" / name).read_text() == schema_text(json_schemas()[name])


def test_schema_takes_a_table_with_nothing_after_its_name() -> None:
    listed = json_schemas()["pipeline.schema.json"]["properties"]["tables"]["anyOf"][0]
    assert {"type": "null"} in listed["additionalProperties"]["anyOf"]


def test_schema_refuses_unknown_keys() -> None:
    assert all(schema["additionalProperties"] is False for schema in json_schemas().values())
    assert json.dumps(json_schemas()).count('"additionalProperties": false') >= 5


@pytest.mark.parametrize(
    ("format_name", "options", "takes"),
    [
        ("debezium", {"tombstones": "delete"}, True),
        ("debezium", {"tombstones": "drop"}, False),
        ("debezium", {"framing": "one_per_file"}, False),
        ("dts_avro", {"framing": "one_per_file"}, True),
        ("rows", {"csv_columns": "id"}, False),
        ("streamx", {}, True),
        ("streamx", {"omitted_columns": "nulls"}, True),
        ("streamx", {"omitted_columns": "null"}, False),
        ("streamx", {"table": "t"}, False),
    ],
)
def test_schema_takes_the_options_of_the_format_alone(
    format_name: str, options: dict[str, Any], takes: bool
) -> None:
    schema = Draft202012Validator(json_schemas()["pipeline.schema.json"])
    pipeline = {"name": "p", "namespace": "n", "landing": {"url": "l"}, "format": format_name}
    assert schema.is_valid(pipeline | {"format_options": options}) == takes


def _undescribed(schema: object, path: str = "") -> list[str]:
    """The keys of a schema that no description explains."""
    if isinstance(schema, list):
        return [found for part in schema for found in _undescribed(part, path)]
    if not isinstance(schema, dict):
        return []
    keys = schema.get("properties", {})
    # What a condition asks of a key describes nothing.
    bare = [f"{path}.{k}" for k, v in keys.items() if {"description", "const"}.isdisjoint(v)]
    parts = [(n, part) for n, part in schema.items() if n not in ("then", "properties")]
    inner = (_undescribed(part, f"{path}.{n}") for n, part in [*keys.items(), *parts])
    return bare + [found for part in inner for found in part]


@pytest.mark.parametrize("name", sorted(json_schemas()))
def test_every_key_is_described(name: str) -> None:
    assert _undescribed(json_schemas()[name]) == []


@pytest.mark.parametrize("name", FORMAT_NAMES)
def test_every_option_is_described(name: str) -> None:
    assert _undescribed(options_model(name).model_json_schema()) == []
