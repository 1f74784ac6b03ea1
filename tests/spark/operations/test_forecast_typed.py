"""plan: columns of many types, some of them added, and keys that change; it ends as a run does."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from sluice.operations import preview as preview_module
from sluice.operations import stages
from sluice.operations.preview import preview
from sluice.result import Counts
from tests.spark.connect import ID, TEXT
from tests.spark.described import PRICE, event
from tests.spark.sandbox import Sandbox

pytestmark = pytest.mark.spark

AT = {"type": "int64", "optional": False, "name": "io.debezium.time.MicroTimestamp", "version": 1}
FLAG = {"type": "boolean", "optional": False}
BEFORE = {
    "id": ID, "customer": ID, "status": TEXT, "amount": PRICE, "express": FLAG, "at": AT,
    "tax": PRICE, "sent": AT,
}  # fmt: skip
AFTER = BEFORE | {"coupon": TEXT}
MOST_SECONDS = 120
"""Many times what it takes; in one query Spark's optimizer takes several times as long."""


def row(ident: int, **more: Any) -> dict[str, Any]:
    moment = 1_700_000_000_000_000
    return {"id": ident, "customer": 7, "status": "new", "amount": "AMg=", "express": True,
            "at": moment, "tax": "AMg=", "sent": moment, **more}  # fmt: skip


def test_a_plan_of_many_types_is_made_in_time(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop = Sandbox(
        spark, tmp_path, {"format": "debezium", "tables": {"orders": {"key": ["id"]}}}
    ).driven(monkeypatch)
    monkeypatch.setattr(preview_module, "submit", shop.look)
    shop.write("old.jsonl", [event("c", n, BEFORE, **row(n)) for n in range(1, 5)])
    stages.run(shop.context())
    shop.write("new.jsonl", [
        event("u", 20, BEFORE, before=row(1), **row(9)),
        event("u", 21, AFTER, before=row(2, coupon=None), **row(2, coupon="x")),
        event("d", 22, AFTER, before=row(3, coupon=None)),
    ])  # fmt: skip
    started = time.monotonic()
    (table,) = preview(shop.context()).forecast.tables
    assert table.counts == Counts(read=3, applied=3)
    assert time.monotonic() - started < MOST_SECONDS
