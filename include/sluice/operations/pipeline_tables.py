"""The tables of a pipeline's two namespaces, and the targets of its changelogs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from pyiceberg.table import Table

from sluice.catalog.client import UNREADABLE, find_table
from sluice.catalog.failures import error_text
from sluice.catalog.listing import pipeline_tables
from sluice.ledger.changelogs import changelogs_of
from sluice.ledger.column_log import ColumnStatement, tables_named_in
from sluice.names import (
    PROP_FLOOR,
    PROP_SOURCE,
    full_name,
    target_namespace,
    target_of_changelog,
)
from sluice.operations.context import Context


def changelogs(ctx: Context) -> dict[str, Table]:
    """Return the changelogs of the pipeline by their targets' names."""
    return changelogs_of(ctx.catalog, ctx.pipeline.name, ctx.pipeline.namespace)


def target_of(changelog: Table) -> tuple[str, str]:
    """Return namespace and name of a changelog's target."""
    namespace, name = changelog.name()[-2:]
    return target_namespace(namespace), target_of_changelog(name)


def has_floor(ctx: Context, namespace: str, target: str) -> bool:
    """Whether maintenance has ever expired changes of a target."""
    table = find_table(ctx.catalog, namespace, target)
    return table is not None and PROP_FLOOR in table.properties


def tables_renamed(
    ctx: Context, statements: list[ColumnStatement], logs: dict[str, Table]
) -> frozenset[str]:
    """Return the source tables of these changelogs whose columns the statements rename."""
    sources = [log.properties.get(PROP_SOURCE, target) for target, log in logs.items()]
    return tables_named_in(statements, sources, ctx.pipeline.format)


@contextmanager
def skip_unreadable_table(ctx: Context, namespace: str, name: str) -> Iterator[None]:
    """Say of a table of somebody else that it cannot be read, instead of raising the error."""
    try:
        yield
    except UNREADABLE as error:
        if (namespace, name) in pipeline_tables(ctx.catalog, ctx.pipeline.namespace):
            raise
        ctx.say(f"{full_name(namespace, name)} is passed over: {error_text(error)}")
