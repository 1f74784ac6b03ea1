"""Which tables a catalog has, and the namespaces of a pipeline."""

from __future__ import annotations

from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import NoSuchNamespaceError
from pyiceberg.typedef import Identifier

from sluice.catalog.client import list_tables
from sluice.catalog.retries import retry_while_away
from sluice.names import changelog_namespace, is_changelog, tables_of_target, target_of_changelog


def all_tables(catalog: Catalog) -> list[Identifier]:
    """Return all tables of a catalog, also if it is away for a while."""
    namespaces = retry_while_away(catalog.list_namespaces)
    return sorted(table for space in namespaces for table in _listed(catalog, space))


def tables_of(catalog: Catalog, namespace: str) -> list[tuple[str, str]]:
    """Return all tables of a pipeline's namespace and of its changelog namespace."""
    tables: list[tuple[str, str]] = []
    for space in (namespace, changelog_namespace(namespace)):
        tables += [(space, ident[-1]) for ident in _listed(catalog, space)]
    return sorted(tables)


def _listed(catalog: Catalog, namespace: str | Identifier) -> list[Identifier]:
    """Return the tables of a namespace; none if it is not there, or was dropped since."""
    try:
        return list_tables(catalog, namespace)
    except NoSuchNamespaceError:
        return []


def pipeline_tables(catalog: Catalog, namespace: str) -> list[tuple[str, str]]:
    """Return those tables of both namespaces that Sluice makes for a target with a changelog.

    Others are somebody else's, also a renamed target, and perhaps pyiceberg cannot read them.
    """
    listed = tables_of(catalog, namespace)
    targets = (target_of_changelog(name) for space, name in listed if is_changelog(space, name))
    made = {table for target in targets for table in tables_of_target(namespace, target)}
    return [table for table in listed if table in made]
