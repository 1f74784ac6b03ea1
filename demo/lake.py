"""The lake as the demo looks at it: rows and snapshots, read from the tables and nowhere else."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import NoSuchNamespaceError

from demo.project import PIPELINES
from demo.shop import KEY
from sluice.catalog.client import open_catalog
from sluice.config.project import load_project
from sluice.names import TARGET_METADATA


@dataclass(frozen=True)
class State:
    """One target: where its `main` is, which schema it has, and its rows by key."""

    snapshot: int | None
    schema: int
    rows: list[dict[str, Any]]


def states(folder: Path) -> dict[str, State]:
    """Every target of the demo's pipelines."""
    catalog = open_catalog(load_project(folder))
    return {
        f"{namespace}.{name}": _state(catalog, namespace, name)
        for namespace in PIPELINES
        for name in _tables(catalog, namespace)
    }


def _tables(catalog: Catalog, namespace: str) -> list[str]:
    try:
        return sorted(identifier[-1] for identifier in catalog.list_tables(namespace))
    except NoSuchNamespaceError:
        return []


def _state(catalog: Catalog, namespace: str, name: str) -> State:
    table = catalog.load_table((namespace, name))
    ref = table.metadata.refs.get("main")
    rows = [] if ref is None else table.scan().to_arrow().to_pylist()
    plain = [{n: v for n, v in row.items() if n not in TARGET_METADATA} for row in rows]
    return State(
        None if ref is None else ref.snapshot_id,
        table.metadata.current_schema_id,
        sorted(plain, key=lambda row: int(row[KEY])),
    )
