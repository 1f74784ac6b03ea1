"""The limits on bad records count those that landing rejected as those that Spark found."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from sluice.config.pipeline import Pipeline
from sluice.errors import AuditFailedError
from sluice.manifest import WHOLE, LandingReject, Manifest
from spark_jobs.merging.audit import refuse_too_many_bad
from spark_jobs.planning.table_summary import Source, TableSummary

PIPELINE = Pipeline.model_validate(
    {"name": "shop", "format": "debezium", "landing": {"url": "l"}, "namespace": "n"}
)


def refused(good: int, by_spark: int, *landing: LandingReject) -> str:
    """Which share of a batch's records is refused as bad; '' if none is."""
    job = SimpleNamespace(pipeline=PIPELINE, manifest=Manifest("shop", "b", (), landing))
    summary = TableSummary(Source("", "", "orders"), records=good, rejected=by_spark)
    try:
        refuse_too_many_bad(cast("Any", job), [summary], 0, 0)
    except AuditFailedError as error:
        return str(error).removeprefix("batch b: ").partition(" records")[0]
    return ""


@pytest.mark.parametrize(
    ("good", "bad", "share"),
    [(90, 900, "900 of 990"), (0, 900, "900 of 900"), (1000, 105, ""), (1000, 112, "112 of 1,112")],
)
def test_the_share_is_that_of_all_records(good: int, bad: int, share: str) -> None:
    each = (LandingReject("a", n, "invalid_utf8", "") for n in range(bad))
    in_one = LandingReject("a", WHOLE, f"too_many_rejects: invalid_utf8 {bad}", "", bad)
    assert (refused(good, bad), refused(good, 0, *each), refused(good, 0, in_one)) == (share,) * 3
