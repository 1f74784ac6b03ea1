"""The changes of a batch in its pipeline's changelogs, taken out again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.catalog import Catalog
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import ValidationException
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table.update import SetCurrentSchemaUpdate
from pyiceberg.table.update.snapshot import _OverwriteFiles
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import IntegerType, LongType, NestedField, StringType

from sluice.errors import TerminalError
from sluice.ledger.changelogs import forget_changes
from sluice.names import BATCH_ID

pytestmark = pytest.mark.catalog

NAME = ("shop__cdc", "orders__changes")
FIRST, SECOND = "20260301T05-aaaaaaaaaaaa", "20260301T05-bbbbbbbbbbbb"


def changelog(root: Path) -> Catalog:
    catalog = SqlCatalog("lake", uri=f"sqlite:///{root}/c.db", warehouse=f"file://{root}/w")
    catalog.create_namespace("shop")
    catalog.create_namespace("shop__cdc")
    batch = NestedField(1, BATCH_ID, StringType(), required=False)
    schema = Schema(batch, NestedField(2, "v", IntegerType(), required=False))
    by_batch = PartitionSpec(PartitionField(1, 1000, IdentityTransform(), BATCH_ID))
    catalog.create_table(NAME, schema, partition_spec=by_batch)
    return catalog


def write(catalog: Catalog, batch_id: str, values: list[int], kind: pa.DataType) -> None:
    batches = pa.array([batch_id] * len(values))
    catalog.load_table(NAME).append(pa.table({BATCH_ID: batches, "v": pa.array(values, kind)}))


def rows(catalog: Catalog) -> list[tuple[str, int]]:
    found = catalog.load_table(NAME).scan().to_arrow().to_pylist()
    return sorted((row[BATCH_ID], row["v"]) for row in found)


def forget(catalog: Catalog, batch_id: str) -> list[str]:
    return forget_changes(catalog, "shop", batch_id, confirm=lambda: None)


def test_other_batches_keep_their_changes(tmp_path: Path) -> None:
    """Names that begin alike, as all of an hour do."""
    catalog = changelog(tmp_path)
    for batch_id in (FIRST, SECOND, FIRST):
        write(catalog, batch_id, [1, 2], pa.int32())
    done = forget(catalog, FIRST)
    assert done == ["shop__cdc.orders__changes: changes of the batch removed"]
    assert rows(catalog) == [(SECOND, 1), (SECOND, 2)]
    assert forget(catalog, FIRST) == []


def test_a_damaged_list_of_files_is_named(tmp_path: Path) -> None:
    catalog = changelog(tmp_path)
    write(catalog, FIRST, [1], pa.int32())
    snapshot = catalog.load_table(NAME).current_snapshot()
    assert snapshot is not None
    Path(snapshot.manifest_list.removeprefix("file://")).write_bytes(b"Obj")
    with pytest.raises(TerminalError) as raised:
        forget(catalog, FIRST)
    assert str(raised.value).startswith("shop__cdc.orders__changes cannot be read: ")
    assert str(raised.value).endswith(
        f"; if {snapshot.manifest_list} is damaged, put it back from a backup"
    )


def test_changes_wider_than_the_restored_column_are_removed(tmp_path: Path) -> None:
    """Somebody set the schema back."""
    catalog = changelog(tmp_path)
    write(catalog, FIRST, [1], pa.int32())
    before = catalog.load_table(NAME).metadata.current_schema_id
    with catalog.load_table(NAME).update_schema() as update:
        update.update_column("v", field_type=LongType())
    write(catalog, SECOND, [1 << 40], pa.int64())
    narrow = SetCurrentSchemaUpdate(schema_id=before)
    catalog.commit_table(catalog.load_table(NAME), (), (narrow,))
    forget(catalog, SECOND)
    assert rows(catalog) == [(FIRST, 1)]


def test_a_file_that_was_overlooked_is_looked_for_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    catalog = changelog(tmp_path)
    for batch_id in (FIRST, SECOND):
        write(catalog, batch_id, [1], pa.int32())
    fails = iter([True, True, False])
    overlooked = _OverwriteFiles._deleted_entries

    def sometimes(self: Any) -> Any:
        if next(fails):
            raise ValidationException("Missing required files to delete")
        return overlooked(self)

    monkeypatch.setattr(_OverwriteFiles, "_deleted_entries", sometimes)
    done = forget(catalog, FIRST)
    assert done == ["shop__cdc.orders__changes: changes of the batch removed"]
    assert rows(catalog) == [(SECOND, 1)]
