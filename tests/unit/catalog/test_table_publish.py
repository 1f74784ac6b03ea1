"""publish of one table: every guard, on a real catalog and real tables."""

from __future__ import annotations

from dataclasses import replace

import pytest
from pyiceberg.catalog import Catalog
from pyiceberg.types import StringType

from sluice.catalog import table_publish
from sluice.catalog.lineage import ancestors
from sluice.catalog.snapshots import drop_branches, head
from sluice.catalog.table_publish import is_published, publish_table
from sluice.catalog.table_rollback import restore_schema
from sluice.errors import PublishRefusedError
from sluice.names import PROP_HIGHEST, tag_name
from tests.unit.staged_tables import NAME, ids, stage, table, write

pytestmark = pytest.mark.catalog


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
    monkeypatch.setattr(table_publish, "COMMIT_TRIES", 1)
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
