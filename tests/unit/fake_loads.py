"""Files that land, and whose batches are published and undone in the ledger: dumps, unless a test
has another pipeline."""

from __future__ import annotations

from pathlib import Path

from sluice.ledger.ledger import PipelineLedger
from sluice.ledger.states import FILE_HELD, FILE_LOADED, PUBLISHED, ROLLED_BACK
from sluice.operations.context import Context, Say, open_context
from sluice.operations.selection import Selection
from tests.all_readable import land
from tests.unit.projects import SHOP, open_shop

PIPELINE = """name: shop
namespace: shop
format: rows
landing: {url: landing}
tables: {orders: {key: [id]}}
"""
TWO_TABLES = SHOP + "tables: {s.orders: {key: [id]}, s.notes: {key: [id]}}\n"
DUMP = "id\n1\n2\n"


def write(context: Context, key: str, text: str = DUMP) -> None:
    path = context.project.root / "landing" / key
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def write_event(context: Context, key: str, op: str) -> None:
    write(context, key, f'{{"op": "{op}"}}\n')


def load(context: Context, changed: bool = False) -> str:
    """Write what a run leaves in the ledger; return its batch."""
    (key,) = land(context, Selection(changed=changed))
    manifest = context.files.read_manifest(key)
    publish(context.ledger, manifest.batch_id, context.pipeline.epoch)
    return manifest.batch_id


def loaded_two_tables(root: Path, say: Say) -> Context:
    """Open a pipeline of two tables whose only file is loaded, for all of them."""
    context = open_shop(root, TWO_TABLES, say)
    write_event(context, "a.jsonl", "first")
    load(context)
    return context


def publish(ledger: PipelineLedger, batch: str, epoch: int) -> None:
    ledger.files.mark(batch, FILE_LOADED)
    ledger.batches.record(batch, PUBLISHED, replace_details={"epoch": epoch})


def undo(ledger: PipelineLedger, batch: str) -> None:
    """Write what a rollback of a published batch leaves in the ledger."""
    ledger.files.mark(batch, FILE_HELD)
    ledger.batches.record(batch, ROLLED_BACK)


def raised(context: Context, epoch: int = 1, full_load: bool = True) -> Context:
    path = context.project.root / "pipelines" / "shop.yaml"
    expected = (
        f"full_loads: [{{epoch: {epoch}, at: '2026-01-01T00:00:00Z'}}]\n" if full_load else ""
    )
    path.write_text(f"{PIPELINE}epoch: {epoch}\n{expected}")
    return open_context(context.project.root, "shop")
