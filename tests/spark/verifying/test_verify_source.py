"""verify --source: targets beside the tables of a real PostgreSQL that their events tell of."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import psycopg2
import pytest
from pyspark.sql import SparkSession

from sluice.config.live_source import LiveSource
from sluice.environment import ENV_SOURCE_USER
from sluice.errors import TerminalError
from sluice.verification import TableReport, Verification
from spark_jobs.lake.cut import Cutter
from spark_jobs.verifying.source import verify_source
from tests import postgres
from tests.spark import pg_types
from tests.spark.recordings import Recording
from tests.spark.sandbox import NAMESPACE
from tests.spark.shop import Shop, event

pytestmark = pytest.mark.spark

ALL: Final = 'public."All Kinds"'
DDL: Final = f"""
CREATE TYPE mood AS ENUM ('fine', 'so "so"');
CREATE DOMAIN price AS numeric(12,4);
CREATE TABLE {ALL} (
    "I d" bigint PRIMARY KEY, code char(5), price price, free numeric, cash money, born date,
    seen timestamptz, local timestamp(3), at time, ratio double precision, small real, yes boolean,
    raw bytea, how mood, tags text[], doc jsonb, past interval, "o""ne" text
);
CREATE TABLE log (who text, what integer);
CREATE TABLE late (id integer PRIMARY KEY, t text);
"""
COLUMNS: Final = {
    "I d": "bigint", "price": "decimal(12,4)", "free": "decimal(30,10)", "cash": "decimal(12,2)",
    "born": "date", "seen": "timestamp", "local": "timestamp_ntz", "ratio": "double",
    "small": "float", "yes": "boolean", "raw": "binary[base64]",
}  # fmt: skip
# What the source has in one row, and what its event says; both are that of one value.
ROWS: Final[list[tuple[dict[str, Any], dict[str, Any]]]] = [
    (
        {"I d": 1, "code": "ab", "price": "1.5", "free": "12345678901234567890.10",
         "cash": "-3.50", "born": "0044-03-15 BC", "seen": "2026-03-02 10:00:00.1+02",
         "local": "1582-10-04 00:00:00.120", "at": "10:00:00.5", "ratio": "-0", "small": "0.1",
         "yes": True, "raw": b"\x00\xff", "how": 'so "so"', "tags": ["a"],
         "doc": '{"b": 1, "a": "é"}', 'o"ne': " \t'"},
        {"I d": 1, "code": "ab   ", "price": "1.5000", "free": "12345678901234567890.10",
         "cash": "-3.50", "born": "-0043-03-15", "seen": "2026-03-02T08:00:00.100Z",
         "local": "1582-10-04T00:00:00.120", "at": "10:00:00.500000", "ratio": 0.0, "small": 0.1,
         "yes": True, "raw": base64.b64encode(b"\x00\xff").decode(), "how": 'so "so"',
         "tags": ["a"], "doc": '{"a": "é", "b": 1}',
         "past": "P1D", 'o"ne': " \t'"},
    ),
    (
        {"I d": 2, "code": None, "ratio": "Infinity", "small": "NaN", "yes": False, "how": "fine"},
        {"I d": 2, "code": None, "ratio": "Infinity", "small": "NaN", "yes": False, "how": "fine"},
    ),
]  # fmt: skip
LOGGED: Final = [("a", 1), ("a", 1), (None, 2)]


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """A server of the module's own."""
    # Not every developer may install a server; in CI `make setup-tests` fails without one.
    if postgres.programs() is None:
        pytest.skip(postgres.MISSING)
    with postgres.server() as found:
        yield found


Execute = Callable[..., None]


@pytest.fixture(scope="module")
def shop(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Shop:
    """A lake that holds what the source does, and of one row what came later."""
    kinds = {"key": ["I d"], "columns": COLUMNS}
    configured = {
        "public.All Kinds": kinds,
        "public.log": {"key": []},
        "public.late": {"key": ["id"]},
    }
    found = Shop(spark, tmp_path_factory.mktemp("p"), {"format": "debezium", "tables": configured})
    every = dict.fromkeys(ROWS[0][1])
    events = [event("c", "All Kinds", at, **every | row) for at, (_, row) in enumerate(ROWS)]
    events += [event("c", "log", 10 + at, who=w, what=n) for at, (w, n) in enumerate(LOGGED)]
    found.run(*events, event("c", "late", 20, id=1, t="a"), event("c", "late", 21, id=2, t="b"))
    found.run(event("u", "late", 100_000, id=1, t="c"), event("d", "late", 100_001, id=2, t="b"))
    return found


@pytest.fixture
def source(address: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Execute]:
    """The source with its rows, and a way to change them."""
    monkeypatch.setenv(ENV_SOURCE_USER, postgres.USER)
    with closing(psycopg2.connect(address)) as connection, connection.cursor() as cursor:
        connection.autocommit = True
        cursor.execute("DROP SCHEMA public CASCADE; CREATE SCHEMA public; SET timezone = 'UTC'")
        cursor.execute(DDL)
        for row, _ in ROWS:
            listed = ", ".join('"' + name.replace('"', '""') + '"' for name in row)
            marks = ", ".join("%s" for _ in row)
            cursor.execute(f"INSERT INTO {ALL} ({listed}) VALUES ({marks})", (*row.values(),))
        cursor.executemany("INSERT INTO log VALUES (%s, %s)", LOGGED)
        cursor.execute("INSERT INTO late VALUES (1, 'a'), (2, 'b')")
        yield lambda sql, *values: cursor.execute(sql, values or None)


def verified(
    shop: Shop, address: str, table: str | None = None, watermark: datetime | None = None
) -> Verification:
    cutter = Cutter(shop.catalog, shop.context().ledger, NAMESPACE)
    place = address.rpartition("@")[2]
    live = LiveSource(f"jdbc:postgresql://{place}?ApplicationName=t", watermark)
    return verify_source(shop.spark, cutter, shop.pipeline, live, table)


def differences_of(report: TableReport) -> dict[str | None, tuple[str, tuple[str, ...]]]:
    """What differs by the key, which is `I d` or `id`."""
    rows = ((d, d.expected or d.found or {}) for d in report.rows.shown)
    return {row.get("I d") or row.get("id"): (d.kind, tuple(sorted(d.columns))) for d, row in rows}


def test_a_lake_that_holds_what_the_source_holds(shop: Shop, address: str, source: Execute) -> None:
    source("UPDATE late SET t = 'c' WHERE id = 1; DELETE FROM late WHERE id = 2")
    found = verified(shop, address)
    assert found.agrees, found
    assert [(t.target, t.rows.expected, t.rows.found) for t in found.tables] == [
        (f"{NAMESPACE}.All Kinds", 2, 2), (f"{NAMESPACE}.late", 1, 1), (f"{NAMESPACE}.log", 3, 3),
    ]  # fmt: skip
    assert found.source == f"jdbc:postgresql://{address.rpartition('@')[2]}"
    assert any(
        "columns not compared: past (interval), tags (_text)" in note for note in found.notes
    )
    assert any("compared up to the event at" in note for note in found.notes)
    assert Verification.from_json(found.to_json()) == found


def test_every_kind_of_value_is_compared(shop: Shop, address: str, source: Execute) -> None:
    """Each column changed at the source is told; only what has no common spelling is not."""
    changes = {
        "code": "'AB'", "price": "1.5001", "free": "12345678901234567890.1000000001",
        "cash": "3.5", "born": "'0045-03-15 BC'", "seen": "seen + interval '1 microsecond'",
        "local": "'1582-10-05'", "at": "'10:00:00.500001'", "ratio": "1e-300", "small": "0.2",
        "yes": "NULL", "raw": "'\\x00'", "how": "'fine'",
        "doc": "'{}'", 'o""ne': "' '",
    }  # fmt: skip
    sets = ", ".join(f'"{name}" = {value}' for name, value in changes.items())
    source(f"UPDATE {ALL} SET past = '2 days', tags = '{{}}', {sets} WHERE \"I d\" = 1")
    (report,) = verified(shop, address, "All Kinds").tables
    columns = tuple(sorted(name.replace('""', '"') for name in changes))
    assert differences_of(report) == {"1": ("differs", columns)}


def test_missing_unexpected_and_repeated_rows(shop: Shop, address: str, source: Execute) -> None:
    source(f'DELETE FROM {ALL} WHERE "I d" = 2; INSERT INTO {ALL} ("I d") VALUES (3)')
    source("DELETE FROM log WHERE who IS NULL; INSERT INTO log VALUES ('a', 1)")
    kinds, _, log = verified(shop, address).tables
    assert differences_of(kinds) == {"2": ("unexpected", ()), "3": ("missing", ())}
    assert {d.kind: (d.expected or d.found or {})["who"] for d in log.rows.shown} == {
        "unexpected": None, "repeated": "a",
    }  # fmt: skip


def test_at_a_watermark_later_events_do_not_count(
    shop: Shop, address: str, source: Execute
) -> None:
    (report,) = verified(shop, address, "late").tables
    assert differences_of(report) == {"1": ("differs", ("t",)), "2": ("missing", ())}
    before = datetime.fromtimestamp((1_760_000_000_000 + 50_000) / 1000, UTC)
    assert verified(shop, address, "late", before).agrees


def test_columns_and_tables_of_one_side(shop: Shop, address: str, source: Execute) -> None:
    source("ALTER TABLE log ADD more text DEFAULT 'x'; ALTER TABLE log DROP what")
    (note,) = [n for n in verified(shop, address, "log").notes if "not compared" in n]
    assert "more (not in the target)" in note
    assert "what (not at the source)" in note
    source("DROP TABLE log")
    assert any("has no table shop.public.log" in note for note in verified(shop, address).notes)
    with pytest.raises(TerminalError, match=r"none of the tables of p: shop\.public\.log"):
        verified(shop, address, "log")
    source(f'ALTER TABLE {ALL} RENAME "I d" TO id')
    with pytest.raises(TerminalError, match="no common spelling of I d"):
        verified(shop, address, "All Kinds")


@pytest.mark.long
def test_a_recorded_lake_beside_the_recorded_source(
    spark: SparkSession, tmp_path: Path, address: str, source: Execute
) -> None:
    """Real events of a real PostgreSQL, and its own tables as it dumped them."""
    recording = Recording("pg-types-1")
    recording.require()
    source((recording.folder / "expected" / "ddl.sql").read_text())
    for table in pg_types.KEYS:
        for row in recording.read(f"expected/{table}.jsonl"):
            listed = ", ".join(f'"{name}"' for name in row)
            marks = ", ".join("%s" for _ in row)
            source(f"INSERT INTO {table} ({listed}) VALUES ({marks})", *row.values())
    lake = Shop(spark, tmp_path, {"format": "debezium", "tables": pg_types.tables(False, True)})
    lake.load(*recording.files_of("schema"))
    ledger = lake.context().ledger
    for batch in lake.published:
        ledger.batches.record(batch, "published")
    found = verified(lake, address)
    assert len(found.tables) == len(pg_types.KEYS)
    assert {t.target: t.rows.shown for t in found.tables if not t.agrees} == {}
    assert [note for note in found.notes if "not compared" in note] == [
        f"{NAMESPACE}.t_evolve: columns not compared: gone (not at the source)"
    ]


def test_a_key_with_a_collation_is_compared_by_its_own_text(
    spark: SparkSession, tmp_path: Path, address: str, source: Execute
) -> None:
    named = {"public.named": {"key": ["code"], "collations": {"code": "nocase"}}}
    lake = Shop(spark, tmp_path, {"format": "debezium", "tables": named})
    lake.run(
        event("c", "named", 1, code="abc", note="a"), event("u", "named", 2, code="ABC", note="b")
    )
    source("CREATE TABLE named (code text PRIMARY KEY, note text)")
    source("INSERT INTO named VALUES ('ABC', 'b')")
    found = verified(lake, address)
    assert found.agrees, found
    assert not any("not compared" in note for note in found.notes), found.notes
    source("UPDATE named SET note = 'c'")
    (report,) = verified(lake, address).tables
    assert [(d.kind, d.columns) for d in report.rows.shown] == [("differs", ("note",))]


def test_a_key_that_the_source_renamed_is_compared(
    spark: SparkSession, tmp_path: Path, address: str, source: Execute
) -> None:
    renamed = {"public.orders": {"key": ["id"], "renamed_columns": {"id": "order_id"}}}
    lake = Shop(spark, tmp_path, {"format": "debezium", "tables": renamed})
    lake.run(event("c", "orders", 1, id=1, note="a"), event("c", "orders", 2, order_id=2, note="b"))
    source("CREATE TABLE orders (order_id int PRIMARY KEY, note text)")
    source("INSERT INTO orders VALUES (1, 'a'), (2, 'b')")
    found = verified(lake, address)
    assert found.agrees, found
    source("UPDATE orders SET note = 'c' WHERE order_id = 2")
    (report,) = verified(lake, address).tables
    assert differences_of(report) == {"2": ("differs", ("note",))}


@pytest.mark.long
def test_columns_whose_names_are_taken_are_compared(
    spark: SparkSession, tmp_path: Path, address: str, source: Execute
) -> None:
    lake = Shop(spark, tmp_path, {"format": "debezium", "tables": {"public.t": {"key": ["_pos"]}}})
    lake.run(event("c", "t", 1, _pos=1, _Op="a"), event("c", "t", 2, _pos=2, _Op="b"))
    source('CREATE TABLE t (_pos int PRIMARY KEY, "_Op" text)')
    source("INSERT INTO t VALUES (1, 'a'), (2, 'b')")
    found = verified(lake, address)
    assert found.agrees, found
    source("UPDATE t SET \"_Op\" = 'c' WHERE _pos = 2")
    (report,) = verified(lake, address).tables
    (differs,) = report.rows.shown
    assert (differs.kind, tuple(differs.columns)) == ("differs", ("_Op__source",))


def test_login_refused_by_the_source_is_not_tried_again(
    shop: Shop, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(ENV_SOURCE_USER, "nobody_here")
    with pytest.raises(TerminalError, match=r'"nobody_here" does not exist. User .*SLUICE_SOURCE_'):
        verified(shop, address)
    monkeypatch.setenv(ENV_SOURCE_USER, postgres.USER)
    with pytest.raises(TerminalError, match=r"SQLSTATE 3D000\): FATAL: database .*no_such"):
        verified(shop, address.rpartition("/")[0] + "/no_such")
