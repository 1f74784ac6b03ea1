"""Manifests as earlier releases stored them."""

from __future__ import annotations

import json

from sluice.manifest import Manifest


def inline(manifest: Manifest) -> str:
    """With its schema in each file."""
    raw = json.loads(manifest.to_json())
    schemas = raw.pop("avro_schemas", {})
    for file in raw["files"]:
        file["avro_schema"] = schemas.get(file["avro_schema"], file["avro_schema"])
    return json.dumps(raw, sort_keys=True, indent=1)
