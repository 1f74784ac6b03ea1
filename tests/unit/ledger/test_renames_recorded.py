"""What the ledger has of a batch's DDL, attempt after attempt."""

from __future__ import annotations

from pathlib import Path

import pytest

from sluice.ddl.defaults import AddedColumn
from sluice.ledger.column_log import ColumnStatement, record, recorded
from tests.unit.projects import open_shop

pytestmark = pytest.mark.catalog

TOLD = ColumnStatement(
    "s.notes", "0000.2.1", (("a", "b"),), "ALTER TABLE notes RENAME COLUMN a TO b"
)


def test_attempt_without_statements_removes_those_of_the_attempt_before(tmp_path: Path) -> None:
    """The second one goes on without the table that the statement is of."""
    catalog = open_shop(tmp_path).catalog
    for statements, known in (([], []), ([TOLD], ["b1"]), ([], []), ([], []), ([TOLD], ["b1"])):
        record(catalog, "shop", "b1", statements)
        assert [one.batch_id for one in recorded(catalog, "shop")] == known


def test_added_columns_are_read_back_as_recorded(tmp_path: Path) -> None:
    catalog = open_shop(tmp_path).catalog
    born = "2020-01-01 00:00:00"
    added = (AddedColumn("A", born, verbatim=False, of_session=True), AddedColumn("b"))
    columns = ((None, "A"), ("x", "y"), (None, "b"))
    statement = ColumnStatement("s.notes", "0000.2.1", columns, "ALTER TABLE notes …", added=added)
    record(catalog, "shop", "b1", [statement])
    (one,) = recorded(catalog, "shop")
    assert one.added == added


def test_drop_of_a_table_is_told_from_one_of_a_table_without_a_target(tmp_path: Path) -> None:
    catalog = open_shop(tmp_path).catalog
    text = "DROP TABLE notes"
    dropped = ColumnStatement("s.notes", "0000.2.1", (), text, drops_table=True)
    columns = (("x", "y"),)
    told = [dropped, ColumnStatement("s.notes", "0000.2.1", (), text),
            ColumnStatement("s.notes", "0000.2.2", columns, "ALTER TABLE notes …")]  # fmt: skip
    record(catalog, "shop", "b1", told)
    found = sorted(recorded(catalog, "shop"), key=lambda one: (one.position, one.drops_table))
    assert [(one.drops_table, one.columns) for one in found] == [
        (False, ()), (True, ()), (False, columns),
    ]  # fmt: skip


def test_names_that_became_taken_after_they_were_recorded_are_read_as_stored(
    tmp_path: Path,
) -> None:
    """A release before `stored_name` recorded the names of the source."""
    catalog = open_shop(tmp_path).catalog
    columns = ((None, "_deleted"), ("_OP", "_file"), ("_pos", None))
    added = (AddedColumn("_deleted", "7"),)
    record(catalog, "shop", "b1", [ColumnStatement("s.n", "1", columns, "…", added=added)])
    (one,) = recorded(catalog, "shop")
    assert one.added == (AddedColumn("_deleted__source", "7"),)
    assert one.columns == (
        (None, "_deleted__source"), ("_OP__source", "_file__source"), ("_pos__source", None),
    )  # fmt: skip
