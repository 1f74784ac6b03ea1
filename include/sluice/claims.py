"""Which of the files that a run found it may claim, by what the ledger knows of them."""

from __future__ import annotations

from collections.abc import Mapping

from sluice.ledger_rows import FILE_RELEASED, FileRow
from sluice.manifest import SourceFile
from sluice.store import StoredObject


def is_free(row: FileRow | None) -> bool:
    """True for a file that no batch has."""
    return row is None or row.state == FILE_RELEASED


def is_replaced(found: SourceFile | StoredObject, row: FileRow) -> bool:
    """True where another object is there than the one that the ledger knows."""
    known = (row.size, row.etag, row.version_id)
    return (found.size, found.etag, found.version_id) != known


def available(
    files: tuple[SourceFile, ...], known: Mapping[str, FileRow], again: frozenset[str]
) -> tuple[SourceFile, ...]:
    """Those that no batch has; one whose object changed only where `again` lists its key."""
    return tuple(f for f in files if _is_available(f, known.get(f.key), f.key in again))


def _is_available(file: SourceFile, row: FileRow | None, again: bool) -> bool:
    return row is None or is_free(row) or (again and is_replaced(file, row))


def fresh_content(files: tuple[SourceFile, ...], seen: set[str]) -> tuple[SourceFile, ...]:
    """Those whose bytes no other object brought, by the checksums `seen`, which get theirs."""
    fresh = []
    for file in files:
        if not file.sha256 or file.sha256 not in seen:
            fresh.append(file)
        seen.add(file.sha256)
    return tuple(fresh)


def checksums(known: Mapping[str, FileRow]) -> set[str]:
    """The checksums of the objects that are claimed, loaded or held."""
    return {row.sha256 for row in known.values() if row.sha256 and not is_free(row)}
