"""verify --source: targets beside the tables of a real MariaDB, in its own spellings."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from typing import Any, Final

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StringType

from sluice.config.live_source import LiveSource
from sluice.environment import ENV_SOURCE_USER
from sluice.errors import TerminalError
from sluice.verification import TableReport, Verification
from spark_jobs.lake.cut import Cutter
from spark_jobs.verifying.source import verify_source
from spark_jobs.verifying.source_database import LiveColumn, TextForm
from spark_jobs.verifying.texts import spelled_source, spelled_target
from tests import mariadb
from tests.spark.sandbox import NAMESPACE
from tests.spark.shop import Shop

pytestmark = pytest.mark.spark

ALL: Final = '`shop`.`All ``"Kinds`'
DDL: Final = f"""
DROP DATABASE IF EXISTS shop; DROP DATABASE IF EXISTS archive;
CREATE DATABASE shop CHARACTER SET utf8mb4; CREATE DATABASE archive;
CREATE TABLE {ALL} (
    `I"d` bigint unsigned PRIMARY KEY, code char(5), padded int(6) unsigned zerofill,
    price decimal(20,4), vast decimal(65,30), ratio double, small float, flag bit(1), flags bit(10),
    born date, seen timestamp(3) NULL, local datetime(6), at time(3), made year,
    mood enum('fine','so-so'), tags set('x','y'), doc json, latin varchar(9) CHARACTER SET latin1,
    raw varbinary(9), fixed binary(4), note longtext, where_ point
);
CREATE TABLE shop.log (who text, what integer);
CREATE TABLE archive.log (who text, what integer);
"""
COLUMNS: Final = {
    'I"d': "decimal(20,0)", "padded": "bigint", "price": "decimal(20,4)", "vast": "string",
    "ratio": "double", "small": "double", "flag": "boolean", "flags": "int", "born": "date",
    "seen": "timestamp", "local": "timestamp_ntz", "made": "int", "raw": "binary[base64]",
    "fixed": "binary[base64]",
}  # fmt: skip
VAST: Final = "99999999999999999999999999999999999.999999999999999999999999999999"
# What the source has in one row as SQL, and what its event says; both are that of one value.
ROWS: Final[list[tuple[dict[str, str], dict[str, Any]]]] = [
    (
        {'I"d': "18446744073709551615", "code": "'ab '", "padded": "42", "price": "-1.5",
         "vast": VAST, "ratio": "-0e0", "small": "0.1", "flag": "b'1'", "flags": "b'1000000001'",
         "born": "'1000-01-01'", "seen": "'2026-03-02 10:00:00.1'",
         "local": "'9999-12-31 23:59:59.999999'", "at": "'-838:59:58.5'", "made": "2026",
         "mood": "'so-so'", "tags": "'x,y'", "doc": "'{\"b\": 1}'", "latin": "'ü'",
         "raw": "x'00ff'", "fixed": "'ab'", "note": "'é 🙂 \\\\ '' '"},
        {'I"d': "18446744073709551615", "code": "ab", "padded": 42, "price": "-1.5000",
         "vast": VAST, "ratio": 0.0, "small": 0.1, "flag": True, "flags": 513,
         "born": "1000-01-01", "seen": "2026-03-02T10:00:00.100Z",
         "local": "9999-12-31T23:59:59.999999", "at": "-838:59:58.500000", "made": 2026,
         "mood": "so-so", "tags": "x,y", "doc": '{"b": 1}', "latin": "ü",
         "raw": base64.b64encode(b"\x00\xff").decode(),
         "fixed": base64.b64encode(b"ab\x00\x00").decode(), "note": "é 🙂 \\ ' ", "where_": None},
    ),
    (
        {'I"d': "2", "small": "1.17549e-38", "born": "'0000-00-00'", "local": "'2026-00-00'",
         "seen": "'0000-00-00'", "vast": "1"},
        {'I"d': 2, "small": 1.17549e-38, "vast": "1.000000000000000000000000000000"},
    ),
]  # fmt: skip


@pytest.fixture(scope="module")
def server() -> Iterator[mariadb.Server]:
    """A server of the module's own."""
    # Not every developer may install a server; in CI `make setup-tests` fails without one.
    if mariadb.program() is None:
        pytest.skip(mariadb.MISSING)
    with mariadb.server() as found:
        yield found


@pytest.fixture
def source(server: mariadb.Server, monkeypatch: pytest.MonkeyPatch) -> mariadb.Server:
    """The source with its rows."""
    monkeypatch.setenv(ENV_SOURCE_USER, mariadb.USER)
    inserts = "".join(
        f"INSERT INTO {ALL} ({', '.join(f'`{name}`' for name in row)}) "
        f"VALUES ({', '.join(row.values())});"
        for row, _ in ROWS
    )
    server.execute(f"{DDL}{inserts}INSERT INTO shop.log VALUES ('a', 1), ('a', 1), (NULL, 2);")
    return server


def event(table: str, pos: int, **row: Any) -> str:
    """One insert as Debezium writes it without schema."""
    place = {"file": "bin.000001", "pos": pos, "row": 0, "ts_ms": 1_760_000_000_000 + pos}
    source = {"connector": "mariadb", "db": "shop", "table": table, "snapshot": "false", **place}
    return json.dumps({"before": None, "after": row, "source": source, "op": "c"})


@pytest.fixture(scope="module")
def shop(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Shop:
    """A lake that holds what the source does."""
    configured = {
        'shop.All `"Kinds': {"key": ['I"d'], "columns": COLUMNS},
        "shop.log": {"key": []},
    }
    found = Shop(spark, tmp_path_factory.mktemp("m"), {"format": "debezium", "tables": configured})
    every = dict.fromkeys(ROWS[0][1])
    kinds = [event('All `"Kinds', at, **every | row) for at, (_, row) in enumerate(ROWS)]
    logged = [("a", 1), ("a", 1), (None, 2)]
    found.run(*kinds, *(event("log", 10 + i, who=w, what=n) for i, (w, n) in enumerate(logged)))
    return found


def verified(shop: Shop, server: mariadb.Server, scheme: str = "mariadb") -> Verification:
    cutter = Cutter(shop.catalog, shop.context().ledger, NAMESPACE)
    live = LiveSource(f"jdbc:{scheme}://127.0.0.1:{server.port}/shop?connectTimeout=9000")
    return verify_source(shop.spark, cutter, shop.pipeline, live, None)


def differences_of(report: TableReport) -> list[tuple[str, str | None, tuple[str, ...]]]:
    """What differs: how, the key, and in which columns."""
    rows = ((d, d.expected or d.found or {}) for d in report.rows.shown)
    return [(d.kind, row.get('I"d') or row.get("who"), tuple(sorted(d.columns))) for d, row in rows]


def test_a_lake_that_holds_what_the_source_holds(shop: Shop, source: mariadb.Server) -> None:
    found = verified(shop, source)
    assert found.agrees, found
    assert [(t.target, t.rows.expected, t.rows.found) for t in found.tables] == [
        (f'{NAMESPACE}.All `"Kinds', 2, 2), (f"{NAMESPACE}.log", 3, 3),
    ]  # fmt: skip
    compared = [note for note in found.notes if "not compared" in note]
    assert compared == [f'{NAMESPACE}.All `"Kinds: columns not compared: where_ (point)']


def test_every_kind_of_value_is_compared(shop: Shop, source: mariadb.Server) -> None:
    changes = {
        "code": "'AB'", "padded": "43", "price": "-1.5001", "vast": f"{VAST[:-1]}8",
        "ratio": "1e-300", "small": "0.2", "flag": "b'0'", "flags": "b'1'",
        "born": "'0000-00-00'", "seen": "seen + interval 1000 microsecond",
        "local": "local - interval 1 microsecond", "at": "'-838:59:58.501'", "made": "2027",
        "mood": "'fine'", "tags": "'x'", "doc": "'{}'", "latin": "'u'", "raw": "x'00'",
        "fixed": "'ab '", "note": "'e'",
    }  # fmt: skip
    sets = ", ".join(f"`{name}` = {value}" for name, value in changes.items())
    source.execute(f'UPDATE {ALL} SET where_ = POINT(1, 1), {sets} WHERE `I"d` > 2')
    kinds, log = verified(shop, source).tables
    assert differences_of(kinds) == [("differs", "18446744073709551615", tuple(sorted(changes)))]
    assert log.agrees


def test_rows_of_one_side_by_the_name_of_mysql(shop: Shop, source: mariadb.Server) -> None:
    source.execute(f'DELETE FROM {ALL} WHERE `I"d` = 2; INSERT INTO {ALL} (`I"d`) VALUES (3)')
    source.execute("DELETE FROM shop.log WHERE who = 'a' LIMIT 1")
    kinds, log = verified(shop, source, "mysql").tables
    assert differences_of(kinds) == [("unexpected", "2", ()), ("missing", "3", ())]
    assert differences_of(log) == [("repeated", "a", ())]


def test_a_table_that_only_another_database_has(shop: Shop, source: mariadb.Server) -> None:
    source.execute("DROP TABLE shop.log")
    assert any("no table shop.log" in note for note in verified(shop, source).notes)
    source.execute(f"DROP TABLE {ALL}")
    with pytest.raises(TerminalError, match=r"has none of the tables of p: shop"):
        verified(shop, source)


def test_documents_of_mysql_are_one_however_they_are_written(spark: SparkSession) -> None:
    column = LiveColumn("doc", "json", TextForm.JSON, "doc")
    written = spark.createDataFrame(
        [('{"a": 1, "b": [1.5, null]}', '{"b":[1.5,null],"a":1}', '{"a":1,"b":[1.6,null]}')]
    )
    same, other = (spelled_target(F.col(c), column, StringType()) for c in ("_2", "_3"))
    expected = spelled_source(F.col("_1"), column, StringType())
    assert written.select(expected == same, expected == other).collect() == [(True, False)]


@pytest.mark.parametrize(("held", "equal"), [("23:59:59Z", True), ("23:59:59.120Z", False)])
def test_a_time_is_compared_without_the_zone_that_isostring_adds(
    spark: SparkSession, held: str, equal: bool
) -> None:
    column = LiveColumn("at", "time", TextForm.CLOCK, "at")
    rows = spark.createDataFrame([("23:59:59.000", held)])
    source = spelled_source(F.col("_1"), column, StringType())
    target = spelled_target(F.col("_2"), column, StringType())
    assert rows.select((source == target).alias("equal")).collect() == [(equal,)]
