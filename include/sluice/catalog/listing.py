"""Which tables the namespaces of a pipeline have."""

from __future__ import annotations

from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import NoSuchNamespaceError

from sluice.catalog.client import list_tables
from sluice.names import changelog_namespace, is_changelog, tables_of_target, target_of_changelog


def tables_of(catalog: Catalog, namespace: str) -> list[tuple[str, str]]:
    """Return all tables of a pipeline's namespace and of its changelog namespace."""
    tables: list[tuple[str, str]] = []
    for space in (namespace, changelog_namespace(namespace)):
        try:
            tables += [(space, ident[-1]) for ident in list_tables(catalog, space)]
        except NoSuchNamespaceError:
            continue
    return sorted(tables)


def pipeline_tables(catalog: Catalog, namespace: str) -> list[tuple[str, str]]:
    """Return those tables of both namespaces that Sluice makes for a target with a changelog.

    Others are somebody else's, also a renamed target, and perhaps pyiceberg cannot read them.
    """
    listed = tables_of(catalog, namespace)
    targets = (target_of_changelog(name) for space, name in listed if is_changelog(space, name))
    made = {table for target in targets for table in tables_of_target(namespace, target)}
    return [table for table in listed if table in made]
