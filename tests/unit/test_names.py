"""Names: no two things share one, and keys survive their property."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluice import names


@given(st.lists(st.text(min_size=1), unique=True))
def test_a_key_reads_as_written(key: list[str]) -> None:
    assert names.key_of({names.PROP_KEY: names.encode_key(tuple(key))}) == tuple(key)


def test_a_key_property_stays_readable() -> None:
    assert names.encode_key(("id", "größe")) == '["id", "größe"]'


def test_attempts_never_share_a_branch() -> None:
    branches = {names.branch_name(b, a) for b in ("2024-a1", "2024-b2") for a in ("x", "y")}
    assert len(branches) == 4
    assert names.branch_name("2024-a1", "x").startswith(names.branch_name("2024-a1", ""))
    assert not names.branch_name("2024-a12", "x").startswith(names.branch_name("2024-a1", ""))


def test_a_branch_is_a_plain_identifier() -> None:
    assert names.branch_name("20240102-ab12", "0f-9").replace("_", "").isalnum()


def test_tables_of_one_target_have_names_of_their_own() -> None:
    assert names.changelog_namespace("shop") == "shop__cdc"
    assert names.changelog_table("orders") != names.tombstone_table("orders")
    assert names.tag_name("b") != names.branch_name("b", "")


_METADATA = (*names.CHANGELOG_METADATA, *names.HISTORY_METADATA, *names.SOFT_DELETE_METADATA)


@pytest.mark.parametrize("name", _METADATA)
def test_metadata_columns_are_reserved(name: str) -> None:
    assert name in names.RESERVED_COLUMNS
    assert name.startswith("_")
