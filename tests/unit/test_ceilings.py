"""The ceilings of bad records, where landing refused a whole file for the number of its own; and
that every record has an outcome."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from sluice.config.project import Landing, Pipeline
from sluice.errors import AuditFailed
from sluice.manifest import LandingReject, Reprocess
from sluice.result import BatchResult, Counts, TableResult
from spark_jobs.merging.load import audit, refuse_too_many_bad


def job(records: int, most: int, again: Reprocess | None = None) -> Any:
    pipeline = Pipeline(
        name="shop", namespace="shop", format="canal", landing=Landing(url="in"),
        max_bad_records=most, max_bad_share=1,
    )  # fmt: skip
    rejects = (LandingReject("k", 0, "too_many_rejects: invalid_utf8 70", "", records),)
    manifest = SimpleNamespace(rejects=rejects, reprocess=again, batch_id="b", claims=True)
    return SimpleNamespace(pipeline=pipeline, manifest=manifest)


def test_a_file_refused_for_its_many_bad_records_counts_with_all_of_them() -> None:
    refuse_too_many_bad(job(70, most=70), [], 0)
    with pytest.raises(
        AuditFailed, match=r"70 of 0 records are bad.*sluice rollback shop --batch b"
    ):
        refuse_too_many_bad(job(70, most=69), [], 0)


def test_a_reprocess_counts_rows_of_the_quarantine() -> None:
    again = Reprocess(("a",), records=1)
    refuse_too_many_bad(job(70, most=0, again=again), [], 0)


@pytest.mark.parametrize("lost", [{}, {"applied": 2, "late": 2}])
def test_a_record_without_exactly_one_outcome_fails_its_batch(lost: dict[str, int]) -> None:
    whole, wrong = Counts(read=3, applied=3), Counts(read=3, **lost)
    audit(BatchResult("p", "b", "a", (TableResult("s.t", "n.t", whole),), whole))
    with pytest.raises(AuditFailed, match=r"n\.t: the counts do not add up"):
        audit(BatchResult("p", "b", "a", (TableResult("s.t", "n.t", wrong),)))
    with pytest.raises(AuditFailed, match="without a table"):
        audit(BatchResult("p", "b", "a", (), wrong))
