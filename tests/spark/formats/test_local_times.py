"""Hints with a time zone: the local time of an instant, where clocks are put forward and back."""

from __future__ import annotations

from collections import defaultdict

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from sluice.types.columns import parse_type
from spark_jobs.values import decode

pytestmark = pytest.mark.spark

TIME, DAY = "timestamp_ntz[ms@Asia/Shanghai]", "date[ms@Asia/Shanghai]"
# type, text, value (None: does not fit)
CASES: list[tuple[str, str, str | None]] = [
    (TIME, "1590315269000", "2020-05-24 18:14:29"), (TIME, "x", None),
    ("timestamp_ntz[ms]", "1590315269000", "2020-05-24 10:14:29"),
    # China put its clocks forward on 1986-05-04 and back on 1986-09-14.
    (TIME, "515527199999", "1986-05-04 01:59:59.999"),
    (TIME, "515527200000", "1986-05-04 03:00:00"),
    (TIME, "527013000000", "1986-09-14 01:30:00"), (TIME, "527016600000", "1986-09-14 01:30:00"),
    # The ends of the years of SQL, as java.time writes them.
    (TIME, "-62135625943000", "0001-01-01 00:00:00"),
    (TIME, "253402271999000", "9999-12-31 23:59:59"),
    ("timestamp_ntz[us@Asia/Shanghai]", str(2**63 - 1), None),
    ("timestamp_ntz[us@Asia/Shanghai]", str(-(2**63)), None),
    ("timestamp_ntz[@Asia/Shanghai]", "2020-05-24T10:14:29Z", "2020-05-24 18:14:29"),
    ("timestamp_ntz[@Asia/Shanghai]", "2020-05-24T10:14:29", "2020-05-24 18:14:29"),
    ("timestamp_ntz[@Asia/Shanghai]", "2020-05-24T11:14:29+01:00", "2020-05-24 18:14:29"),
    ("timestamp_ntz[s@-03:30]", "1590315269", "2020-05-24 06:44:29"),
    (DAY, "1590249600000", "2020-05-24"), (DAY, "1590249600001", None),
    ("date[ms]", "1590249600000", None),
    ("date[us@Asia/Shanghai]", str(2**63 - 1), None),
    ("date[us@Asia/Shanghai]", str(-(2**63)), None),
    # Days without a midnight: the clocks were put forward at that time.
    (DAY, "-933667200000", "1940-06-01"), ("date[s@America/Sao_Paulo]", "1541300400", "2018-11-04"),
    ("date[s@America/Sao_Paulo]", "1541304000", None),
    # A day with two of them.
    ("date[s@America/Havana]", "1541304000", "2018-11-04"),
    ("date[s@America/Havana]", "1541307600", "2018-11-04"),
    ("date[s@America/Havana]", "1541311200", None),
]  # fmt: skip


def test_local_times(spark: SparkSession) -> None:
    texts = defaultdict[str, list[str]](list)
    for kind, text, _ in CASES:
        texts[kind].append(text)
    found: list[tuple[str, str, str | None]] = []
    for kind, listed in texts.items():
        frame = spark.createDataFrame([(text,) for text in listed], "t string")
        value = decode(F.col("t"), parse_type(kind))
        rows = frame.select("t", value.alias("v"), F.col("v").cast("string").alias("shown"))
        assert dict(rows.dtypes)["v"] == parse_type(kind).spark
        found.extend((kind, row["t"], row["shown"]) for row in rows.collect())
    assert sorted(found, key=str) == sorted(CASES, key=str)
