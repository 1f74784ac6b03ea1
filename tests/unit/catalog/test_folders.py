"""Tables that have their files in one folder."""

from __future__ import annotations

from typing import Any

import pytest
from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import ForbiddenError
from pyiceberg.table import Table

from sluice.catalog.folders import TableFolders
from tests.unit.foreign_tables import ONE, change_metadata, unreadable
from tests.unit.outages import failing
from tests.unit.staged_tables import NAME, table

pytestmark = pytest.mark.catalog


def sharing(catalog: Catalog) -> list[str]:
    return TableFolders(catalog).shared_with(table(catalog))


def test_a_renamed_table_shares_its_folder_with_the_one_that_has_its_name_now(
    catalog: Catalog,
) -> None:
    catalog.create_namespace("backup")
    catalog.rename_table(NAME, "backup.orders_old")
    catalog.create_table(NAME, ONE)
    assert sharing(catalog) == ["backup.orders_old"]
    catalog.drop_table("backup.orders_old")
    assert sharing(catalog) == []


@pytest.mark.parametrize(
    ("at", "shared"),
    [
        ("{}", True), ("{}/", True), ("{}/deep/er", True), ("{}/..", True), ("{}_2", False),
        ("s3://bucket/orders", False),
    ],
)  # fmt: skip
@pytest.mark.parametrize("what", ["location", "write.data.path", "write.metadata.path"])
def test_folders_within_each_other(catalog: Catalog, at: str, shared: bool, what: str) -> None:
    own = table(catalog).location()
    where = own.rpartition("/")[0] if at.endswith("..") else at.format(own)
    other = catalog.create_table("shop.other", ONE)
    change = {"location": where} if what == "location" else {"properties": {what: where}}
    change_metadata(other, lambda metadata: metadata.update(change))
    assert sharing(catalog) == (["shop.other"] if shared else [])


def test_other_schemes_of_a_store_are_one(catalog: Catalog) -> None:
    own = table(catalog).location()
    other = catalog.create_table("shop.other", ONE)
    plain = own.removeprefix("file://")
    other.transaction().set_properties({"write.data.path": f"file:{plain}"}).commit_transaction()
    assert sharing(catalog) == ["shop.other"]


def test_what_cannot_be_read_is_passed_over(catalog: Catalog) -> None:
    unreadable(catalog, ("shop", "strange"), "variant")
    assert sharing(catalog) == []


def test_a_table_that_may_not_be_read_now_may_be_later(
    catalog: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = catalog.create_table("shop.other", ONE)
    change_metadata(other, lambda metadata: metadata.update(location=table(catalog).location()))
    own, folders = table(catalog), TableFolders(catalog)
    monkeypatch.setattr(catalog, "load_table", failing(1, ForbiddenError(), catalog.load_table))
    assert folders.shared_with(own) == []
    assert folders.shared_with(own) == ["shop.other"]


def test_each_other_table_is_read_once_and_a_new_name_is_seen(
    catalog: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    catalog.create_table("shop.other", ONE)
    unreadable(catalog, ("shop", "strange"), "variant")
    own, folders, read = table(catalog), TableFolders(catalog), list[Any]()
    load = catalog.load_table

    def noted(identifier: Any) -> Table:
        read.append(identifier)
        return load(identifier)

    monkeypatch.setattr(catalog, "load_table", noted)
    assert folders.shared_with(own) == []
    assert sorted(set(read)) == [("shop", "other"), ("shop", "strange")]
    read_once = len(read)
    assert folders.shared_with(own) == []
    assert len(read) == read_once
    catalog.rename_table(NAME, "shop.orders_old")
    catalog.create_table(NAME, ONE)
    now = load(NAME)
    read.clear()
    assert folders.shared_with(now) == ["shop.orders_old"]
    assert read == [("shop", "orders_old")]
