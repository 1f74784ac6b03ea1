"""Which of the files that a run found it may claim, by what the ledger knows of them."""

from __future__ import annotations

from collections.abc import Mapping

from sluice.ledger_rows import FILE_RELEASED, FileRow
from sluice.manifest import SourceFile


def available(
    files: tuple[SourceFile, ...], known: Mapping[str, FileRow], again: frozenset[str]
) -> tuple[SourceFile, ...]:
    """Those that no batch has; one whose object changed only where `again` lists its key."""
    return tuple(f for f in files if _is_free(f, known.get(f.key), f.key in again))


def _is_free(file: SourceFile, row: FileRow | None, again: bool) -> bool:
    if row is None or row.state == FILE_RELEASED:
        return True
    old, new = (row.size, row.etag, row.version_id), (file.size, file.etag, file.version_id)
    return again and old != new


def fresh_content(
    files: tuple[SourceFile, ...], known: Mapping[str, FileRow]
) -> tuple[SourceFile, ...]:
    """Those whose bytes no other object brought."""
    seen = checksums(known)
    fresh = []
    for file in files:
        if not file.sha256 or file.sha256 not in seen:
            fresh.append(file)
        seen.add(file.sha256)
    return tuple(fresh)


def checksums(known: Mapping[str, FileRow]) -> set[str]:
    """The checksums of the objects that are claimed, loaded or held."""
    return {row.sha256 for row in known.values() if row.sha256 and row.state != FILE_RELEASED}
