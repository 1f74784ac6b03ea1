"""Columns that are replaced: no reader finds a table without one, and nothing stays behind."""

from __future__ import annotations

from typing import Any
from unittest.mock import MagicMock

import pytest
from pyiceberg.catalog import Catalog
from pyiceberg.types import DecimalType, LongType, StringType

from sluice.catalog import replaced_columns
from sluice.catalog.replaced_columns import drop_left, set_columns_aside
from sluice.catalog.snapshots import head
from sluice.errors import PublishRefusedError, TransientError
from spark_jobs.lake import column_rewrite
from spark_jobs.lake.column_rewrite import AlteredTable, drop_wider, has_wider, set_aside
from spark_jobs.lake.table_id import TableId
from spark_jobs.planning.type_changes import TypeChange
from tests.unit.staged_tables import NAME, ids, table, write

pytestmark = pytest.mark.catalog

ORDERS = TableId(*NAME)
SPARK: Any = MagicMock()


def columns(catalog: Catalog) -> dict[str, str]:
    return {f.name: str(f.field_type) for f in table(catalog).schema().fields}


def retype(catalog: Catalog, before: str, after: str) -> None:
    """As in a changelog."""
    set_aside(AlteredTable(SPARK, catalog, ORDERS), [TypeChange("id", before, after)])


def begin_to_widen(catalog: Catalog) -> None:
    """As a driver that is killed before its last commit."""
    with table(catalog).update_schema() as update:
        update.add_column("_sluice_wider id", StringType())
    base = head(table(catalog))
    if base is not None:
        table(catalog).manage_snapshots().create_branch(base, "_sluice_wider").commit()


@pytest.mark.parametrize("with_rows", [True, False])
def test_what_an_interrupted_change_of_a_type_left_is_dropped(
    catalog: Catalog, with_rows: bool
) -> None:
    if with_rows:
        write(catalog, 7)
    before, refs = table(catalog).metadata.current_schema_id, set(table(catalog).metadata.refs)
    begin_to_widen(catalog)
    assert has_wider(table(catalog))
    drop_wider(catalog, ORDERS)
    after = table(catalog)
    assert not has_wider(after)
    assert (after.metadata.current_schema_id, set(after.metadata.refs)) == (before, refs)
    drop_wider(catalog, ORDERS)
    assert table(catalog).metadata_location == after.metadata_location
    assert ids(catalog) == ([7] if with_rows else [])


def test_columns_of_others_stay(catalog: Catalog) -> None:
    with table(catalog).update_schema() as update:
        update.add_column("_sluice_was int id", StringType())
    begin_to_widen(catalog)
    drop_left(catalog, NAME, "_sluice_wider ", "_sluice_wider")
    assert list(columns(catalog)) == ["id", "_sluice_was int id"]


def test_a_changelog_never_lacks_the_column_that_gets_another_type(catalog: Catalog) -> None:
    write(catalog, 7)
    retype(catalog, "bigint", "decimal(22,2)")
    assert columns(catalog) == {"_sluice_was bigint id": "long", "id": "decimal(22, 2)"}
    schemas = [schema.column_names for schema in table(catalog).metadata.schemas]
    assert schemas == [["id"], ["_sluice_was bigint id", "id"]]
    rows = table(catalog).scan().to_arrow().to_pylist()
    assert rows == [{"_sluice_was bigint id": 7, "id": None}]


def test_a_column_that_was_set_aside_before_gets_a_number(catalog: Catalog) -> None:
    for before, after in (("bigint", "string"), ("string", "bigint"), ("bigint", "string")):
        with table(catalog).update_schema(allow_incompatible_changes=True) as update:
            update.delete_column("id")
            update.add_column("id", LongType() if before == "bigint" else StringType())
        retype(catalog, before, after)
    own = ["_sluice_was bigint id", "_sluice_was string id", "_sluice_was bigint#2 id", "id"]
    assert sorted(columns(catalog)) == sorted(own)


def test_a_type_that_another_batch_gave_meanwhile_is_not_given_again(
    catalog: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other one commits between reading and committing the schema."""
    others = [lambda: retype(catalog, "bigint", "decimal(24,2)")]

    def overtaken(*arguments: Any) -> None:
        while others:
            others.pop()()
        set_columns_aside(*arguments)

    monkeypatch.setattr(column_rewrite, "set_columns_aside", overtaken)
    retype(catalog, "bigint", "decimal(22,2)")
    assert columns(catalog) == {"_sluice_was bigint id": "long", "id": "decimal(24, 2)"}


def test_another_type_meanwhile_is_told(catalog: Catalog) -> None:
    with pytest.raises(TransientError, match=r"shop.orders: column 'id' is bigint meanwhile"):
        retype(catalog, "int", "string")


def test_a_field_id_that_was_given_meanwhile_is_refused(catalog: Catalog) -> None:
    """Its column may be gone again, but files have its values."""
    read = table(catalog)
    begin_to_widen(catalog)
    drop_wider(catalog, ORDERS)
    assert table(catalog).metadata.current_schema_id == read.metadata.current_schema_id
    with pytest.raises(PublishRefusedError):
        replaced_columns.set_columns_aside(
            catalog, read, {"id": "_sluice_was bigint id"}, {"id": DecimalType(22, 2)}
        )
