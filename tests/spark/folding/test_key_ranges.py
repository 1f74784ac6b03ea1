"""A merge does not read the files whose keys are below or above all of the batch's."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from pyspark.sql import SparkSession

from spark_jobs.folding.key_ranges import extremes, key_ranges
from tests.spark.shop import Shop, event

pytestmark = pytest.mark.spark


def shop_of(spark: SparkSession, root: Path, **table: Any) -> Shop:
    return Shop(spark, root, {"format": "debezium", "tables": {"orders": {"key": ["id"], **table}}})


def damage_files(shop: Shop, *table: str) -> dict[Path, bytes]:
    """Make the table's present data files unreadable; return what they held."""
    held = {}
    for file in shop.table(*table).inspect.data_files()["file_path"].to_pylist():
        path = Path(urlsplit(file).path)
        held[path] = path.read_bytes()
        path.write_bytes(b"x" * path.stat().st_size)
        path.with_name(f".{path.name}.crc").unlink(missing_ok=True)
    return held


@pytest.mark.parametrize("mode", ["merge-on-read", "copy-on-write"])
def test_files_without_a_key_of_the_batch_are_not_read(
    spark: SparkSession, tmp_path: Path, mode: str
) -> None:
    shop = shop_of(spark, tmp_path, columns={"id": "bigint"}, write_mode=mode)
    shop.run(*(event("c", "orders", 10 + n, id=n, text="old") for n in (-3, 2)))
    damage_files(shop, "orders")
    shop.run(*(event("c", "orders", 20 + n, id=n, text="new") for n in (3, 4, 5)))
    shop.run(
        event("u", "orders", 30, id=3, text="changed"),
        event("d", "orders", 31, id=5),
        event("c", "orders", 32, id=6, text="new"),
    )
    rows = shop.spark.table("lake.shop.orders").where("id > 2").orderBy("id")
    assert [(row.id, row.text) for row in rows.collect()] == [
        (3, "changed"), (4, "new"), (6, "new"),
    ]  # fmt: skip
    with pytest.raises(Exception, match="is not a Parquet file"):
        shop.run(event("u", "orders", 40, id=-3, text="changed"))


def test_tombstones_without_a_key_of_the_batch_are_not_read_either(
    spark: SparkSession, tmp_path: Path
) -> None:
    shop = shop_of(spark, tmp_path, columns={"id": "bigint"})
    shop.run(event("c", "orders", 10, id=1, text="a"), event("d", "orders", 11, id=2))
    held = damage_files(shop, "orders__tombstones", "shop__cdc")
    shop.run(event("d", "orders", 20, id=7), event("d", "orders", 21, id=9))
    shop.run(event("c", "orders", 30, id=9, text="again"), event("d", "orders", 31, id=8))
    for path, content in held.items():
        path.write_bytes(content)
    shop.run(event("c", "orders", 40, id=2, text="again"))
    assert shop.seen() == [(1, "a"), (2, "again"), (9, "again")]
    dead = shop.spark.table("lake.shop__cdc.orders__tombstones").collect()
    assert sorted(row.id for row in dead) == [7, 8]
    assert shop.agrees()


LEAST, GREATEST = "0001-01-01 00:00:00", "9999-12-31 23:59:59.999999"
VALUES: dict[str, list[str]] = {
    "bigint": ["-9223372036854775808", "-1", "9223372036854775807"],
    "int": ["-2147483648", "0", "2147483647"],
    "decimal(38,38)": ["-0." + "9" * 38, "-0." + "0" * 37 + "1", "0", "0." + "9" * 38],
    "decimal(9,2)": ["-10.50", "-9", "9", "10"],
    "decimal(38,0)": ["-" + "9" * 38, "9" * 38],
    "date": ["-290307-01-01", "0001-01-01", "1969-12-31", "+290307-12-31"],
    "timestamp": ["-0044-03-15 12:00:00.000001", LEAST, "1969-12-31 23:59:59.999999", GREATEST,
                  "+290307-12-31 00:00:00.000001"],
    "timestamp_ntz": [LEAST, "1883-11-18 12:03:57.5", GREATEST],
}  # fmt: skip


@pytest.mark.parametrize("kind", VALUES)
def test_a_range_has_its_own_ends(spark: SparkSession, kind: str) -> None:
    """Each pair of neighbours: the values themselves are in the range, all others are not."""
    values = spark.createDataFrame([(v,) for v in VALUES[kind]], "text string")
    # `k` has to be quoted.
    values = values.selectExpr("text", f"CAST(text AS {kind}) AS `a ``k`").localCheckpoint()
    assert values.where("`a ``k` IS NULL").isEmpty()
    for pair in zip(VALUES[kind], VALUES[kind][1:], strict=False):
        some = values.where(values.text.isin(*pair))
        found = some.agg(*extremes(some, ["a `k"])).collect()[0]
        (within,) = key_ranges(found, some, ["a `k"])
        inside = values.alias("t").where(within.sql("t")).select("text").collect()
        assert {row.text for row in inside} == set(pair)


def test_columns_without_a_safe_order_or_a_value_have_no_range(spark: SparkSession) -> None:
    rows = spark.sql(
        "SELECT 'a' AS text, X'01' AS bytes, 1D AS double, float(1) AS float, true AS truth,"
        " CAST(NULL AS int) AS nothing, 7 AS number"
    )
    found = rows.agg(*extremes(rows, rows.columns)).collect()[0]
    assert [r.column for r in key_ranges(found, rows, rows.columns)] == ["number"]
    assert key_ranges(found, rows, ["text"]) == ()


@pytest.mark.parametrize(
    ("kind", "ids"),
    [
        ("bigint", [-5, -1, 0, 7]),
        pytest.param("decimal(9,2)", ["-10.5", "-9", "9.10", "10"], marks=pytest.mark.long),
        pytest.param("date", ["1492-10-12", "1969-12-31", "1970-01-01", "2026-02-28"],
                     marks=pytest.mark.long),
        pytest.param("timestamp", ["1969-12-31T23:59:59.999999Z", "1970-01-01T00:00:00Z",
                                   "2026-03-29T03:30:00+02:00", "2026-03-29T01:30:00.000001Z"],
                     marks=pytest.mark.long),
        pytest.param("timestamp_ntz", ["1883-11-18T12:03:57", "1969-12-31T23:59:59.999999",
                                       "2026-03-29T02:30:00", "2026-10-25T02:30:00"],
                     marks=pytest.mark.long),
    ],
)  # fmt: skip
def test_keys_at_the_ends_of_a_range_are_matched(
    spark: SparkSession, tmp_path: Path, kind: str, ids: list[Any]
) -> None:
    """In a compound key, newer and late; both ends are updated, deleted and come again."""
    shop = shop_of(spark, tmp_path, key=["region", "id"], columns={"id": kind})
    least, low, high, greatest = ids

    def change(op: str, lsn: int, id: Any, text: str) -> str:
        return event(op, "orders", lsn, region="x", id=id, text=text)

    shop.run(*(change("c", 10 + n, id, "first") for n, id in enumerate(ids)))
    shop.run(change("u", 20, low, "second"), change("u", 21, high, "second"))
    shop.run(change("d", 30, least, ""), change("d", 31, greatest, ""))
    shop.run(change("u", 25, least, "late"), change("u", 32, low, "third"))
    shop.run(change("c", 40, least, "again"), change("d", 41, low, ""), change("d", 24, high, ""))
    assert sorted(row["text"] for row in shop.rows("orders")) == ["again"]
    assert shop.agrees()
