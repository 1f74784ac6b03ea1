"""Tables of a catalog whose files lie in one folder.

Iceberg moves no files when a table is renamed, and a catalog may give the next table of that name
the same folder: the files of each then look to the other's clean-up as if nobody needed them.
"""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import Final
from urllib.parse import urlsplit

from pyiceberg.catalog import Catalog
from pyiceberg.table import Table
from pyiceberg.typedef import Identifier

from sluice.catalog.client import UNREADABLE, UnknownMetadataError, load_table
from sluice.catalog.listing import all_tables
from sluice.errors import LedgerDamagedError

_ELSEWHERE: Final = (
    "write.data.path", "write.metadata.path", "write.object-storage.path",
    "write.folder-storage.path",
)  # fmt: skip


class TableFolders:
    """The folders of all tables of a catalog. Each table is read once, since it does not move; so
    is one whose metadata cannot be read, since that may take seconds."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self._read: dict[Identifier, list[PurePosixPath]] = {}

    def shared_with(self, table: Table) -> list[str]:
        """Return the other tables that have files in the table's folder, or in one around it.

        Tables that cannot be read are passed over.
        """
        own, name = _path(table.location()), table.name()
        return [
            ".".join(other)
            for other in all_tables(self._catalog)
            if other != name and any(_overlap(own, folder) for folder in self._folders(other))
        ]

    def _folders(self, name: Identifier) -> list[PurePosixPath]:
        if name not in self._read:
            try:
                self._read[name] = _folders_of(load_table(self._catalog, name))
            except (UnknownMetadataError, LedgerDamagedError):
                self._read[name] = []  # it takes seconds to find out that a file is gone
            except UNREADABLE:
                return []
        return self._read[name]


def _folders_of(table: Table) -> list[PurePosixPath]:
    paths = (table.properties.get(prop) for prop in _ELSEWHERE)
    return [_path(p) for p in (table.location(), *paths) if p]


def _path(location: str) -> PurePosixPath:
    """Return the path without its scheme: one store has several, as s3 and s3a."""
    parts = urlsplit(location)
    return PurePosixPath("/", parts.netloc, parts.path.lstrip("/"))


def _overlap(one: PurePosixPath, other: PurePosixPath) -> bool:
    return one.is_relative_to(other) or other.is_relative_to(one)
