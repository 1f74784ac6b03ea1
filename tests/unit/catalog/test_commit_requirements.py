"""What a commit requires of its table, where somebody changed that since the look at it.

The looks are made to see the table as it was: the catalog's own check has to decide.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import ServiceUnavailableError
from pyiceberg.table import Table
from pyiceberg.types import StringType

from sluice.catalog.snapshots import drop_branches, drop_tags, head
from sluice.catalog.table_publish import publish_table
from sluice.catalog.table_rollback import restore_schema
from sluice.errors import CommitStateUnknownError, PublishRefusedError
from sluice.names import tag_name
from tests.unit.staged_tables import NAME, ids, stage, table, undo, write

pytestmark = pytest.mark.catalog


@pytest.fixture
def looks(catalog: Catalog, monkeypatch: pytest.MonkeyPatch) -> Callable[[Table, int], None]:
    """Let some of the next looks see a table as it was; those of the catalog itself follow."""

    def see(stale: Table, many: int = 1) -> None:
        really, left = catalog.load_table, [stale] * many
        monkeypatch.setattr(catalog, "load_table", lambda n: left.pop() if left else really(n))

    return see


def add_column(catalog: Catalog) -> None:
    with table(catalog).update_schema() as update:
        update.add_column("note", StringType())


def test_a_branch_that_moved_is_not_published(catalog: Catalog, looks: Any) -> None:
    write(catalog, 0)
    staged, before = stage(catalog, "b1", 1), table(catalog)
    write(catalog, 9, staged.branch)
    looks(before)
    with pytest.raises(PublishRefusedError):
        publish_table(catalog, staged, "b1")
    assert ids(catalog) == [0]


def test_rows_of_a_column_that_went_since_are_not_published(catalog: Catalog, looks: Any) -> None:
    write(catalog, 0)
    without = table(catalog).metadata.current_schema_id
    add_column(catalog)
    staged, before = stage(catalog, "b1", 1), table(catalog)
    restore_schema(catalog, *NAME, without)
    looks(before)
    with pytest.raises(PublishRefusedError):
        publish_table(catalog, staged, "b1")
    assert ids(catalog) == [0]


def test_rows_that_came_since_are_not_rolled_back(catalog: Catalog, looks: Any) -> None:
    write(catalog, 0)
    staged = stage(catalog, "b1", 1)
    publish_table(catalog, staged, "b1")
    before = table(catalog)
    write(catalog, 2)
    looks(before)
    with pytest.raises(PublishRefusedError):
        undo(catalog, staged, "b1")
    assert ids(catalog) == [0, 1, 2]


def test_a_column_that_came_since_is_not_rolled_back(catalog: Catalog, looks: Any) -> None:
    write(catalog, 0)
    staged = stage(catalog, "b1", 1)
    publish_table(catalog, staged, "b1")
    before = table(catalog)
    add_column(catalog)
    looks(before)
    with pytest.raises(PublishRefusedError):
        undo(catalog, staged, "b1")
    assert table(catalog).schema().column_names == ["id", "note"]


def test_a_column_of_somebody_else_stays_when_a_batch_failed(catalog: Catalog, looks: Any) -> None:
    first = table(catalog).metadata.current_schema_id
    add_column(catalog)
    before = table(catalog)
    with table(catalog).update_schema() as update:
        update.add_column("other", StringType())
    looks(before)
    with pytest.raises(PublishRefusedError):
        restore_schema(catalog, *NAME, first)
    assert table(catalog).schema().column_names == ["id", "note", "other"]


def test_a_branch_that_was_written_since_is_not_dropped(catalog: Catalog, looks: Any) -> None:
    write(catalog, 0)
    staged, before = stage(catalog, "b1", 1), table(catalog)
    write(catalog, 9, staged.branch)
    looks(before, 2)
    with pytest.raises(PublishRefusedError):
        drop_branches(catalog, *NAME, staged.branch)
    assert staged.branch in table(catalog).metadata.refs


def test_a_tag_that_moved_is_not_dropped(catalog: Catalog) -> None:
    publish_table(catalog, stage(catalog, "b1", 1), "b1")
    before, tag = table(catalog), tag_name("b1")
    table(catalog).manage_snapshots().remove_tag(tag).commit()
    newer = write(catalog, 2)
    table(catalog).manage_snapshots().create_tag(newer, tag).commit()
    with pytest.raises(PublishRefusedError):
        drop_tags(catalog, before, [tag])
    assert head(table(catalog), tag) == newer


def test_a_publication_whose_answer_was_lost_is_found_and_not_sent_again(
    catalog: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(catalog, 0)
    staged = stage(catalog, "b1", 1)
    really = catalog.commit_table

    def lost(*asked: Any) -> None:
        really(*asked)
        raise ServiceUnavailableError("503")

    with monkeypatch.context() as patched:
        patched.setattr(catalog, "commit_table", lost)
        with pytest.raises(CommitStateUnknownError):
            publish_table(catalog, staged, "b1")
    write(catalog, 2)
    monkeypatch.setattr(catalog, "commit_table", _never)
    publish_table(catalog, staged, "b1")
    assert ids(catalog) == [0, 1, 2]


def _never(*_: Any) -> None:
    raise AssertionError("the commit was sent again")
