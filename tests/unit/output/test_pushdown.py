"""What is left unread of a table changes no answer: its columns, and its rows."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.catalog import Catalog

from sluice.catalog.client import open_catalog
from sluice.config.project import Project
from sluice.output.query import run_sql
from tests.unit.projects import empty_lake

PEOPLE = pa.table({
    "id": pa.array([1, 2, 3], pa.int64()),
    "name": ["a", "b", "c"],
    "p": [{"name": "c"}, {"name": "a"}, {"name": "b"}],
})  # fmt: skip
TWINS = pa.table([["x", "y"], ["y", "x"], ["p", "q"]], ["k", "K", "K_1"])


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Project:
    found = empty_lake(tmp_path_factory.mktemp("lake"))
    _fill(open_catalog(found))
    return found


def _fill(catalog: Catalog) -> None:
    catalog.create_namespace("shop")
    for name, rows in (("people", PEOPLE), ("twins", TWINS)):
        catalog.create_table(("shop", name), rows.schema).append(rows)


def values(project: Project, statement: str) -> list[Any]:
    return run_sql(project, statement).columns[0].to_pylist()


@pytest.mark.parametrize(
    ("statement", "expected"),
    [
        ("SELECT id FROM shop.people WHERE p.name = 'a'", [2]),
        ("SELECT id FROM shop.people o WHERE o.p.name = 'a'", [2]),
        ("SELECT id FROM shop.people p WHERE p.name = 'a'", [1]),
        ("SELECT id FROM shop.people WHERE people.name = 'a'", [1]),
        ("SELECT id FROM shop.people WHERE shop.people.name = 'a'", [1]),
    ],
)
def test_a_field_of_a_struct_is_no_column(
    project: Project, statement: str, expected: list[Any]
) -> None:
    assert values(project, statement) == expected


def test_a_column_named_anew_is_another(project: Project) -> None:
    assert values(project, "FROM shop.people o(name, id) SELECT id WHERE id = 'a'") == ["a"]
    assert values(project, "FROM shop.people o(name, x) SELECT x WHERE name = '2'") == ["b"]


def test_a_sample_is_drawn_before_the_conditions(project: Project) -> None:
    sample = "FROM shop.people TABLESAMPLE reservoir(1 ROWS) REPEATABLE (3)"
    drawn = values(project, f"SELECT name {sample}")
    kept = [values(project, f"SELECT name {sample} WHERE name = '{n}'") for n in "abc"]
    assert [n for found in kept for n in found] == drawn
    after = "USING SAMPLE reservoir(1 ROWS) REPEATABLE (3)"
    drawn = values(project, f"SELECT name FROM shop.people {after}")
    some = [f"SELECT name FROM shop.people WHERE name = '{n}' {after}" for n in "abc"]
    assert [n for one in some for n in values(project, one)] == drawn


@pytest.mark.parametrize("row", ["people", "shop.people", "lake.shop.people", '"PEOPLE"'])
def test_a_table_s_name_means_the_whole_row(project: Project, row: str) -> None:
    found = values(project, f"SELECT {row} FROM shop.people ORDER BY id")
    assert found == PEOPLE.to_pylist()


@pytest.mark.parametrize(
    ("statement", "expected"),
    [
        ("SELECT K_1 FROM shop.twins", ["y", "x"]),
        ("SELECT K_1_1 FROM shop.twins", ["p", "q"]),
        ("SELECT K_1_1 FROM shop.twins WHERE K_1 = 'y'", ["p"]),
    ],
)
def test_columns_that_differ_in_case_alone_keep_their_numbers(
    project: Project, statement: str, expected: list[str]
) -> None:
    assert values(project, statement) == expected


@pytest.mark.parametrize(
    ("statement", "expected"),
    [
        ("SELECT name.upper() FROM shop.people WHERE id = 1", ["A"]),
        ("SELECT shop.people.to_json() = people.to_json() FROM shop.people LIMIT 1", [True]),
        ("SELECT people.name.upper() FROM shop.people WHERE id = 1", ["A"]),
        ("SELECT p.name.upper() FROM shop.people WHERE id = 1", ["C"]),
        ("SELECT max(name.upper()) OVER () FROM shop.people LIMIT 1", ["C"]),
        ("SELECT o.to_json() FROM shop.people o WHERE id = 1",
         ['{"id":1,"name":"a","p":{"name":"c"}}']),
    ],
)  # fmt: skip
def test_column_before_a_method_call_is_read(
    project: Project, statement: str, expected: list[Any]
) -> None:
    assert values(project, statement) == expected
