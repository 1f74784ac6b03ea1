"""A transaction applies its updates once, and commits what PyIceberg's own does."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyiceberg.table
import pytest
from pyiceberg.catalog import Catalog
from pyiceberg.table.update import update_table_metadata
from pyiceberg.types import StringType

from sluice.catalog.table_transaction import transaction_on
from tests.unit.staged_tables import ids, table

pytestmark = pytest.mark.catalog


@pytest.fixture
def applied(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The number of updates, each time that a transaction applies its updates."""
    seen: list[int] = []

    def noting(base: Any, updates: tuple[Any, ...], *rest: Any, **named: Any) -> Any:
        seen.append(len(updates))
        return update_table_metadata(base, updates, *rest, **named)

    monkeypatch.setattr(pyiceberg.table, "update_table_metadata", noting)
    return seen


def test_an_append_applies_each_stage_once(catalog: Catalog, applied: list[int]) -> None:
    rows = pa.table({"id": [1, 2]}, schema=table(catalog).schema().as_arrow())
    with transaction_on(table(catalog)) as transaction:
        transaction.append(rows, snapshot_properties={"told": "a"})
    assert len(applied) == len(set(applied))
    assert ids(catalog) == [1, 2]
    summary = table(catalog).metadata.snapshots[-1].summary
    assert summary is not None
    assert summary["told"] == "a"


def test_updates_see_those_before_them(catalog: Catalog) -> None:
    with transaction_on(table(catalog)) as transaction:
        with transaction.update_schema() as schema:
            schema.add_column("note", StringType())
        with transaction.update_schema() as schema:
            schema.rename_column("note", "remark")
        transaction.set_properties({"a": "1"})
    stored = table(catalog)
    assert stored.schema().find_field("remark").field_type == StringType()
    assert stored.properties["a"] == "1"


def test_a_transaction_goes_on_after_its_commit(catalog: Catalog) -> None:
    transaction = transaction_on(table(catalog))
    rows = pa.table({"id": [1]}, schema=table(catalog).schema().as_arrow())
    transaction.append(rows)
    transaction.commit_transaction()
    with transaction.update_schema() as schema:
        schema.add_column("note", StringType())
    transaction.append(rows)
    transaction.commit_transaction()
    assert ids(catalog) == [1, 1]
    assert table(catalog).schema().find_field("note").field_type == StringType()


def test_what_the_transaction_knew_is_forgotten_when_the_table_is_read_anew(
    catalog: Catalog,
) -> None:
    """As it is between two tries of a commit: no update is staged then, as at the beginning."""
    mine = table(catalog)
    transaction = transaction_on(mine)
    assert transaction.table_metadata.properties.get("a") is None
    with transaction_on(table(catalog)) as other:
        other.set_properties({"a": "1"})
    mine.refresh()
    assert transaction.table_metadata.properties["a"] == "1"
