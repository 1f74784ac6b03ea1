"""Refusals of a commit to tables that somebody upgraded, before anything is recorded of it."""

from __future__ import annotations

from sluice.catalog.client import find_table
from sluice.catalog.listing import pipeline_tables
from sluice.catalog.snapshots import refuse_format_version
from sluice.catalog.table_publish import is_published
from sluice.config.format_versions import WRITABLE_VERSION
from sluice.ledger.changelogs import files_of, refuse_upgraded_changelog
from sluice.names import branch_name, is_changelog
from sluice.operations.context import Context
from sluice.result import BatchResult


def refuse_unpublishable(ctx: Context, result: BatchResult) -> None:
    """Raise TerminalError if a staged table that is not published cannot be committed to."""
    for staged in result.staged:
        table = find_table(ctx.catalog, staged.namespace, staged.name)
        if table is not None and not is_published(table, staged):
            refuse_format_version(ctx.catalog, table)


def refuse_upgraded_tables(ctx: Context, batches: list[str]) -> None:
    """Raise TerminalError if a table cannot be committed to that has branches or changes of the
    batches."""
    branches = tuple(branch_name(batch_id, "") for batch_id in batches)
    for namespace, name in pipeline_tables(ctx.catalog, ctx.pipeline.namespace):
        table = find_table(ctx.catalog, namespace, name)
        if table is None or table.metadata.format_version <= WRITABLE_VERSION:
            continue
        if any(ref.startswith(branches) for ref in table.metadata.refs):
            refuse_format_version(ctx.catalog, table)
        if is_changelog(namespace, name) and any(files_of(table, b) for b in batches):
            refuse_upgraded_changelog(table)
