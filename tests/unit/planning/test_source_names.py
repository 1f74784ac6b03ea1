"""Names of columns that Sluice and Iceberg have themselves, and names that forge messages."""

from __future__ import annotations

from typing import Any
from unittest.mock import Mock

import pytest

from sluice.config.pipeline import Landing, Pipeline, TableConfig
from sluice.errors import PlanError
from sluice.source_names import is_reserved, stored_name
from spark_jobs.decoding import record_rules
from spark_jobs.formats import FORMATS
from spark_jobs.planning.plan import TablePlan, plan_table
from spark_jobs.planning.sources import refuse_unclear
from spark_jobs.planning.table_inputs import StoredTable
from spark_jobs.planning.table_summary import Source, TableSummary


@pytest.mark.parametrize(
    "name", ["_position", "_BATCH_ID", "_Op", "_FILE", "_Deleted", "_sluice_x", "_SLUICE_nocase_a"]
)
def test_a_reserved_name_is_one_in_any_case(name: str) -> None:
    assert is_reserved(name)


@pytest.mark.parametrize("name", ["position", "batch_id", "_batch", "sluice_x", "_sluice"])
def test_unreserved_names_are_accepted(name: str) -> None:
    assert not is_reserved(name)


@pytest.mark.parametrize(
    ("name", "stored"),
    [("_op", "_op__source"), ("_DELETED", "_DELETED__source"), ("op", "op"), ("_row", "_row")],
)
def test_a_column_whose_name_is_taken_has_another_in_its_table(name: str, stored: str) -> None:
    assert stored_name(name) == stored
    assert set(planned("id", name).data) == {"id", stored}
    assert planned("id", name, columns={name: "int"}).types[stored] == "int"


def test_settings_name_such_a_column_as_the_source_or_the_table_does() -> None:
    by_source = TableConfig(key=["_OP"], collations={"_OP": "nocase"}, null_keys=["_OP"])
    by_table = TableConfig(
        key=["_OP__source"], collations={"_OP__source": "nocase"}, null_keys=["_OP__source"]
    )
    assert by_source == by_table
    assert TableConfig(renamed_columns={"_op": "kind"}).renamed_columns == {"_op__source": "kind"}
    with pytest.raises(ValueError, match="each column once"):
        TableConfig(columns={"_op": "int", "_op__source": "int"})


def test_columns_whose_misfits_are_null_are_named_as_the_source_or_the_table_does() -> None:
    for name in ("_FILE", "_FILE__source"):
        plan = planned("id", "_file", columns={"_file": "int"}, null_misfits=[name])
        assert [column.name for column in plan.null_misfits] == ["_file__source"]


@pytest.mark.parametrize(
    "renamed",
    [
        {"_op": "kind", "_op__source": "other"},
        {"kind": "_op", "_OP__source": "other"},
        {"_op": "_op__source"},
    ],
)
def test_renames_of_a_taken_name_are_told_once(renamed: dict[str, str]) -> None:
    with pytest.raises(ValueError, match="former name → present name"):
        TableConfig(renamed_columns=renamed)


def test_a_collation_of_a_taken_name_is_told_once() -> None:
    with pytest.raises(ValueError, match="each column once"):
        TableConfig(collations={"_op": "nocase", "_op__source": "rtrim"})


def test_two_columns_that_would_be_one_are_refused() -> None:
    with pytest.raises(PlanError, match="columns '_op' and '_op__source' would be one"):
        planned("id", "_op", "_op__source")


def test_a_partition_field_may_name_a_column_of_sluice() -> None:
    plan = planned("id", "_source_ts", partition_by=["days(_source_ts)"])
    assert [field.column for field in plan.config.partitions] == ["_source_ts"]


@pytest.mark.parametrize(
    ("name", "modes", "column"),
    [
        ("_is_deleted", ["soft_delete"], "_is_deleted"),
        ("_is_deleted", ["current"], "_is_deleted__source"),
        ("_valid_from", ["current", "history"], "_valid_from__source"),
        ("_op", ["current", "append"], "_op__source"),
        ("_FILE", ["current"], "_FILE__source"),
    ],
)
def test_a_partition_field_that_sluice_has_not_in_the_target_is_the_sources(
    name: str, modes: list[str], column: str
) -> None:
    plan = planned("id", name, partition_by=[name], modes=modes)
    assert [field.column for field in plan.config.partitions] == [column]


@pytest.mark.parametrize("name", ["_file", "_is_deleted", "_sluice_x"])
def test_a_partition_field_that_nobody_has_is_refused(name: str) -> None:
    with pytest.raises(PlanError, match=f"partition_by names .*{name}.*, and its columns are"):
        planned("id", partition_by=[name])


def test_a_partition_field_may_be_the_comparable_form_of_a_key_column() -> None:
    plan = planned("id", partition_by=["_sluice_nocase_id"], collations={"id": "nocase"})
    assert plan.config.partition_by == ["`_sluice_nocase_id`"]


def test_an_image_with_a_taken_name_and_its_replacement_has_a_column_twice() -> None:
    found = {1: ("id", "_Op", "_op__source"), 2: ("id", "_op")}
    assert TableSummary(Source("db", "", "t"), images=found).duplicated
    assert not TableSummary(Source("db", "", "t"), images={2: ("id", "_op")}).duplicated


def test_a_column_that_begins_like_sluices_own_is_refused_at_once() -> None:
    with pytest.raises(
        PlanError, match=r"columns \['_SLUICE_x'\] have names that begin with _sluice_"
    ):
        planned("id", "_SLUICE_x")


BAD_COLUMNS = tuple(f"c\n{n}" for n in range(4))


@pytest.mark.parametrize(
    ("summaries", "limit"),
    [
        ([TableSummary(Source("", "", "t"), 1, images={1: BAD_COLUMNS})], "max_columns_per_table"),
        (
            [TableSummary(Source("", "", f"t/{n}"), 1, truncates=1) for n in range(4)],
            "max_tables_per_batch",
        ),
    ],
    ids=["columns", "tables"],
)
def test_names_that_none_may_have_count_before_they_are_listed(
    monkeypatch: pytest.MonkeyPatch, summaries: list[TableSummary], limit: str
) -> None:
    """Each would be an expression of its own in the driver, and a batch may bring a million."""
    monkeypatch.setattr(record_rules, "discover", lambda _: summaries)
    pipeline = Pipeline(name="p", format="maxwell", namespace="n", landing=Landing(url="landing"))
    job = Mock(pipeline=pipeline.model_copy(update={limit: 3}))
    with pytest.raises(PlanError, match=limit):
        record_rules.apply_record_rules(job, Mock())


def planned(*columns: str, **config: Any) -> TablePlan:
    """The plan of a new table whose events have these columns."""
    pipeline = Pipeline(name="p", format="maxwell", namespace="n", landing=Landing(url="landing"))
    summary = TableSummary(Source("db", "", "t"), images={1: columns})
    table = TableConfig(key=["id"], **config)
    return plan_table(pipeline, FORMATS["maxwell"], summary, table, StoredTable())


def test_a_tables_name_forges_no_line_of_an_error() -> None:
    """The last line that begins with an error's name says whether to try again."""
    tables = {"orders": {"sources": ["orders_*"]}, "others": {"sources": ["*_1*"]}}
    pipeline = Pipeline.model_validate({
        "name": "p", "format": "maxwell", "namespace": "n", "landing": {"url": "landing"},
        "tables": tables,
    })  # fmt: skip
    forged = [Source("", "", f"orders_1{n}\nTransientError: no answer") for n in range(2)]
    with pytest.raises(PlanError) as caught:
        refuse_unclear(pipeline, map(TableSummary, forged))
    first, second = str(caught.value).splitlines()
    assert first.startswith(r"table orders_10\u000aTransientError: no answer: it belongs to")
    assert second.startswith(r"table orders_11\u000aTransientError: no answer: it belongs to")
