"""rollback of one table: every guard, on a real catalog and real tables."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
import pytest
from pyiceberg.catalog import Catalog
from pyiceberg.table.refs import SnapshotRefType
from pyiceberg.table.update import RemoveSchemasUpdate, RemoveSnapshotRefUpdate
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import IntegerType, LongType, StringType

from sluice.catalog import snapshots
from sluice.catalog.dropped_columns import schema_of_published
from sluice.catalog.snapshots import head
from sluice.catalog.table_publish import publish_table
from sluice.catalog.table_rollback import (
    columns_after,
    refuse_rollback,
    restore_schema,
    rollback_table,
)
from sluice.errors import FollowedError, RollbackRefusedError
from sluice.names import PROP_DEFAULTS, PROP_HINTS, PROP_SHAPES, SUMMARY_MAINTENANCE, tag_name
from tests.unit.staged_tables import NAME, ids, stage, table, undo, write

pytestmark = pytest.mark.catalog


def add_column(catalog: Catalog, name: str) -> None:
    with table(catalog).update_schema() as update:
        update.add_column(name, StringType())


def test_rollback_puts_main_back_and_takes_the_tag(catalog: Catalog) -> None:
    write(catalog, 0)
    staged = stage(catalog, "b1", 1)
    publish_table(catalog, staged, "b1")
    undo(catalog, staged, "b1")
    assert ids(catalog) == [0]
    assert head(table(catalog)) == staged.base_snapshot
    assert set(table(catalog).metadata.refs) == {"main"}
    undo(catalog, staged, "b1")
    assert ids(catalog) == [0]


def test_rollback_of_the_first_batch_removes_main(catalog: Catalog) -> None:
    staged = stage(catalog, "b1", 1)
    publish_table(catalog, staged, "b1")
    undo(catalog, staged, "b1")
    assert head(table(catalog)) is None
    assert ids(catalog) == []


def test_rollback_refuses_when_somebody_wrote_after(catalog: Catalog) -> None:
    staged = stage(catalog, "b1", 1)
    publish_table(catalog, staged, "b1")
    later = write(catalog, 2)
    with pytest.raises(RollbackRefusedError, match=f"somebody else wrote snapshot {later}"):
        undo(catalog, staged, "b1")
    assert ids(catalog) == [1, 2]


def test_rollback_names_the_batch_that_came_after(catalog: Catalog) -> None:
    staged = stage(catalog, "b1", 1)
    publish_table(catalog, staged, "b1")
    rows = pa.table({"id": pa.array([2], pa.int64())})
    table(catalog).append(rows, snapshot_properties={"sluice.batch": "b2"})
    with pytest.raises(RollbackRefusedError, match="batch b2 wrote"):
        undo(catalog, staged, "b1")


def test_rollback_refuses_what_was_never_published(catalog: Catalog) -> None:
    write(catalog, 0)
    staged = stage(catalog, "b1", 1)
    write(catalog, 2)
    with pytest.raises(RollbackRefusedError, match="not on what batch b1 published"):
        undo(catalog, staged, "b1")


def test_rollback_restores_the_schema(catalog: Catalog) -> None:
    write(catalog, 0)
    before = table(catalog).metadata.current_schema_id
    add_column(catalog, "note")
    staged = stage(catalog, "b1", 1)
    publish_table(catalog, staged, "b1")
    rollback_table(catalog, replace(staged, base_schema=before), "b1")
    assert table(catalog).schema().column_names == ["id"]
    assert ids(catalog) == [0]


@pytest.mark.parametrize("wider", ["promoted", "replaced", "partitioned"])
def test_a_wider_type_stays_where_maintenance_wrote_the_base_with_it(
    catalog: Catalog, wider: str
) -> None:
    """Maintenance may run while a driver, which has evolved the table, decodes without a lease."""
    with table(catalog).update_schema() as update:
        update.add_column("qty", IntegerType())
    write(catalog, 0)
    before = table(catalog).metadata.current_schema_id
    if wider == "promoted":
        with table(catalog).update_schema() as update:
            update.update_column("qty", LongType())
    else:
        with table(catalog).update_schema() as update:
            update.delete_column("qty")
        with table(catalog).update_schema() as update:
            update.add_column("qty", LongType())
    add_column(catalog, "note")
    rows = pa.table({"id": [0], "qty": [7]})
    table(catalog).overwrite(rows, snapshot_properties={SUMMARY_MAINTENANCE: "rewritten"})
    staged = replace(stage(catalog, "b1", 1), base_schema=before)
    publish_table(catalog, staged, "b1")
    if wider == "partitioned":
        with table(catalog).update_spec() as spec:
            spec.add_identity("qty")
    assert columns_after(table(catalog), staged) == ("id", "qty")
    undo(catalog, staged, "b1")
    assert table(catalog).scan().to_arrow().to_pylist() == [{"id": 0, "qty": 7}]
    assert table(catalog).schema().find_type("qty") == LongType()


def test_a_failed_batch_leaves_a_wider_type(catalog: Catalog) -> None:
    """Maintenance may have written files with it meanwhile, or be about to."""
    with table(catalog).update_schema() as update:
        update.add_column("qty", IntegerType())
    before = table(catalog).metadata.current_schema_id
    with table(catalog).update_schema() as update:
        update.update_column("qty", LongType())
        update.add_column("note", StringType())
    table(catalog).append(pa.table({"id": [0], "qty": [7]}))
    assert restore_schema(catalog, *NAME, before)
    assert table(catalog).scan().to_arrow().to_pylist() == [{"id": 0, "qty": 7}]
    assert not restore_schema(catalog, *NAME, before)


def test_a_column_goes_with_the_batch_and_comes_back_with_its_rollback(catalog: Catalog) -> None:
    add_column(catalog, "note")
    loaded = table(catalog)
    loaded.append(pa.table({"id": [1], "note": ["a"]}))
    with table(catalog).transaction() as transaction:
        transaction.set_properties({PROP_SHAPES: "cached"})
    staged = replace(stage(catalog, "b1", 2), dropped=("note", "unknown"))
    publish_table(catalog, staged, "b1")
    assert table(catalog).scan().to_arrow().column_names == ["id"]
    assert (ids(catalog), PROP_SHAPES in table(catalog).properties) == ([1, 2], False)
    written = table(catalog).metadata.snapshots[-1].schema_id or 0
    since = table(catalog).metadata.current_schema_id
    add_column(catalog, "other")
    found = [schema_of_published(table(catalog), schema) for schema in (written, since)]
    assert (written != since, found) == (True, [since, since])
    undo(catalog, staged, "b1")
    assert table(catalog).scan().to_arrow().to_pylist() == [{"id": 1, "note": "a"}]
    publish_table(catalog, replace(stage(catalog, "b2", 3), dropped=("note",)), "b2")
    add_column(catalog, "note")
    notes = table(catalog).scan().to_arrow().to_pylist()
    assert sorted((row["id"], row["note"]) for row in notes) == [(1, None), (3, None)]


def test_a_type_that_widened_since_is_not_that_of_the_published_snapshot(catalog: Catalog) -> None:
    with table(catalog).update_schema() as update:
        update.add_column("qty", IntegerType())
    add_column(catalog, "note")
    staged = replace(stage(catalog, "b1", 1), dropped=("note",))
    publish_table(catalog, staged, "b1")
    written = table(catalog).metadata.snapshots[-1].schema_id or 0
    published = table(catalog).metadata.current_schema_id
    with table(catalog).update_schema() as update:
        update.update_column("qty", LongType())
    assert schema_of_published(table(catalog), written) == published


@pytest.mark.parametrize("first", [True, False])
def test_rollback_restores_the_rest_where_main_was_put_back_by_hand(
    catalog: Catalog, first: bool
) -> None:
    if not first:
        write(catalog, 0)
    before = table(catalog).metadata.current_schema_id
    add_column(catalog, "note")
    staged = replace(stage(catalog, "b1", 1), base_schema=before, defaults="told")
    publish_table(catalog, staged, "b1")
    by_hand = (
        snapshots.point("main", SnapshotRefType.BRANCH, staged.base_snapshot)
        if staged.base_snapshot
        else RemoveSnapshotRefUpdate(ref_name="main")
    )
    snapshots.commit(catalog, table(catalog), (), (by_hand,))
    rollback_table(catalog, staged, "b1")
    after = table(catalog)
    assert head(after) == staged.base_snapshot
    assert after.schema().column_names == ["id"]
    assert tag_name("b1") not in after.metadata.refs
    assert PROP_DEFAULTS not in after.properties
    rollback_table(catalog, staged, "b1")
    assert table(catalog).metadata_location == after.metadata_location


def test_a_publication_sets_the_hints_and_a_rollback_restores_them(catalog: Catalog) -> None:
    seen = []
    staged = []
    for batch, hints in (("b1", "us"), ("b2", None), ("b3", "ms")):
        staged.append(replace(stage(catalog, batch, 1), hints=hints))
        publish_table(catalog, staged[-1], batch)
        seen.append(table(catalog).properties.get(PROP_HINTS))
    for batch, one in (("b3", staged[2]), ("b2", staged[1]), ("b1", staged[0])):
        rollback_table(catalog, one, batch)
        seen.append(table(catalog).properties.get(PROP_HINTS))
    assert seen == ["us", "us", "ms", "us", "us", None]
    assert not [name for name in table(catalog).properties if name.startswith(PROP_HINTS)]


def test_a_failed_batch_gives_the_schema_back_once(catalog: Catalog) -> None:
    before = table(catalog).metadata.current_schema_id
    with table(catalog).update_schema() as update:
        update.add_column("note", StringType())
    restore_schema(catalog, *NAME, before)
    restored = table(catalog)
    assert restored.schema().column_names == ["id"]
    restore_schema(catalog, *NAME, before)
    assert table(catalog).metadata_location == restored.metadata_location


def test_a_schema_given_back_takes_the_shapes_of_the_later_one_with_it(catalog: Catalog) -> None:
    before = table(catalog).metadata.current_schema_id
    with table(catalog).update_schema() as update:
        update.add_column("note", StringType())
    with table(catalog).transaction() as change:
        change.set_properties({PROP_SHAPES: "of the later schema"})
    restore_schema(catalog, *NAME, before)
    assert PROP_SHAPES not in table(catalog).properties


@pytest.mark.parametrize("placed", ["partitioned", "partitioned once", "sorted", "by hand"])
def test_a_column_that_places_rows_stays(catalog: Catalog, placed: str) -> None:
    """Iceberg refuses a schema without it, and Spark cannot write the table where it did once."""
    write(catalog, 0)
    before = table(catalog).metadata.current_schema_id
    add_column(catalog, "region")
    add_column(catalog, "note")
    staged = replace(stage(catalog, "b1", 1), base_schema=before)
    publish_table(catalog, staged, "b1")
    if placed == "sorted":
        with table(catalog).update_sort_order() as order:
            order.asc("region", IdentityTransform())
    else:
        with table(catalog).update_spec() as spec:
            spec.add_identity("region")
    if placed == "partitioned once":
        with table(catalog).update_spec() as spec:
            spec.remove_field("region")
    if placed == "by hand":
        back = snapshots.point("main", SnapshotRefType.BRANCH, staged.base_snapshot or 0)
        snapshots.commit(catalog, table(catalog), (), (back,))
    assert columns_after(table(catalog), staged) == ("id", "region")
    assert rollback_table(catalog, staged, "b1").gone == ("note",)
    assert (ids(catalog), table(catalog).schema().column_names) == ([0], ["id", "region"])
    restore_schema(catalog, *NAME, before)
    assert table(catalog).schema().column_names == ["id", "region"]


@pytest.mark.parametrize("by_hand", [True, False])
@pytest.mark.parametrize("still", [True, False])
def test_a_column_in_the_place_of_an_earlier_one_is_not_taken_for_it(
    catalog: Catalog, still: bool, by_hand: bool
) -> None:
    """As a wider type is, or a column that somebody dropped and added: earlier rows have none of
    its values."""
    add_column(catalog, "region")
    table(catalog).append(pa.table({"id": [0], "region": ["EU"]}))
    before = table(catalog).metadata.current_schema_id
    with table(catalog).update_schema() as update:
        update.delete_column("region")
    add_column(catalog, "Region")
    staged = replace(stage(catalog, "b1", 1), base_schema=before)
    publish_table(catalog, staged, "b1")
    with table(catalog).update_spec() as spec:
        spec.add_identity("Region")
    if not still:
        with table(catalog).update_spec() as spec:
            spec.remove_field("Region")
    if by_hand:
        back = snapshots.point("main", SnapshotRefType.BRANCH, staged.base_snapshot or 0)
        snapshots.commit(catalog, table(catalog), (), (back,))
    found = table(catalog)
    with pytest.raises(FollowedError, match=r"Region, by which .* took an earlier column's place"):
        refuse_rollback(found, head(found), staged, "b1")


@pytest.mark.parametrize("written", [True, False])
def test_a_schema_that_others_removed_is_that_of_the_snapshot(
    catalog: Catalog, written: bool
) -> None:
    """As after `expire_snapshots(clean_expired_metadata => true)`; the first snapshot has none."""
    if written:
        write(catalog, 0)
    with table(catalog).update_schema() as update:
        update.update_column("id", doc="the order's number")
    before = table(catalog).metadata.current_schema_id
    add_column(catalog, "note")
    staged = replace(stage(catalog, "b1", 1), base_schema=before)
    publish_table(catalog, staged, "b1")
    catalog.commit_table(table(catalog), (), (RemoveSchemasUpdate(schema_ids=[before]),))
    undo(catalog, staged, "b1")
    columns = ["id"] if written else ["id", "note"]
    assert table(catalog).schema().column_names == columns
    assert ids(catalog) == ([0] if written else [])
