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


def test_an_attempt_that_tells_nothing_takes_back_what_the_one_before_told(tmp_path: Path) -> None:
    """The second one goes on without the table that the statement is of."""
    catalog = open_shop(tmp_path).catalog
    for told, known in (([], []), ([TOLD], ["b1"]), ([], []), ([], []), ([TOLD], ["b1"])):
        record(catalog, "shop", "b1", told)
        assert [one.batch_id for one in recorded(catalog, "shop")] == known


def test_what_is_told_of_an_added_column_is_recorded_as_it_is(tmp_path: Path) -> None:
    catalog = open_shop(tmp_path).catalog
    born = "2020-01-01 00:00:00"
    added = (AddedColumn("A", born, verbatim=False, of_session=True), AddedColumn("b"))
    columns = ((None, "A"), ("x", "y"), (None, "b"))
    told = ColumnStatement("s.notes", "0000.2.1", columns, "ALTER TABLE notes …", added=added)
    record(catalog, "shop", "b1", [told])
    (one,) = recorded(catalog, "shop")
    assert one.added == added
