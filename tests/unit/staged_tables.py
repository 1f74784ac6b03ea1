"""Tables with one column, `id`, written and staged as a driver leaves them; by default `orders`."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
from pyiceberg.catalog import Catalog
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.table.update import RemoveSnapshotRefUpdate
from pyiceberg.types import LongType, NestedField

from sluice.catalog.snapshots import head
from sluice.catalog.table_rollback import rollback_table
from sluice.names import SUMMARY_BATCH, branch_name
from sluice.result import StagedTable

Name = tuple[str, str]
NAME: Name = ("shop", "orders")
SCHEMA = Schema(NestedField(1, "id", LongType(), required=False))


def one_table(root: Path) -> Catalog:
    """A catalog with one table, which is empty."""
    made = SqlCatalog("lake", uri=f"sqlite:///{root}/c.db", warehouse=f"file://{root}/w")
    made.create_namespace("shop")
    made.create_table(NAME, SCHEMA)
    return made


def table(catalog: Catalog, name: Name = NAME) -> Table:
    return catalog.load_table(name)


def ids(catalog: Catalog, name: Name = NAME) -> list[int]:
    return sorted(table(catalog, name).scan().to_arrow()["id"].to_pylist())


def write(
    catalog: Catalog, value: int, branch: str = "main", name: Name = NAME, batch: str = ""
) -> int:
    """Append one row, which is another writer's if it has no batch; return the snapshot."""
    loaded = table(catalog, name)
    row = pa.table({"id": pa.array([value], pa.int64())})
    signed = {SUMMARY_BATCH: batch} if batch else {}
    loaded.append(row, snapshot_properties=signed, branch=branch)
    found = head(table(catalog, name), branch)
    assert found is not None
    return found


def stage(
    catalog: Catalog, batch: str, value: int, attempt: str = "a1", name: Name = NAME
) -> StagedTable:
    """Stage as a driver does: a branch of `main` with one more row."""
    loaded = table(catalog, name)
    base, schema = head(loaded), loaded.metadata.current_schema_id
    branch = branch_name(batch, attempt)
    if not loaded.metadata.snapshots:
        first = _write_first(catalog, value, branch, name, batch)
        return StagedTable(*name, branch, None, first, schema)
    if base is not None:
        loaded.manage_snapshots().create_branch(snapshot_id=base, branch_name=branch).commit()
    after = write(catalog, value, branch, name, batch)
    return StagedTable(*name, branch, base, after, schema)


def _write_first(catalog: Catalog, value: int, branch: str, name: Name, batch: str) -> int:
    """Begin a table on a branch: Spark can do that; pyiceberg has to write `main` and remove it."""
    after = write(catalog, value, name=name, batch=batch)
    loaded = table(catalog, name)
    loaded.manage_snapshots().create_branch(snapshot_id=after, branch_name=branch).commit()
    without_main = (RemoveSnapshotRefUpdate(ref_name="main"),)
    catalog.commit_table(table(catalog, name), (), without_main)
    return after


def undo(catalog: Catalog, staged: StagedTable, batch: str) -> None:
    """Roll back what the batch staged of its table, and published."""
    rollback_table(catalog, staged, batch)
