"""JSON schemas of the project's YAML, for editors (`# yaml-language-server: $schema=…`)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

from sluice.config.fields import Strict
from sluice.config.formats import FORMAT_NAMES, options_model
from sluice.config.pipeline import Pipeline
from sluice.config.project_file import ProjectFile

_DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"
_FILES: Final[dict[str, type[Strict]]] = {
    "sluice.schema.json": ProjectFile,
    "pipeline.schema.json": Pipeline,
}


def json_schemas() -> dict[str, dict[str, Any]]:
    """Return the schema of each kind of file, by its file name in `include/schemas`."""
    schemas = {name: model.model_json_schema() for name, model in _FILES.items()}
    pipeline = schemas["pipeline.schema.json"]
    listed = pipeline["properties"]["tables"]["anyOf"][0]
    # A name with nothing after it lists a table as its events describe it.
    listed["additionalProperties"] = {"anyOf": [listed["additionalProperties"], {"type": "null"}]}
    pipeline["allOf"] = [_options_of(name) for name in FORMAT_NAMES]
    return {name: {"$schema": _DIALECT, **schema} for name, schema in schemas.items()}


def _options_of(name: str) -> dict[str, Any]:
    """Return the condition that restricts `format_options` for one format."""
    condition = {"properties": {"format": {"const": name}}, "required": ["format"]}
    options = options_model(name).model_json_schema()
    return {"if": condition, "then": {"properties": {"format_options": options}}}


def schema_text(schema: dict[str, Any]) -> str:
    """Return a schema as the text of its file."""
    return json.dumps(schema, indent=2) + "\n"


def write_schemas(folder: Path) -> list[Path]:
    """Write all schemas into a folder; returns the files."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = {folder / name: schema for name, schema in json_schemas().items()}
    for path, schema in paths.items():
        path.write_text(schema_text(schema))
    return list(paths)
