"""What is said of two source tables that go to one target."""

from __future__ import annotations

import re

import pytest

from sluice.config.pipeline import TableConfig
from sluice.errors import PlanError
from spark_jobs.decoding.other_source import refuse_other_source
from spark_jobs.lake.table_id import TableId
from spark_jobs.planning.plan import TablePlan
from spark_jobs.planning.shared_targets import refuse_shared_targets
from spark_jobs.planning.table_summary import Source, TableSummary

ONE, TWO = Source("", "public", "t"), Source("cdl", "public", "t")
APART = "tell them apart in `table_name`, for example "


def plan(source: Source) -> TablePlan:
    return TablePlan(source, "shop", "t", (), ("id",), TableConfig(), TableSummary(source))


@pytest.mark.parametrize(
    ("sources", "format_name", "advice"),
    [
        ((ONE, TWO), "huawei_cdl", "where they are one table, set `database: cdl` in "
         f"`format_options`; else {APART}{{database}}_{{table}}"),
        ((TWO, ONE), "debezium", "where they are one table, name cdl.public.t in the `sources` of "
         f"public.t; else {APART}{{database}}_{{table}}"),
        ((ONE, Source("", "audit", "t")), "huawei_cdl", f"{APART}{{schema}}_{{table}}"),
        ((TWO, Source("old", "audit", "t")), "debezium",
         f"{APART}{{database}}_{{schema}}_{{table}}"),
        ((ONE, Source("", "public", "T")), "debezium",
         "no `table_name` tells them apart: list one alone in `tables:`, or load the other by a "
         "pipeline with another `namespace`"),
        ((ONE, Source("", "public", "t__history")), "debezium", f"{APART}{{table}}_src"),
    ],
    ids=["part_of_a_name", "no_such_option", "others", "two_parts", "none", "a_history"],
)  # fmt: skip
def test_two_source_tables_of_one_target_are_refused_with_advice(
    sources: tuple[Source, ...], format_name: str, advice: str
) -> None:
    names = " and ".join(source.name for source in sources)
    expected = f"tables {names} both go to shop.t: {advice}"
    with pytest.raises(PlanError, match=f"^{re.escape(expected)}$"):
        refuse_shared_targets(map(plan, sources), format_name)


@pytest.mark.parametrize(
    ("former", "template"),
    [
        ("audit.t", "{schema}_{table}"), ("t", "{schema}_{table}"),
        ("cdl.public.t", "{database}_{table}"),
    ],
)  # fmt: skip
def test_a_target_of_another_source_table_is_refused_with_a_template(
    former: str, template: str
) -> None:
    now = TableSummary(ONE, truncates=1)
    expected = f"else tell them apart in `table_name`, for example {template}, and fill the new"
    with pytest.raises(PlanError, match=re.escape(expected)):
        refuse_other_source(former, TableId("shop", "t"), now, TableConfig())
