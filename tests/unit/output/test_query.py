"""SQL on the lake: what is read, how values are written, what mistakes say."""

from __future__ import annotations

import io
import json
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.catalog import Catalog

from sluice.catalog.client import open_catalog
from sluice.config.project import Project
from sluice.errors import TerminalError
from sluice.output import query
from sluice.output.query import run_sql
from sluice.output.rows import Output, write_rows
from tests.unit.projects import empty_lake

pytestmark = pytest.mark.catalog

ORDERS = pa.table({"id": pa.array([1, 2, 3], pa.int64()), "Status": ["new", "paid", None]})
ODD = 'Odd "table"'


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Project:
    found = empty_lake(tmp_path_factory.mktemp("lake"))
    _fill(open_catalog(found))
    return found


def _fill(catalog: Catalog) -> None:
    for namespace in ("shop", "shop__cdc", "sluice"):
        catalog.create_namespace(namespace)
    orders = catalog.create_table("shop.orders", ORDERS.schema)
    orders.append(ORDERS.slice(0, 1))
    snapshot = orders.current_snapshot()
    assert snapshot is not None
    orders.manage_snapshots().create_tag(snapshot.snapshot_id, "batch-1").commit()
    orders.append(ORDERS.slice(1))
    catalog.create_table(("shop__cdc", ODD), pa.schema([("a b", pa.int32())])).append(
        pa.table({"a b": pa.array([7], pa.int32())})
    )
    catalog.create_table("shop.empty", ORDERS.schema)
    for namespace in ("lake", "memory", "System", "temp"):
        catalog.create_namespace(namespace)
        catalog.create_table(f"{namespace}.orders", ORDERS.schema).append(ORDERS)


def rows(project: Project, statement: str) -> list[dict[str, Any]]:
    out = io.StringIO()
    write_rows(run_sql(project, statement), "jsonl", out)
    return [json.loads(line) for line in out.getvalue().splitlines()]


def values(project: Project, statement: str) -> list[Any]:
    return [next(iter(row.values())) for row in rows(project, statement)]


def test_select(project: Project) -> None:
    assert rows(project, "SELECT * FROM shop.orders ORDER BY id") == [
        {"id": 1, "Status": "new"},
        {"id": 2, "Status": "paid"},
        {"id": 3, "Status": None},
    ]


@pytest.mark.parametrize(
    ("statement", "expected"),
    [
        ("SELECT count(*) FROM shop.orders", [3]),
        ("SELECT sum(id) FROM lake.shop.orders", [6]),
        ("SELECT STATUS FROM Shop.ORDERS o WHERE o.iD = 1", ["new"]),
        ("SELECT max(o.id) FROM shop.orders o JOIN shop.orders p USING (id)", [3]),
        ("SELECT max(o.id) FROM shop.orders o JOIN Shop.ORDERS p USING (id)", [3]),
        ("WITH orders AS (SELECT id FROM shop.orders) SELECT max(id) FROM orders", [3]),
        ("SELECT count(*) FROM shop.empty", [0]),
        (f"""SELECT "a b" FROM shop__cdc."{ODD.replace('"', '""')}" """, [7]),
        ("SELECT 1 WHERE EXISTS (SELECT 1 FROM shop.orders WHERE id = 3)", [1]),
        ("SELECT o FROM shop.orders o WHERE id = 1", [{"id": 1, "Status": "new"}]),
        ("SELECT count(*) FROM shop.orders a NATURAL JOIN shop.orders b", [2]),
        ("FROM shop.orders SELECT id WHERE id > 2", [3]),
        ("SELECT max(id) FROM shop.orders VERSION AS OF 'batch-1'", [1]),
        ("SELECT max(id) FROM shop.orders o version as of 'main'", [3]),
        ("SELECT 'VERSION AS OF 1' || max(id) FROM shop.orders", ["VERSION AS OF 13"]),
        ("SELECT $$VERSION AS OF 1$$", ["VERSION AS OF 1"]),
        ("SELECT $é$ it's $$ VERSION AS OF 1$é$", [" it's $$ VERSION AS OF 1"]),
        (r"SELECT E'it\'s VERSION AS OF 1'", ["it's VERSION AS OF 1"]),
        ("/* /* */ VERSION AS OF 1 */ SELECT 1 -- VERSION AS OF 1", [1]),
        ("SELECT 'é' FROM shop.orders o Version\nAS OF'batch-1'WHERE 2=2 -- é", ["é"]),
        ("SELECT count(*) FROM summary((SELECT id FROM shop.orders))", [3]),
        ("SELECT column_name FROM (DESCRIBE shop.orders)", ["id", "Status"]),
    ],
)
def test_statements(project: Project, statement: str, expected: list[Any]) -> None:
    assert values(project, statement) == expected


@pytest.mark.parametrize("namespace", ["lake", "memory", "System", "temp"])
def test_a_namespace_may_have_the_name_of_one_of_duckdbs_databases(
    project: Project, namespace: str
) -> None:
    named = f"{namespace}.orders"
    assert values(project, f"SELECT max({named}.id) FROM {named} WHERE {named}.id < 3") == [2]
    joined = f"SELECT count(*) FROM {named} VERSION AS OF 'main' JOIN lake.{named} USING (id)"
    assert values(project, joined) == [3]


@pytest.mark.parametrize(
    ("condition", "read"),
    [
        ("o.status = 'paid' AND id > 1", 1),
        ("'paid' = Status", 1),
        ("Status = 'paid' OR id = 1", 3),
        ("NOT Status = 'paid'", 3),
        ("Status = 'paid' AND id IN (SELECT id FROM shop.orders)", 3),
        ("id = '2'", 3),
    ],
)
def test_only_rows_that_can_be_meant_are_read(
    project: Project, monkeypatch: pytest.MonkeyPatch, condition: str, read: int
) -> None:
    """As Iceberg looks them up; what is left out is in no answer."""
    taken = []
    real = query._register

    def register(connection: Any, found: pa.Table, *rest: Any) -> None:
        taken.append(found.num_rows)
        real(connection, found, *rest)

    monkeypatch.setattr(query, "_register", register)
    found = values(project, f"SELECT id FROM shop.orders o WHERE {condition} ORDER BY 1")
    assert (taken, 2 in found) == ([read], "NOT" not in condition)


@pytest.mark.parametrize("statement", ["SHOW TABLES", "SHOW ALL TABLES", "show tables;"])
def test_the_tables_that_there_are_are_the_lakes(project: Project, statement: str) -> None:
    """DuckDB itself has none of them yet, and would answer that there are none."""
    found = [(row["namespace"], row["name"]) for row in rows(project, statement)]
    assert found == open_sorted(project)


def open_sorted(project: Project) -> list[tuple[str, ...]]:
    catalog = open_catalog(project)
    return sorted(t for ns in catalog.list_namespaces() for t in catalog.list_tables(ns))


def test_the_tables_of_one_namespace(project: Project) -> None:
    assert [row["name"] for row in rows(project, "SHOW TABLES FROM Shop")] == ["empty", "orders"]
    assert rows(project, "SHOW TABLES FROM nothing") == []


def test_versions_side_by_side(project: Project) -> None:
    statement = (
        "SELECT orders.id AS now, was.id AS was FROM shop.orders "
        "LEFT JOIN shop.orders VERSION AS OF 'batch-1' AS was USING (id) ORDER BY 1"
    )
    before = statement.replace("VERSION AS OF 'batch-1' AS was", "AS was VERSION AS OF 'batch-1'")
    assert [tuple(r.values()) for r in rows(project, before)] == [(1, 1), (2, None), (3, None)]


def test_two_columns_of_one_name(project: Project) -> None:
    statement = "SELECT a.id, b.id FROM shop.orders a JOIN shop.orders b ON a.id = b.id - 1"
    assert rows(project, f"{statement} ORDER BY 1")[0] == {"id": 1, "id_1": 2}


@pytest.mark.parametrize(
    ("statement", "expected"),
    [
        ("SELECT * FROM shop.nothing", "no table shop.nothing; there are: System.orders, lake.ord"),
        ("SELECT * FROM orders", "there is no table orders; there are: "),
        ("SELECT * FROM no.orders", "there is no table no.orders; there are: "),
        (
            "FROM information_schema.tables",
            "do not list the lake; SHOW TABLES does; there are: Sys",
        ),
        ("SELECT 1 FROM lake.pg_catalog.pg_tables", "do not list the lake; SHOW TABLES does"),
        ("SELECT * FROM (SHOW TABLES)", "do not list the lake; SHOW TABLES does; there are: Sy"),
        ("SELECT * FROM duckdb_tables()", "do not list the lake; SHOW TABLES does; there are: S"),
        ("SHOW SCHEMAS", "do not list the lake; SHOW TABLES does; there are: System.orders, lak"),
        ("SELECT * FROM '/etc/passwd'", "there is no table /etc/passwd"),
        ("SELECT nothing FROM shop.orders", "the query failed: "),
        ("SELEC", "this is not a query: "),
        ("DELETE FROM shop.orders", "this is not a query: only SELECT"),
        ("SELECT 1; SELECT 2", "expected one query, got 2"),
        ("FROM summary(shop.orders)", "summary(…) is not answered: name the table in FROM or SUMM"),
        ("SELECT q FROM shop.orders o, query('FROM shop.orders') q", "query(…) is not answered"),
        ("FROM system.main.QUERY_TABLE('shop.orders')", "query_table(…) is not answered"),
        ("SELECT * FROM shop.orders VERSION AS OF 'no'", "no version 'no'; there are: batch-1, ma"),
        ("SELECT * FROM shop.orders VERSION AS OF 12", "no version 12"),
    ],
)
def test_mistakes_in_sql_are_terminal_errors(
    project: Project, statement: str, expected: str
) -> None:
    with pytest.raises(TerminalError) as caught:
        run_sql(project, statement)
    assert expected in str(caught.value)


def test_what_was_dropped_since_it_was_listed_is_not_there(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    catalog = open_catalog(project)
    listed = catalog.list_namespaces()
    monkeypatch.setattr(type(catalog), "list_namespaces", lambda _: [("dropped",), *listed])
    with pytest.raises(TerminalError, match=r"no table shop\.nothing; there are: System\.orders"):
        run_sql(project, "SELECT * FROM shop.nothing")
    assert {"namespace": "shop", "name": "orders"} in rows(project, "SHOW TABLES")
    monkeypatch.setattr(type(catalog), "list_namespaces", lambda _: [("shop",)])
    monkeypatch.setattr(type(catalog), "list_tables", lambda *_: [("shop", "gone")])
    with pytest.raises(TerminalError, match=r"there is no table shop\.Gone; there are: "):
        run_sql(project, "SELECT * FROM shop.Gone")


@pytest.mark.parametrize(
    "statement",
    [
        "SELECT * FROM read_text('/etc/passwd')",
        "SELECT * FROM read_blob('/proc/self/environ')",
        "SELECT * FROM read_csv_auto('/etc/passwd')",
        "SELECT * FROM glob('/etc/*')",
        "SELECT id, (SELECT max(content) FROM read_text('/etc/passwd')) FROM shop.orders",
        "SELECT * FROM read_parquet('https://example.invalid/x.parquet')",
    ],
)
def test_nothing_but_the_lake_is_read(project: Project, statement: str) -> None:
    with pytest.raises(TerminalError, match="the query failed: Permission Error"):
        run_sql(project, statement)


def test_the_lake_alone_is_read_for_good(project: Project) -> None:
    settings = "current_setting('enable_external_access'), current_setting('lock_configuration')"
    answer = rows(project, f"SELECT max(id), {settings} FROM shop.orders")
    assert [list(row.values()) for row in answer] == [[3, False, True]]


def written(column: pa.Array, output: Output = "jsonl") -> list[Any]:
    out = io.StringIO()
    write_rows(pa.table({"c": column}), output, out)
    return [json.loads(line)["c"] for line in out.getvalue().splitlines()]


INSTANT = datetime(2026, 3, 1, 5, 0, 0, 120, tzinfo=UTC)


@pytest.mark.parametrize(
    ("column", "expected"),
    [
        (pa.array([1, 1 << 53, (1 << 53) + 1, -(1 << 62)]),
         [1, 1 << 53, "9007199254740993", "-4611686018427387904"]),
        (pa.array([Decimal("1.10"), Decimal("0.00"), None]), ["1.10", "0.00", None]),
        (pa.array([Decimal("1E-10")], pa.decimal128(38, 10)), ["0.0000000001"]),
        (pa.array([b"\x00\xff", b""]), ["AP8=", ""]),
        (pa.array([True, None]), [True, None]),
        (pa.array([1.5, float("nan"), float("inf"), float("-inf")]),
         [1.5, "NaN", "Infinity", "-Infinity"]),
        (pa.array([0.1, None], pa.float32()), [0.1, None]),
        (pa.array([INSTANT, None], pa.timestamp("us", "UTC")),
         ["2026-03-01T05:00:00.000120Z", None]),
        (pa.array([INSTANT], pa.timestamp("us", "Asia/Tokyo")), ["2026-03-01T05:00:00.000120Z"]),
        (pa.array([0], pa.timestamp("us")), ["1970-01-01T00:00:00.000000"]),
        (pa.array([-62135596800000000, 316537891200000000], pa.timestamp("us")),
         ["0001-01-01T00:00:00.000000", "12000-09-08T00:00:00.000000"]),
        (pa.array([date(1, 1, 1), date(9999, 12, 31), None]), ["0001-01-01", "9999-12-31", None]),
        (pa.array([[1 << 60]]), [["1152921504606846976"]]),
        (pa.array([{"d": Decimal("1.0"), "b": b"x"}]), [{"d": "1.0", "b": "eA=="}]),
        (pa.array(["é\n", ""]), ["é\n", ""]),
    ],
)  # fmt: skip
def test_json_holds_values_exactly(column: pa.Array, expected: list[Any]) -> None:
    assert written(column) == expected


def test_csv() -> None:
    out = io.StringIO()
    table = pa.table({"a,b": ["x,y", None], "t": [True, False], "l": [[1], None]})
    write_rows(table, "csv", out)
    assert out.getvalue() == '"a,b",t,l\n"x,y",true,[1]\n,false,\n'


def test_table_takes_markup_as_text() -> None:
    out = io.StringIO()
    write_rows(pa.table({"[bold]": ["[red]x[/red]" * 30]}), "table", out)
    assert "[bold]" in out.getvalue()
    assert "[red]x[/red]" * 30 in out.getvalue()
