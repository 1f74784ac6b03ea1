"""Partition fields that Iceberg refuses beside a table's columns, told before a table is made."""

from __future__ import annotations

import pytest

from sluice.config.partitions import parse_partition
from sluice.errors import PlanError
from spark_jobs.planning.partition_fields import refuse_fields, refuse_taken

TYPES = {
    "id": "bigint", "ts": "timestamp", "day": "date", "note": "string", "price": "decimal(9,2)",
    "part": "double", "ok": "boolean", "placed_day": "string", "placed": "timestamp_ntz",
    "note_trunc": "int", "id_bucket": "int",
}  # fmt: skip


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        (["days(note)"], "days(note), and note is string: it takes date, timestamp"),
        (["hours(day)"], "hours(day), and day is date: it takes timestamp, timestamp_ntz alone"),
        (["bucket(4, part)"], "bucket(4, part), and part is double"),
        (["bucket(4, ok)"], "bucket(4, ok), and ok is boolean"),
        (["truncate(4, day)"], "truncate(4, day), and day is date"),
        (["days(placed)"], "days(placed), which Iceberg calls placed_day, and so is a column"),
        (["truncate(2, note)"], "truncate(2, note), which Iceberg calls note_trunc"),
        (["bucket(2, id)"], "bucket(2, id), which Iceberg calls id_bucket"),
        (["years(ts)", "months(ts)"], "ts 2 times where Iceberg takes it once"),
        (["bucket(2, price)", "bucket(4, price)"], "price 2 times"),
        (["ok", "ok"], "ok 2 times"),
    ],
)
def test_fields_that_no_table_may_have(fields: list[str], problem: str) -> None:
    with pytest.raises(PlanError) as caught:
        refuse_fields("s.t", [*map(parse_partition, fields)], TYPES)
    assert str(caught.value).startswith("table s.t: partition_by has ")
    assert problem in str(caught.value)


@pytest.mark.parametrize(
    "fields",
    [
        ["days(day)", "bucket(4, day)", "day"], ["hours(ts)"], ["months(placed)"], ["placed_day"],
        ["truncate(4, price)", "bucket(16, price)"], ["part"], ["ok"], ["days(missing)"],
    ],
)  # fmt: skip
def test_fields_that_a_table_may_have(fields: list[str]) -> None:
    """They are accepted alone, and are not named beside one that is refused."""
    accepted = [*map(parse_partition, fields)]
    refuse_fields("s.t", accepted, TYPES)
    with pytest.raises(PlanError) as caught:
        refuse_fields("s.t", [*accepted, parse_partition("days(note)")], TYPES)
    refused = "days(note), and note is string: it takes date, timestamp, timestamp_ntz alone"
    assert str(caught.value) == f"table s.t: partition_by has {refused}"


def test_a_new_column_is_not_called_as_a_field_of_the_stored_table() -> None:
    refuse_taken("s.t", ["ts_day", "region"], ["note"])
    with pytest.raises(PlanError, match=r"new columns \['ts_day'\] are called as partition fields"):
        refuse_taken("s.t", ["ts_day", "region"], ["note", "ts_day"])
