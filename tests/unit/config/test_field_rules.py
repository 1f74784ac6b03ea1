"""Single values of a project's files that no load could ever work with."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from pyiceberg.table.metadata import TableMetadataV3

from sluice.config.format_options import AwsDmsOptions
from sluice.config.pipeline import Pipeline
from sluice.config.schema_change import dropped_column_policy
from tests.unit.projects import LAKE, SHOP, load, mistake


def with_fields(fields: dict[str, Any]) -> str:
    return yaml.safe_dump(yaml.safe_load(SHOP) | fields)


def shop(root: Path, **changed: Any) -> Pipeline:
    return load(root, shop=with_fields(changed)).pipeline("shop")


def refusal(root: Path, **changed: Any) -> str:
    return mistake(root, shop=with_fields(changed))


@pytest.mark.parametrize("name", ["information_schema", "Information_Schema", "pg_catalog"])
def test_a_namespace_that_engines_keep_for_themselves(tmp_path: Path, name: str) -> None:
    message = refusal(tmp_path, namespace=name)
    assert "namespace: expected a name other than information_schema and pg_catalog" in message
    assert shop(tmp_path, namespace="memory").namespace == "memory"


@pytest.mark.parametrize(("options", "fits"), [
    ({"csv_not_logged": "NULL"}, False), ({"csv_not_logged": "NULL", "csv_null": ""}, True),
    ({"csv_not_logged": "-", "csv_null": "-"}, False), ({"csv_not_logged": "-"}, True),
])  # fmt: skip
def test_a_value_that_was_not_logged_is_not_spelled_like_null(
    tmp_path: Path, options: dict[str, str], fits: bool
) -> None:
    if fits:
        shop(tmp_path, format="aws_dms", format_options=options)
    else:
        message = refusal(tmp_path, format="aws_dms", format_options=options)
        assert "csv_not_logged: another text than that of NULL (csv_null)" in message


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("[z-a]*.json", "a glob with ranges such as [0-9]: bad character range z-a"),
        ("_in/*", "a glob without names that are never taken"),
        ("x/_in/*.json", "a glob without names that are never taken"),
        ("./x/*.json", "a glob without names that are never taken"),
        ("x/.in*/*", "a glob without names that are never taken"),
        ("x/*/a._COPYING_", "a glob without names that are never taken"),
        ("*.{json,csv}", "a glob of * ? [ ] alone"),
    ],
)
def test_a_pattern_that_no_file_can_match(tmp_path: Path, pattern: str, expected: str) -> None:
    message = refusal(tmp_path, landing={"url": "landing", "pattern": pattern})
    assert f"landing.pattern: expected {expected}" in message


@pytest.mark.parametrize(
    "pattern", ["**/*", "_day=1/*", "_*/x", "_?a/x", "a[b.json", "[!_]*", "{1}.json", "a.b/[0-9]*"]
)
def test_a_pattern_that_a_file_may_match(tmp_path: Path, pattern: str) -> None:
    landing = {"url": "landing", "pattern": pattern}
    assert shop(tmp_path, landing=landing).landing.pattern == pattern


def test_a_check_may_be_called_as_no_pipeline_may(tmp_path: Path) -> None:
    check = {"name": "rollback", "sql": "SELECT * FROM {table}"}
    tables = shop(tmp_path, tables={"public.orders": {"key": ["id"], "checks": [check]}}).tables
    assert tables is not None
    assert tables["public.orders"].checks[0].name == "rollback"


def test_a_schedule_that_never_comes(tmp_path: Path) -> None:
    for never in ("0 0 30 2 *", "0 0 31 4,6 *"):
        message = refusal(tmp_path, schedule=never)
        assert "schedule: expected a schedule that can occur" in message
    for rare in ("0 0 29 2 *", "0 0 30 2 1", "@yearly"):
        assert shop(tmp_path, schedule=rare).schedule == rare


def test_a_lease_that_nobody_would_live_to_see_end(tmp_path: Path) -> None:
    message = refusal(tmp_path, lease_seconds=99999999999999)
    assert "lease_seconds: expected less than or equal to 604800" in message
    assert shop(tmp_path, lease_seconds=604800).lease_seconds == 604800


@pytest.mark.parametrize("region", ["", "no such region"])
def test_invalid_region_is_refused(tmp_path: Path, region: str) -> None:
    landing = {"url": "s3://landing/shop", "region": region}
    assert "landing.region: expected only characters of" in refusal(tmp_path, landing=landing)
    assert shop(tmp_path, landing=landing | {"region": "eu-west-1"}).landing.region == "eu-west-1"


def test_a_column_twice_in_other_letters(tmp_path: Path) -> None:
    message = refusal(tmp_path, tables={"a": {"key": ["id", "ID"]}})
    assert "tables.a.key: expected each key column once" in message
    message = refusal(tmp_path, tables={"a": {"columns": {"id": "int", "ID": "string"}}})
    assert "tables.a.columns: expected each column once" in message


@pytest.mark.parametrize(
    ("table", "expected"),
    [
        (
            {"columns": {"": "int"}},
            "columns: expected names of columns, visible and not empty, got",
        ),
        ({"columns": {"_sluice_x": "int"}}, "columns: expected other names than _sluice_x: those"),
        ({"null_misfits": [""]}, "null_misfits: expected names of columns, visible and not empty"),
        ({"key": [""]}, "key: expected names of columns, visible and not empty; [] for none"),
        ({"checks": ["SELECT 1"]}, "checks[0]: expected a mapping with name, sql, got 'SELECT 1'"),
        (
            {"columns": {"created": "string"}, "partition_by": ["days(created)"]},
            "partition_by: expected fields that the types in `columns` allow: days(created), and "
            "created is string: it takes date, timestamp, timestamp_ntz alone",
        ),
        (
            {"columns": {"day": "date"}, "partition_by": ["hours(day)"]},
            "hours(day), and day is date: it takes timestamp, timestamp_ntz alone",
        ),
    ],
)
def test_what_no_table_can_have(tmp_path: Path, table: dict[str, Any], expected: str) -> None:
    assert expected in refusal(tmp_path, tables={"a": table})


def test_a_partition_of_a_type_that_the_events_tell_is_left_to_the_load(tmp_path: Path) -> None:
    table = {"columns": {"at": "timestamp[ms]"}, "partition_by": ["days(at)", "hours(other)"]}
    assert shop(tmp_path, tables={"a": table}).tables


@pytest.mark.parametrize("policy", ["fail", "ignore"])
def test_a_new_column_for_another_type_is_one_that_may_be_added(
    tmp_path: Path, policy: str
) -> None:
    message = refusal(tmp_path, on_type_change="new_column", on_schema_change=policy)
    assert f"where on_schema_change is {policy}: new_column adds columns" in message
    assert shop(tmp_path, on_type_change="new_column").on_type_change == "new_column"


def test_renamed_columns_are_for_pipelines_that_follow_them(tmp_path: Path) -> None:
    tables = {"public.orders": {"renamed_columns": {"title": "name"}}}
    message = refusal(tmp_path, tables=tables, on_schema_change="additive")
    assert "expected on_schema_change: evolve beside renamed_columns (of public.orders)" in message
    assert shop(tmp_path, tables=tables).tables is not None


DROPPING = {"on_dropped_column": "drop"}


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        (DROPPING | {"on_schema_change": "additive"}, "expected on_schema_change: evolve beside"),
        ({"tables": {"a": DROPPING}, "on_schema_change": "fail"}, "with fail the statements are"),
        (DROPPING | {"modes": ["current", "append"]}, "keep for modes append"),
        (DROPPING | {"tables": {"a": {"modes": ["current", "history"]}}},
         "expected keep for a, whose modes history keep what the column held"),
        ({"tables": {"a": DROPPING | {"sources": ["a_*"]}}}, "keep for a, whose `sources`"),
        (DROPPING | {"on_dropped_column": "null"}, "expected 'keep' or 'drop', got 'null'"),
    ],
)  # fmt: skip
def test_columns_are_dropped_only_where_nothing_has_to_keep_them(
    tmp_path: Path, changed: dict[str, Any], expected: str
) -> None:
    assert expected in refusal(tmp_path, **changed)


def test_a_table_may_have_its_own_policy_for_dropped_columns(tmp_path: Path) -> None:
    kept = {"on_dropped_column": "keep", "modes": ["current", "history"]}
    found = shop(tmp_path, tables={"a": kept, "b": None, "c": {"sources": ["c_*"]}}, **DROPPING)
    assert found.tables is not None
    policies = {n: dropped_column_policy(found, one) for n, one in found.tables.items()}
    assert policies == {"a": "keep", "b": "drop", "c": "drop"}
    assert shop(tmp_path).on_dropped_column == "keep"


def test_a_version_that_the_catalog_cannot_publish_is_refused(tmp_path: Path) -> None:
    tables = {"public.orders": {"format_version": 3}}
    message = refusal(tmp_path, tables=tables)
    assert "format_version: expected 2 with a jdbc catalog, for 3 needs a rest catalog" in message
    with pytest.raises(NotImplementedError):
        TableMetadataV3.model_construct().model_dump_json()  # type: ignore[call-arg]


@pytest.mark.parametrize("schedule", ["R R * * *", "r 3 * * *", "R/5 * * * *", "H * * * *"])
def test_a_schedule_of_random_times_is_none(tmp_path: Path, schedule: str) -> None:
    """Each reading of the file drew another one."""
    message = refusal(tmp_path, schedule=schedule)
    assert "schedule: expected five cron fields" in message
    assert "@yearly, or null, got" in message


@pytest.mark.parametrize(
    "schedule",
    ["0 0 * JAN-dec MON,tue", "0 0 L * *", "0 0 * * L5", "0 0 15W * *", "0 0 ? * fri#2"],
)
def test_letters_that_airflow_takes_in_a_schedule(tmp_path: Path, schedule: str) -> None:
    assert shop(tmp_path, schedule=schedule).schedule == schedule


def test_old_values_have_a_prefix_a_suffix_or_both() -> None:
    assert AwsDmsOptions().before_affixes == ("BI_", "")
    assert AwsDmsOptions(before_suffix="_old").before_affixes == ("", "_old")
    assert AwsDmsOptions(before_prefix="<", before_suffix=">").before_affixes == ("<", ">")


@pytest.mark.parametrize(
    "key", ["snapshot_days", "tombstone_days", "changelog_days", "orphan_days"]
)
def test_no_more_days_than_a_calendar_has(tmp_path: Path, key: str) -> None:
    """Maintenance counts them back from now, and stopped where there is no such day."""
    message = mistake(tmp_path, shop=SHOP + f"maintenance: {{{key}: 100001}}\n")
    assert f"shop.yaml:5: maintenance.{key}: expected less than or equal to 100000" in message


def test_a_driver_has_a_month_at_most(tmp_path: Path) -> None:
    """Of a number without an end no DAG could be made."""
    assert "spark.max_load_seconds: expected less than or equal to 2592000" in mistake(
        tmp_path, LAKE + "spark: {max_load_seconds: 2592001}\n"
    )
