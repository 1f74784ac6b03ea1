"""Which source table a name is of that somebody typed."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from sluice.config.pipeline import TableConfig
from sluice.ddl.stated_names import may_be, named
from sluice.ledger.column_log import ColumnStatement, tables_named_in
from spark_jobs.decoding import ddl_table_names
from spark_jobs.decoding.known_tables import KnownTables, _sources
from spark_jobs.planning.table_summary import Source, TableSummary

pytestmark = pytest.mark.catalog


@pytest.mark.parametrize(
    ("stated", "sources", "found"),
    [
        ("db.t", ["db.t", "db.T"], ["db.t"]),
        ("db.T", ["db.t"], ["db.t"]),
        ("DB.T", ["db.t", "db2.t"], ["db.t"]),
        ("db.t", ["db.public.t", "db.public.T"], ["db.public.t"]),
        ("db.t", ["db.a.t", "db.b.t"], ["db.a.t", "db.b.t"]),
        ("db.TT", ["db.tt", "db.Tt"], ["db.Tt", "db.tt"]),
        ("db.u", ["db.t"], []),
        ("db.t", ["t"], []),
    ],
)
def test_the_nearest_spelling_counts(stated: str, sources: list[str], found: list[str]) -> None:
    assert named(stated, sources) == found


@pytest.mark.parametrize(
    ("others", "mine"), [([], True), (["db.T"], False), (["db.u"], True), (["DB.t"], False)]
)
def test_a_name_is_of_a_table_that_no_other_has(others: list[str], mine: bool) -> None:
    assert may_be("db.T", "db.t", lambda: others) == mine


@pytest.mark.parametrize(
    ("format_", "found"), [("dts_avro", {"db.public.emp"}), ("maxwell", {"db.emp"})]
)
def test_statement_from_before_its_table_is_found_by_the_tables_name(
    format_: str, found: set[str]
) -> None:
    statements = [ColumnStatement("db.emp", "1", (("v", "w"),), "")]
    assert tables_named_in(statements, ["db.public.emp", "db.public.dept"], format_) == found


@pytest.mark.parametrize(
    ("template", "target", "name", "source"),
    [
        ("{table}", "t", "t", Source("", "", "t")),
        ("{table}", "t", "db.t", Source("db", "", "t")),
        ("{schema}_{table}", "s_t", "s.t", Source("", "s", "t")),
        ("{database}_{schema}_{table}", "d_s_t", "d.s.t", Source("d", "s", "t")),
        ("{table}", "t", "a.b.c.t", None),
    ],
)
def test_a_stored_name_has_the_parts_that_its_target_has(
    template: str, target: str, name: str, source: Source | None
) -> None:
    pipeline = cast(Any, SimpleNamespace(table_name=template))
    assert next(_sources(pipeline, target, name), None) == source


T, UPPER = Source("db", "", "t"), Source("db", "", "T")


def respelling(
    stored: set[Source], listed: list[str] | None = None, of: Source = UPPER
) -> dict[Source, Source]:
    """What a TRUNCATE is taken for."""
    tables = KnownTables(frozenset(), lambda: stored, as_typed=True)
    configs = None if listed is None else {name: TableConfig() for name in listed}
    pipeline = cast(Any, SimpleNamespace(tables=configs))
    return dict(
        ddl_table_names._respelled(pipeline, TableSummary(of, records=1, truncates=1), tables)
    )


def test_a_truncate_is_of_the_one_table_that_differs_by_case() -> None:
    assert respelling({T}) == {UPPER: T}
    assert respelling({T, Source("db2", "", "T")}) == {UPPER: T}


@pytest.mark.parametrize("listed", ["t", "db.t"])
def test_a_listed_table_is_known_before_its_rows(listed: str) -> None:
    assert respelling(set(), [listed]) == {UPPER: T}


def test_tables_that_differ_by_case_stay_apart() -> None:
    assert respelling({T, UPPER}) == {}
    assert respelling({T}, ["db.t", "db.T"]) == {}


def test_a_truncate_of_a_table_that_nobody_knows_keeps_its_name() -> None:
    assert respelling({Source("db", "", "u")}) == {}


def test_truncate_that_may_be_of_several_tables_is_reported(
    capsys: pytest.CaptureFixture[str],
) -> None:
    stated = Source("db", "", "TT")
    several = {Source("db", "", "tt"), Source("db", "", "Tt")}
    assert respelling(several, of=stated) == {}
    assert "may be db.Tt or db.tt" in capsys.readouterr().err
