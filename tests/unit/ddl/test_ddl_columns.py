"""Of which table a statement is, where its event names none."""

from __future__ import annotations

from collections.abc import Collection
from types import SimpleNamespace
from typing import Any, cast

import pytest

from sluice.config.formats import WIRE_FORMATS
from sluice.ddl.statements import Altered, altered
from spark_jobs.decoding import ddl_columns, known_tables
from spark_jobs.decoding.ddl_columns import _of_statement
from spark_jobs.decoding.known_tables import KnownTables
from spark_jobs.decoding.statements import Statement
from spark_jobs.planning.table_summary import Drop, Source, TableSummary

pytestmark = pytest.mark.catalog

TOLD = (("a", "b"),)
MYSQL, POSTGRESQL = Source("db", "", ""), Source("pg", "", "")
WITH_ROWS = {Source("db", "", "t"), Source("db2", "", "t"), Source("pg", "public", "t")}
KNOWN = KnownTables(frozenset(WITH_ROWS), lambda: ())


def stated(event: Source, text: str) -> Statement:
    return Statement(event, text, lost=False, at="1", place=("a.jsonl", 0, 0))


def followed_tables(
    event: Source,
    statement: str,
    with_rows: Collection[Source] = WITH_ROWS,
    stored: Collection[Source] = (),
    as_typed: bool = False,
) -> list[tuple[str, bool]]:
    """The table's name, and whether the statement was followed."""
    tables = KnownTables(frozenset(with_rows), lambda: stored, as_typed)
    found = list(_of_statement(stated(event, statement), frozenset(), tables))
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
    assert followed_tables(event, statement) == [(table, True)]


NOWHERE = Source("", "", "")


@pytest.mark.parametrize(
    ("statement", "expected"),
    [
        ("ALTER TABLE U RENAME COLUMN IF EXISTS a TO b", ("db.u", True)),
        ("ALTER TABLE t RENAME COLUMN a TO b", ("", False)),
        ("ALTER TABLE w RENAME COLUMN a TO b", ("", False)),
        ("ALTER TABLE db2.t RENAME COLUMN a TO b", ("db2.t", True)),
    ],
)
def test_statement_without_a_database_is_of_the_only_table_of_its_name(
    statement: str, expected: tuple[str, bool]
) -> None:
    """As Canal writes a statement that its parser cannot read."""
    assert followed_tables(NOWHERE, statement, {*WITH_ROWS, Source("db", "", "u")}) == [expected]


def job_of(format_: str, tables: dict[str, None] | None) -> Any:
    wire = WIRE_FORMATS[format_]
    settings = {
        "format": format_, "wire": wire, "tables": tables, "on_dropped_column": "keep",
        "on_truncate": "apply",
    }  # fmt: skip
    pipeline = SimpleNamespace(**settings, loads=lambda _: True)
    return SimpleNamespace(pipeline=pipeline)


@pytest.mark.parametrize(
    ("format_", "labels", "set_", "of_mysql"),
    [
        ("debezium", True, True, False),
        ("maxwell", True, False, True),
        ("canal", False, False, True),
    ],
)
def test_a_default_is_a_text_as_the_format_writes_labels_and_short_ones(
    monkeypatch: pytest.MonkeyPatch, format_: str, labels: bool, set_: bool, of_mysql: bool
) -> None:
    """The formats of MySQL alone have a CHAR without blanks at its end, and a TIMESTAMP that is
    told in the zone of its session."""
    ddl = (
        "ALTER TABLE t ADD a ENUM('x','y') DEFAULT 'y', ADD b SET('x','y') DEFAULT 'x,y', "
        "ADD c CHAR(3) DEFAULT 'x', ADD d TIMESTAMP DEFAULT '2020-01-01 00:00:00'"
    )
    of = Source("db", "", "t")
    monkeypatch.setattr(ddl_columns, "placed_statements", lambda *_: [stated(of, ddl)])
    monkeypatch.setattr(known_tables, "_stored", lambda _: [])
    statements = ddl_columns.statements_of_batch(
        job_of(format_, None), cast(Any, None), [TableSummary(of, records=1, ddl=1)]
    )
    added = statements[of][0].added
    assert [one.verbatim for one in added] == [labels, set_, of_mysql, False]
    assert [one.of_session for one in added] == [False, False, False, of_mysql]


def test_drops_that_empty_a_target_are_among_its_statements_but_no_truncates() -> None:
    of, other = Source("db", "", "t"), Source("db", "", "u")
    drops = (Drop("2", "DROP TABLE t"), Drop("3", "CREATE OR REPLACE TABLE t (id INT)"))
    found = [
        TableSummary(of, records=3, truncates=3, drops=(*drops, Drop("1", "TRUNCATE t"), drops[0])),
        TableSummary(other, records=1, truncates=1, drops=(Drop("1", "TRUNCATE u"),)),
    ]
    statements = ddl_columns.statements_of_batch(job_of("maxwell", None), cast(Any, None), found)
    told = {of: [(one.position, one.drops_table) for one in s] for of, s in statements.items()}
    assert told == {of: [("2", True), ("3", True)]}
    keeps = job_of("maxwell", None)
    keeps.pipeline.on_truncate = "ignore"
    assert ddl_columns.statements_of_batch(keeps, cast(Any, None), found) == {}


def test_statement_of_an_unknown_table_has_a_problem_if_tables_are_listed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ddl = "ALTER TABLE t RENAME COLUMN a TO b"
    monkeypatch.setattr(ddl_columns, "placed_statements", lambda *_: [stated(NOWHERE, ddl)])
    monkeypatch.setattr(known_tables, "_stored", lambda _: [])
    job = job_of("canal", {"db.t": None})
    statements = ddl_columns.statements_of_batch(
        job, cast(Any, None), [TableSummary(NOWHERE, records=1, ddl=1)]
    )
    assert [one.problem is not None for one in statements[NOWHERE]] == [True]


def statements_on(*statements: str) -> list[tuple[str, Any]]:
    """What rows of one table, in their order, tell at one place: statement and columns."""
    given = (stated(MYSQL, text) for text in statements)
    changes = (one for each in given for _, one in _of_statement(each, frozenset(), KNOWN))
    return [(one.statement, one.columns) for one in ddl_columns._by_place(changes)]


ALTER = "ALTER TABLE t "


@pytest.mark.parametrize(
    ("statements", "columns"),
    [
        (["RENAME COLUMN b TO c", "RENAME COLUMN a TO b"], {("b", "c"), ("a", "b")}),
        (["RENAME COLUMN a TO b", "RENAME COLUMN B TO c"], {("a", "c")}),
        (["RENAME COLUMN a TO b", "RENAME COLUMN b TO A"], set()),
        (["CHANGE a x int", "CHANGE b a int", "CHANGE x b int"], {("a", "b"), ("b", "a")}),
        (["DROP COLUMN b", "RENAME COLUMN a TO b"], {("b", None), ("a", "b")}),
        (["RENAME COLUMN a TO b", "DROP COLUMN b"], {("a", None)}),
        (["RENAME COLUMN a TO b", "ADD COLUMN a int"], {("a", "b"), (None, "a")}),
        (["ADD COLUMN a int", "RENAME COLUMN a TO b"], {(None, "b")}),
        (["ADD COLUMN a int", "DROP COLUMN a"], set()),
    ],
)
def test_statements_at_one_position_are_followed_in_their_order(
    statements: list[str], columns: set[tuple[str | None, str | None]]
) -> None:
    """Be it one text, or a record for each statement."""
    texts = [ALTER + change for change in statements]
    ((_, of_text),) = statements_on("; ".join(texts))
    ((statement, of_records),) = statements_on(*texts)
    assert statement == ";\n".join(texts)
    assert set(of_text) == set(of_records) == columns


def test_repeated_statement_at_one_position_is_followed_once() -> None:
    swap = f"{ALTER}RENAME COLUMN a TO b, RENAME COLUMN b TO a"
    assert statements_on(swap, swap) == statements_on(swap) == [(swap, (("a", "b"), ("b", "a")))]


def test_statement_of_an_unknown_table_is_reported_beside_a_followed_one() -> None:
    """Of one text, as of a table that nobody knows."""
    text = f"{ALTER}RENAME COLUMN a TO b; ALTER TABLE w RENAME COLUMN a TO b"
    assert followed_tables(NOWHERE, text, {Source("db", "", "t")}) == [("db.t", True), ("", False)]


def test_columns_of_no_table_are_not_followed() -> None:
    assert followed_tables(MYSQL, "RENAME COLUMN a TO b") == [("db", False)]


def test_of_a_table_without_rows_nothing_is_followed() -> None:
    assert followed_tables(MYSQL, "ALTER TABLE db3.t RENAME COLUMN a TO b") == [("db", False)]


def test_the_schema_that_a_statement_names() -> None:
    assert altered("ALTER TABLE s.t RENAME COLUMN a TO b") == [Altered("t", TOLD, "s")]
    assert altered("EXEC sp_rename 's.t.a', 'b', 'COLUMN'") == [Altered("t", TOLD, "s")]


EMP, ORACLE = Source("pg", "public", "emp"), Source("ORCL", "SCOTT", "EMP")


@pytest.mark.parametrize(
    ("event", "table", "stored", "expected"),
    [
        (POSTGRESQL, "emp", {EMP}, "pg.public.emp"),
        (POSTGRESQL, "public.Emp", {EMP}, "pg.public.emp"),
        (POSTGRESQL, "emp", {EMP, Source("pg", "public", "EMP")}, "pg.public.emp"),
        (POSTGRESQL, "emp", {EMP, Source("pg2", "public", "emp")}, "pg.public.emp"),
        (POSTGRESQL, "s.emp", {Source("pg", "s", "emp"), Source("p", "s", "emp")}, "pg.s.emp"),
        (Source("ORCL", "", ""), "emp", {ORACLE}, "ORCL.SCOTT.EMP"),
        (Source("ORCL", "SCOTT", ""), "emp", {ORACLE}, "ORCL.SCOTT.EMP"),
        (Source("ORCL", "", ""), "scott.emp", {ORACLE}, "ORCL.SCOTT.EMP"),
        (MYSQL, "T", {Source("db", "", "t")}, "db.t"),
        (MYSQL, "T", {Source("db", "", "t"), Source("db", "", "T")}, "db.T"),
        (MYSQL, "u", {Source("db", "", "t")}, "db.u"),
        (NOWHERE, "T", {Source("db", "", "t")}, "db.t"),
    ],
)
def test_a_statement_is_of_the_stored_table_that_it_means(
    event: Source, table: str, stored: set[Source], expected: str
) -> None:
    """DTS tells the database alone, or with a schema, beside the statement."""
    statement = f"ALTER TABLE {table} RENAME COLUMN a TO b"
    assert followed_tables(event, statement, (), stored) == [(expected, True)]


@pytest.mark.parametrize("event", [POSTGRESQL, Source("pg", "", "Emp")])
def test_which_of_several_tables_is_meant_is_not_guessed(event: Source) -> None:
    several = {EMP, Source("pg", "s", "emp")}
    assert followed_tables(
        event, "ALTER TABLE Emp RENAME COLUMN a TO b", (), several, as_typed=True
    ) == [(event.name, False)]


@pytest.mark.parametrize(("as_typed", "expected"), [(True, "db.t"), (False, "db.T")])
def test_an_event_has_the_name_of_its_table_unless_its_format_copies_the_statement(
    as_typed: bool, expected: str
) -> None:
    event, stored = Source("db", "", "T"), {Source("db", "", "t")}
    found = followed_tables(event, "ALTER TABLE T RENAME COLUMN a TO b", (), stored, as_typed)
    assert found == [(expected, True)]


@pytest.mark.parametrize(
    ("format_", "listed", "reported"),
    [("dts_avro", "public.emp", True), ("dts_avro", "dept", False), ("maxwell", "p.emp", False)],
)
def test_statement_that_may_be_of_a_listed_table_without_rows_is_reported(
    monkeypatch: pytest.MonkeyPatch, format_: str, listed: str, reported: bool
) -> None:
    ddl = "ALTER TABLE Emp RENAME COLUMN a TO b"
    monkeypatch.setattr(ddl_columns, "placed_statements", lambda *_: [stated(POSTGRESQL, ddl)])
    monkeypatch.setattr(known_tables, "_stored", lambda _: [])
    summaries = [TableSummary(POSTGRESQL, records=1, ddl=1)]
    all_told = ddl_columns.statements_of_batch(
        job_of(format_, {listed: None}), cast(Any, None), summaries
    )
    assert [source.name for source in all_told] == (["pg.Emp"] if reported else [])
