"""Changes that a batch meets between two tries, or between its decoding and its merge."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from sluice.catalog.table_rollback import restore_schema
from sluice.errors import TransientError
from sluice.manifest import Manifest, name_batch
from tests.spark.sandbox import NAMESPACE, Sandbox
from tests.spark.widened import BATCHES

pytestmark = pytest.mark.spark


def row(lsn: int, ident: int) -> dict[str, Any]:
    source = {"connector": "postgresql", "db": "d", "schema": "s", "table": "log", "lsn": lsn}
    return {"op": "c", "after": {"id": ident}, "source": source}


def test_a_table_that_has_a_half_published_batch_gets_no_row_twice(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Without a key rows are only appended, where nothing was ever deleted."""
    tables = {"s.log": {"key": [], "columns": {"id": "int"}}}
    shop = Sandbox(spark, tmp_path, {"format": "debezium", "tables": tables})
    shop.load_records([row(1, 7)])
    file = shop.write("a.jsonl", [row(2, 7), row(3, 7)])
    manifest = Manifest("p", name_batch("p", (file,)), (file,))
    for _ in range(2):
        shop.publish(shop.stage_manifest(manifest))
        shop.published.remove(manifest.batch_id)
    assert shop.rows("log") == [{"id": 7}] * 3


class Overtaken(list[str]):
    """The published batches; something happens when a merge asks for them."""

    def __init__(self, known: list[str], meanwhile: Callable[[], object]) -> None:
        super().__init__(known)
        self._meanwhile = meanwhile

    def __iter__(self) -> Iterator[str]:
        self._meanwhile()
        return super().__iter__()


@pytest.mark.long
def test_nothing_is_rounded_into_a_type_that_was_put_back_meanwhile(
    spark: SparkSession, tmp_path: Path
) -> None:
    shop = Sandbox(spark, tmp_path, {"format": "debezium", "tables": {"orders": {"key": ["id"]}}})
    shop.load_records(BATCHES["whole"])
    narrow = shop.catalog.load_table((NAMESPACE, "orders")).metadata.current_schema_id

    def put_back() -> None:
        restore_schema(shop.catalog, NAMESPACE, "orders", narrow)

    shop.published = Overtaken(shop.published, put_back)
    with pytest.raises(TransientError, match=r"a column got another type while .* was decoded"):
        shop.load_records(BATCHES["cents"])
