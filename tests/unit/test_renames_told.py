"""Of which table a statement is, where its event names none."""

from __future__ import annotations

import pytest
from pyspark.sql import Row

from sluice.ddl import Altered, altered
from spark_jobs.decoding.renames_told import _of_statement
from spark_jobs.planning.discover import Source

TOLD = (("a", "b"),)
MYSQL, POSTGRESQL = Source("db", "", ""), Source("pg", "", "")
WITH_ROWS = {Source("db", "", "t"), Source("db2", "", "t"), Source("pg", "public", "t")}


def of(event: Source, statement: str) -> list[tuple[str, bool]]:
    """The table's name, and whether the statement was followed."""
    row = Row(at="1", lost=False, ddl=statement)
    found = list(_of_statement(event, row, frozenset(), WITH_ROWS))
    return [(source.name, rename.problem is None) for source, rename in found]


@pytest.mark.parametrize(
    ("event", "statement", "table"),
    [
        (MYSQL, "ALTER TABLE t RENAME COLUMN a TO b", "db.t"),
        (MYSQL, "ALTER TABLE `DB`.t RENAME COLUMN a TO b", "db.t"),
        (MYSQL, "ALTER TABLE db2.t RENAME COLUMN a TO b", "db2.t"),
        (POSTGRESQL, "ALTER TABLE public.t RENAME COLUMN a TO b", "pg.public.t"),
        (Source("db", "", "u"), "ALTER TABLE db2.t RENAME COLUMN a TO b", "db.u"),
        (Source("db", "", "u"), "RENAME COLUMN a TO b", "db.u"),
    ],
)
def test_a_statement_is_of_the_table_that_it_names(
    event: Source, statement: str, table: str
) -> None:
    assert of(event, statement) == [(table, True)]


def test_columns_of_no_table_are_not_followed() -> None:
    assert of(MYSQL, "RENAME COLUMN a TO b") == [("db", False)]


def test_of_a_table_without_rows_nothing_is_followed() -> None:
    assert of(MYSQL, "ALTER TABLE db3.t RENAME COLUMN a TO b") == [("db", False)]


def test_the_schema_that_a_statement_names() -> None:
    assert altered("ALTER TABLE s.t RENAME COLUMN a TO b") == [Altered("t", TOLD, "s")]
    assert altered("EXEC sp_rename 's.t.a', 'b', 'COLUMN'") == [Altered("t", TOLD, "s")]
