"""The JSON schemas of the project's YAML, by which editors complete and check it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from sluice.config.schemas import json_schemas, schema_text

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("name", sorted(json_schemas()))
def test_make_schemas_has_nothing_to_write_anew(name: str) -> None:
    assert (ROOT / "include/schemas" / name).read_text() == schema_text(json_schemas()[name])


def test_schema_takes_a_table_with_nothing_after_its_name() -> None:
    listed = json_schemas()["pipeline.schema.json"]["properties"]["tables"]["anyOf"][0]
    assert {"type": "null"} in listed["additionalProperties"]["anyOf"]


def test_schema_refuses_unknown_keys() -> None:
    assert all(schema["additionalProperties"] is False for schema in json_schemas().values())
    assert json.dumps(json_schemas()).count('"additionalProperties": false') >= 5
