"""Pipelines that may write one target are refused; others may share a namespace."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.projects import SHOP, load, mistake

OTHER = SHOP.replace("name: shop", "name: other", 1)


def test_two_pipelines_of_one_name_are_refused(tmp_path: Path) -> None:
    assert "name: already used by a.yaml" in mistake(tmp_path, a=SHOP, b=SHOP)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("", ""),
        ("", 'table_name: "a_{table}"\n'),
        ("tables: {orders: }\n", 'table_name: "a_{table}"\n'),
        ("tables: {a_orders: }\n", 'table_name: "a_{table}"\ntables: {orders: }\n'),
        ("tables: {orders: }\n", "tables: {public.Orders: }\n"),
        ("tables: {orders__history: }\n", "tables: {orders: }\n"),
        ("tables: {orders: }\n", 'table_name: "{schema}_{table}"\ntables: {customers: }\n'),
    ],
)
def test_pipelines_that_may_write_one_target_are_refused(
    tmp_path: Path, one: str, other: str
) -> None:
    message = mistake(tmp_path, a=SHOP + one, b=OTHER.replace(": shop", ": Shop") + other)
    assert "b.yaml:4: namespace: already used by a.yaml; to share it" in message


def test_common_targets_of_two_pipelines_are_named(tmp_path: Path) -> None:
    listed = "tables: {public.orders: , b: , shop.c: }\n"
    message = mistake(tmp_path, a=SHOP + listed, b=OTHER + "tables: {Orders: , c: , d: }\n")
    assert message.endswith("be in both; both write c, orders")


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("tables: {orders: }\n", "tables: {customers: }\n"),
        ("tables: {orders: }\n", 'table_name: "a_{table}"\ntables: {orders: }\n'),
        (
            'table_name: "{schema}_{table}"\ntables: {a.orders: }\n',
            'table_name: "{schema}_{table}"\ntables: {b.orders: , db.c.orders: }\n',
        ),
    ],
)
def test_pipelines_with_different_targets_share_a_namespace(
    tmp_path: Path, one: str, other: str
) -> None:
    both = load(tmp_path, a=SHOP + one, b=OTHER + other)
    assert sorted(both.pipelines) == ["other", "shop"]


@pytest.mark.parametrize(
    ("more", "both"),
    [
        ("tables: {a.orders: , b.Orders: }\n", "a.orders and b.Orders both go to Orders"),
        ("tables: {orders: , a.orders: }\n", "orders and a.orders both go to orders"),
        (
            'table_name: "{schema}_{table}"\ntables: {x.a.t: , b.t: , y.a.t: }\n',
            "x.a.t and y.a.t both go to a_t",
        ),
    ],
)
def test_two_listed_tables_of_one_target_are_refused(tmp_path: Path, more: str, both: str) -> None:
    assert f"tables: expected a target for each: {both}" in mistake(tmp_path, a=SHOP + more)


def test_two_listed_tables_whose_targets_only_events_tell_apart_are_read(tmp_path: Path) -> None:
    more = 'table_name: "{database}_{table}"\ntables: {a.orders: , b.orders: }\n'
    assert list(load(tmp_path, a=SHOP + more).pipelines) == ["shop"]
