"""What is checked of a batch's tables before the first of them is published."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from sluice.catalog.table_publish import publish_table
from sluice.errors import PublishRefusedError
from sluice.operations.publication import refuse_moved
from sluice.result import BatchResult, ComparedTable, Counts, TableResult
from tests.unit.staged_tables import SCHEMA, one_table, stage, write

pytestmark = pytest.mark.catalog
OTHER = ("shop", "customers")


def test_a_table_with_which_a_batch_was_compared_counts_until_one_is_published(
    tmp_path: Path,
) -> None:
    catalog = one_table(tmp_path)
    catalog.create_table(OTHER, SCHEMA)
    write(catalog, 0)
    compared = ComparedTable(*OTHER, write(catalog, 0, name=OTHER))
    staged = stage(catalog, "b1", 1)
    parts = (
        TableResult("orders", "orders", Counts(), staged=(staged,)),
        TableResult("customers", "customers", Counts(), compared=(compared,)),
    )
    result = BatchResult("p", "b1", "a1", parts)
    ctx: Any = SimpleNamespace(catalog=catalog)
    refuse_moved(ctx, result)
    write(catalog, 1, name=OTHER)
    with pytest.raises(PublishRefusedError, match="was compared with"):
        refuse_moved(ctx, result)
    publish_table(catalog, staged, "b1")
    refuse_moved(ctx, result)
