"""What somebody else makes of a catalog's tables."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from pyiceberg.catalog import Catalog
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.types import LongType, NestedField

ONE = Schema(NestedField(1, "id", LongType(), required=False))
Name = tuple[str, str]


def unreadable(catalog: Catalog, name: Name, how: str) -> None:
    """Create a table that pyiceberg cannot read: it has a `variant`, or its metadata is `gone`."""
    spoil(catalog.create_table(name, ONE), how)


def spoil(table: Table, how: str) -> None:
    """Make a table unreadable, as `unreadable` does."""
    if how == "gone":
        _file(table).unlink()
    else:
        change_metadata(table, _to_variant)


def upgrade(table: Table) -> None:
    """Upgrade a table to format version 3, as Spark's ALTER TABLE does."""
    change_metadata(table, _to_version_3)


def change_metadata(table: Table, change: Callable[[dict[str, Any]], object]) -> None:
    """Change the table's file of metadata where it lies."""
    metadata = json.loads(_file(table).read_text())
    change(metadata)
    _file(table).write_text(json.dumps(metadata))


def _file(table: Table) -> Path:
    return Path(urlsplit(table.metadata_location).path)


def _to_version_3(metadata: dict[str, Any]) -> None:
    metadata |= {"format-version": 3, "next-row-id": 0}


def _to_variant(metadata: dict[str, Any]) -> None:
    _to_version_3(metadata)
    metadata["schemas"][0]["fields"][0]["type"] = "variant"
