"""A pipeline with one batch of one file, in any state and of any age."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

from sluice.ledger.claims import ClaimRequest
from sluice.ledger.leases import Lease
from sluice.ledger.ledger import Ledger, PipelineLedger
from sluice.manifest import SourceFile
from sluice.operations.context import Context
from sluice_airflow.landing import STALE
from tests.unit.projects import open_shop

NOW = datetime.now(UTC)
MANIFEST = "shop/b/manifest.json"
FILE = SourceFile("a", "file:///a", 1, hour="20260101T05")


def ledger_at(ctx: Context, at: datetime) -> PipelineLedger:
    """The pipeline's ledger, for what happened at a time."""
    return Ledger(ctx.catalog, clock=lambda: at).of("shop")


def claim(ledger: PipelineLedger, batch: str, file: SourceFile) -> None:
    ledger.files.claim(ClaimRequest((file,), lambda _: batch))


def one_batch(root: Path, state: str, at: datetime = NOW, lapsed: bool = True) -> Context:
    """A pipeline with one batch: `b`, of a file `a` of five o'clock."""
    ctx = open_shop(root)
    ledger = ledger_at(ctx, at)
    claim(ledger, "b", FILE)
    lease = None if lapsed else Lease("elsewhere:1:1", 9 * STALE.total_seconds())
    ledger.batches.record("b", state, attempt="a1", manifest=MANIFEST, lease=lease)
    return ctx
