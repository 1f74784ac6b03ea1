"""The queries of the ledger that the pages show."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from sluice.ledger.rows import Publication
from sluice.ledger.states import PUBLISHED, ROLLED_BACK
from sluice.operations.context import Context
from sluice.output.query import run_sql
from tests.conftest import ROOT
from tests.unit.ledger_rows import publication
from tests.unit.projects import open_shop

pytestmark = pytest.mark.catalog

LOOKING = (ROOT / "docs" / "operations.md").read_text().split("\n## Looking\n")[1]
STATEMENTS = LOOKING.split("```sql\n")[1].split("```")[0].split(";\n")


@pytest.fixture
def ctx(tmp_path: Path) -> Context:
    """A lake with a batch that stays, another with a newer event that was rolled back, and the
    lease of maintenance."""
    ctx = open_shop(tmp_path)
    batches, publications = ctx.ledger.batches, ctx.ledger.publications
    for batch, newest in (("b1", "2026-03-01 09:00"), ("b2", "2026-03-01 10:00")):
        batches.record(batch, PUBLISHED, add_details={"newest_source_ts": newest})
        publications.record([published(batch, table) for table in ("orders", batch)])
    batches.record("b2", ROLLED_BACK)
    publications.record(
        replace(published("b2", table), state=ROLLED_BACK) for table in ("orders", "b2")
    )
    ctx.ledger.lease.acquire_for_maintenance("m1", ctx.lease)
    return ctx


def published(batch: str, table: str) -> Publication:
    return publication(table, pipeline="shop", batch_id=batch, state=PUBLISHED)


def answer(ctx: Context, words: str) -> list[dict[str, Any]]:
    (statement,) = (one for one in STATEMENTS if words in one)
    return run_sql(ctx.project, statement).to_pylist()


def test_what_was_rolled_back_does_not_count_as_how_far_a_pipeline_is(ctx: Context) -> None:
    (kept,) = (row for row in ctx.ledger.batches.all() if row.batch_id == "b1")
    (shop,) = answer(ctx, "how far each pipeline is")
    assert shop == {"pipeline": "shop", "newest": "2026-03-01 09:00", "published": kept.at}
    first = {row.table_name: row.at for row in ctx.ledger.publications.of_batches("b1")}
    tables = answer(ctx, "FROM sluice.publications")
    assert {row["table_name"]: row["published"] for row in tables} == first


def test_the_lease_of_maintenance_is_not_listed_as_a_batch(ctx: Context) -> None:
    assert {row["batch_id"] for row in answer(ctx, "the last batches")} == {"b1", "b2"}
