"""publish and rollback of one table: every guard, on a real catalog and real tables."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import requests
from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import CommitFailedException, ServiceUnavailableError
from pyiceberg.table.refs import SnapshotRefType
from pyiceberg.table.update import RemoveSnapshotRefUpdate
from pyiceberg.types import StringType
from sqlalchemy.exc import InterfaceError, OperationalError

from sluice.catalog import snapshots
from sluice.catalog.dropped_columns import schema_of_published
from sluice.catalog.lineage import ancestors
from sluice.catalog.snapshots import (
    drop_branches,
    head,
    is_published,
    publish_table,
    restore_schema,
    rollback_table,
)
from sluice.errors import CommitStateUnknownError, PublishRefusedError, RollbackRefusedError
from sluice.names import PROP_DEFAULTS, PROP_HIGHEST, PROP_HINTS, PROP_SHAPES, branch_name, tag_name
from tests.unit.staged_tables import NAME, ids, one_table, stage, table, undo, write

pytestmark = pytest.mark.catalog


@pytest.fixture
def catalog(tmp_path: Path) -> Catalog:
    return one_table(tmp_path)


def add_column(catalog: Catalog, name: str) -> None:
    with table(catalog).update_schema() as update:
        update.add_column(name, StringType())


def test_publish_points_main_tags_and_drops_the_branch(catalog: Catalog) -> None:
    write(catalog, 1)
    staged = stage(catalog, "b1", 2)
    assert ids(catalog) == [1]
    publish_table(catalog, staged, "b1")
    assert head(table(catalog)) == staged.head_snapshot
    assert ids(catalog) == [1, 2]
    refs = table(catalog).metadata.refs
    assert set(refs) == {"main", tag_name("b1")}
    assert refs[tag_name("b1")].snapshot_id == staged.head_snapshot


def test_the_highest_position_is_published_with_the_rows_that_it_bounds(catalog: Catalog) -> None:
    write(catalog, 1)
    staged = replace(stage(catalog, "b1", 2), highest="0000.2.0231.1")
    assert PROP_HIGHEST not in table(catalog).properties
    publish_table(catalog, staged, "b1")
    assert table(catalog).properties[PROP_HIGHEST] == "0000.2.0231.1"


def test_a_refused_publish_leaves_the_highest_position(catalog: Catalog) -> None:
    write(catalog, 1)
    staged = replace(stage(catalog, "b1", 2), highest="0000.2.0231.1")
    write(catalog, 3)
    with pytest.raises(PublishRefusedError):
        publish_table(catalog, staged, "b1")
    assert PROP_HIGHEST not in table(catalog).properties


def test_the_first_batch_makes_main(catalog: Catalog) -> None:
    staged = stage(catalog, "b1", 1)
    assert head(table(catalog)) is None
    publish_table(catalog, staged, "b1")
    assert ids(catalog) == [1]


@pytest.mark.parametrize("first", [True, False])
def test_of_two_batches_from_one_main_the_second_is_refused(catalog: Catalog, first: bool) -> None:
    if not first:
        write(catalog, 0)
    one, two = stage(catalog, "b1", 1), stage(catalog, "b2", 2)
    publish_table(catalog, one, "b1")
    before = table(catalog).metadata
    with pytest.raises(PublishRefusedError, match=f"main is at {one.head_snapshot}"):
        publish_table(catalog, two, "b2")
    assert table(catalog).metadata.refs == before.refs
    assert 2 not in ids(catalog)


def test_a_publisher_that_looked_too_early_is_refused(
    catalog: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both looked at `main` before either committed: the catalog's own check has to decide."""
    write(catalog, 0)
    one, two = stage(catalog, "b1", 1), stage(catalog, "b2", 2)
    stale = table(catalog)
    publish_table(catalog, one, "b1")
    monkeypatch.setattr(catalog, "load_table", _once(stale, catalog.load_table))
    with pytest.raises(PublishRefusedError, match=r"shop\.orders"):
        publish_table(catalog, two, "b2")
    monkeypatch.undo()
    assert ids(catalog) == [0, 1]


def test_a_tag_that_somebody_made_since_the_look_is_not_moved_unseen(
    catalog: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By hand: whatever else makes one of that name moves `main` with it."""
    write(catalog, 0)
    staged = stage(catalog, "b1", 1)
    stale = table(catalog)
    assert staged.base_snapshot is not None
    table(catalog).manage_snapshots().create_tag(staged.base_snapshot, tag_name("b1")).commit()
    before = table(catalog).metadata.refs
    monkeypatch.setattr(snapshots, "_COMMIT_TRIES", 1)
    monkeypatch.setattr(catalog, "load_table", _once(stale, catalog.load_table))
    with pytest.raises(PublishRefusedError, match="batch-b1"):
        publish_table(catalog, staged, "b1")
    assert table(catalog).metadata.refs == before
    publish_table(catalog, staged, "b1")
    assert head(table(catalog), tag_name("b1")) == staged.head_snapshot


def _once(first, then):  # type: ignore[no-untyped-def]
    answers = [first]
    return lambda name: answers.pop() if answers else then(name)


def test_publishing_twice_changes_nothing(catalog: Catalog) -> None:
    staged = stage(catalog, "b1", 1)
    publish_table(catalog, staged, "b1")
    before = table(catalog).metadata_location
    publish_table(catalog, staged, "b1")
    assert table(catalog).metadata_location == before


def test_publishing_again_after_others_wrote_changes_nothing(catalog: Catalog) -> None:
    staged = stage(catalog, "b1", 1)
    publish_table(catalog, staged, "b1")
    write(catalog, 2)
    publish_table(catalog, staged, "b1")
    assert ids(catalog) == [1, 2]


def test_a_branch_that_moved_or_went_is_refused(catalog: Catalog) -> None:
    write(catalog, 0)
    staged = stage(catalog, "b1", 1)
    write(catalog, 9, staged.branch)
    with pytest.raises(PublishRefusedError):
        publish_table(catalog, staged, "b1")
    drop_branches(catalog, *NAME, staged.branch)
    with pytest.raises(PublishRefusedError):
        publish_table(catalog, staged, "b1")
    assert ids(catalog) == [0]


def test_rows_of_a_column_that_was_taken_back_are_not_published(catalog: Catalog) -> None:
    """They would be NULL for good: a column that is added again has another id."""
    write(catalog, 0)
    before = table(catalog).metadata.current_schema_id
    with table(catalog).update_schema() as update:
        update.add_column("note", StringType())
    staged = stage(catalog, "b1", 1)
    restore_schema(catalog, *NAME, before)
    with pytest.raises(PublishRefusedError, match="b1 was staged with note"):
        publish_table(catalog, staged, "b1")
    assert ids(catalog) == [0]


def test_is_published_at_the_head_and_past_it(catalog: Catalog) -> None:
    write(catalog, 0)
    staged = stage(catalog, "b1", 1)
    assert not is_published(table(catalog), staged)
    publish_table(catalog, staged, "b1")
    assert is_published(table(catalog), staged)
    newer = write(catalog, 2)
    assert is_published(table(catalog), staged)
    assert ancestors(table(catalog), newer) >= {newer, staged.head_snapshot, staged.base_snapshot}


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
    with table(catalog).update_schema() as update:
        update.add_column("note", StringType())
    staged = stage(catalog, "b1", 1)
    publish_table(catalog, staged, "b1")
    rollback_table(catalog, replace(staged, base_schema=before), "b1")
    assert table(catalog).schema().column_names == ["id"]
    assert ids(catalog) == [0]


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


@pytest.mark.parametrize("first", [True, False])
def test_rollback_restores_the_rest_where_main_was_put_back_by_hand(
    catalog: Catalog, first: bool
) -> None:
    if not first:
        write(catalog, 0)
    before = table(catalog).metadata.current_schema_id
    with table(catalog).update_schema() as update:
        update.add_column("note", StringType())
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
    assert restore_schema(catalog, *NAME, before)
    assert table(catalog).schema().column_names == ["id"]
    assert not restore_schema(catalog, *NAME, before)


def test_a_schema_given_back_takes_the_shapes_of_the_later_one_with_it(catalog: Catalog) -> None:
    before = table(catalog).metadata.current_schema_id
    with table(catalog).update_schema() as update:
        update.add_column("note", StringType())
    with table(catalog).transaction() as change:
        change.set_properties({PROP_SHAPES: "of the later schema"})
    restore_schema(catalog, *NAME, before)
    assert PROP_SHAPES not in table(catalog).properties


def test_drop_branches_takes_only_those_of_the_batch(catalog: Catalog) -> None:
    write(catalog, 0)
    for batch, attempt in (("b1", "x"), ("b1", "y"), ("b12", "z")):
        stage(catalog, batch, 1, attempt)
    gone = drop_branches(catalog, *NAME, branch_name("b1", ""))
    assert sorted(gone) == [branch_name("b1", "x"), branch_name("b1", "y")]
    assert set(table(catalog).metadata.refs) == {"main", branch_name("b12", "z")}
    assert drop_branches(catalog, *NAME, "main") == []
    assert drop_branches(catalog, "shop", "nothing", "batch_") == []


@pytest.mark.parametrize(
    "error",
    [
        OperationalError("UPDATE iceberg_tables", {}, Exception("server closed the connection")),
        InterfaceError("COMMIT", {}, Exception("connection already closed")),
        requests.ReadTimeout("no answer"),
        requests.ConnectionError("reset"),
        ServiceUnavailableError("503"),
        OSError(28, "No space left on device"),
        OSError("When completing multiple part upload: AWS Error SLOW_DOWN"),
    ],
)
def test_a_commit_without_an_answer_is_unknown(
    catalog: Catalog, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    write(catalog, 1)
    staged = stage(catalog, "b1", 2)

    def lost(*_: object) -> None:
        raise error

    monkeypatch.setattr(catalog, "commit_table", lost)
    with pytest.raises(
        CommitStateUnknownError, match=r"shop\.orders: .* run `sluice reconcile`"
    ) as caught:
        publish_table(catalog, staged, "b1")
    assert "UPDATE" not in str(caught.value)


def test_a_commit_that_happened_all_the_same_is_found_when_it_is_tried_again(
    catalog: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    staged = stage(catalog, "b1", 1)
    commit = catalog.commit_table

    def break_off(*asked: Any) -> None:
        commit(*asked)
        raise OSError("curlCode: 56, Failure when receiving data from the peer")

    monkeypatch.setattr(catalog, "commit_table", break_off)
    with pytest.raises(CommitStateUnknownError, match="curlCode: 56"):
        publish_table(catalog, staged, "b1")
    at = table(catalog).metadata_location
    publish_table(catalog, staged, "b1")
    assert (ids(catalog), table(catalog).metadata_location) == ([1], at)


def test_a_commit_of_something_else_in_between_refuses_no_publication(
    catalog: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    staged = stage(catalog, "b1", 1)
    commit, refused = catalog.commit_table, []

    def refuse_once(*asked: Any) -> Any:
        if not refused:
            refused.append(asked)
            raise CommitFailedException("the metadata is another meanwhile")
        return commit(*asked)

    monkeypatch.setattr(catalog, "commit_table", refuse_once)
    publish_table(catalog, staged, "b1")
    assert (ids(catalog), len(refused)) == ([1], 1)
