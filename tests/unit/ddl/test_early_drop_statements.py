"""Statements of a table that has no rows yet: which of them empty it."""

from __future__ import annotations

import pytest

from sluice.config.pipeline import Landing, Pipeline, TableConfig
from spark_jobs.decoding.early_drops import _empties


@pytest.mark.parametrize(
    ("statement", "empties"),
    [
        ("TRUNCATE TABLE t", True),
        ("/* nightly */ truncate t", True),
        ("DROP TABLE t", False),
        ("ALTER TABLE t ADD c INT; ALTER TABLE t DROP c", False),
    ],
)
def test_a_truncate_empties_and_a_drop_only_by_its_policy(statement: str, empties: bool) -> None:
    """Two changes of columns that cancel out are recorded without columns, as a TRUNCATE is."""
    pipeline = Pipeline(name="p", format="debezium", namespace="s", landing=Landing(url="landing"))
    assert _empties(pipeline, TableConfig(), statement) == empties
    emptying = pipeline.model_copy(update={"on_drop_table": "empty"})
    assert _empties(emptying, TableConfig(), statement) == (empties or "DROP TABLE" in statement)
