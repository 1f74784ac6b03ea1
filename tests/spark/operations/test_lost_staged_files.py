"""A file whose staged file is gone when the batch is loaded."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

from sluice.errors import TerminalError, TransientError
from sluice.manifest import Manifest
from sluice.operations.context import Context
from spark_jobs import driver
from spark_jobs.decoding.staged_files import with_staged_files
from spark_jobs.failures import typed
from tests.all_readable import land
from tests.spark.sandbox import Sandbox

pytestmark = pytest.mark.spark

LINES = "id;v\n1;a\n2;b;c\n3;c\n"
PIPELINE = {
    "format": "rows",
    "format_options": {"table": "t", "csv_delimiter": ";"},
    "tables": {"t": {"key": ["id"], "columns": {"id": "int"}}},
}


@pytest.fixture
def landed(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Sandbox:
    """A batch whose staged file has gone since it landed."""
    lake = Sandbox(spark, tmp_path, PIPELINE)
    monkeypatch.setattr("sluice.operations.load.submit", lake.submit)
    (lake.landing / "t.csv").write_text(LINES)
    context = lake.context()
    land(context)
    (staged,) = context.files.staged_there("p")
    context.files.store.delete([staged])
    return lake


def test_driver_makes_a_lost_staged_file_again(landed: Sandbox) -> None:
    landed.run()
    assert landed.rows("t") == [{"id": 1, "v": "a"}, {"id": 3, "v": "c"}]
    assert [bad["reason"] for bad in landed.quarantined()] == ["wrong_field_count"]


def test_staged_file_lost_before_it_is_read_is_made_again_by_the_next_try(
    landed: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who takes this attempt for dead removes what it has made, its staged files among it."""

    def gone_at_once(ctx: Context, manifest: Manifest, prefix: str) -> Manifest:
        found = with_staged_files(ctx, manifest, prefix)
        ctx.files.store.delete_prefix(prefix)
        return found

    with monkeypatch.context() as patch:
        patch.setattr(driver, "with_staged_files", gone_at_once)
        with pytest.raises(AnalysisException) as caught:
            landed.run()
    error = typed(caught.value)
    assert isinstance(error, TransientError)
    assert re.search(r"is made again by the next try.*-copies/", str(error))
    landed.run()
    assert landed.rows("t") == [{"id": 1, "v": "a"}, {"id": 3, "v": "c"}]


@pytest.mark.parametrize(("now", "what"), [("id;v\n4;d\n", "has other bytes"), (None, "is gone")])
def test_replaced_original_is_not_staged_again(landed: Sandbox, now: str | None, what: str) -> None:
    path = landed.landing / "t.csv"
    path.unlink() if now is None else path.write_text(now)
    with pytest.raises(TerminalError, match=rf"t\.csv {what}.*sluice rollback p --batch"):
        landed.run()
