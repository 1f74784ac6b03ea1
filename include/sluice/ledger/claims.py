"""Which of the files that a run found it may claim, by what the ledger knows of them."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Mapping
from datetime import datetime

from sluice.ledger.rows import FILE_CLAIMED, FILE_LOADED, FILE_RELEASED, FileRow
from sluice.manifest import SourceFile
from sluice.objects.store import StoredObject, is_same_object

Content = Callable[[str, str], str]
"""What objects with the same records have in common, of an object's key and its checksum, which is
the same of them."""


def is_free(row: FileRow | None) -> bool:
    """True for a file that no batch has."""
    return row is None or row.state == FILE_RELEASED


def is_replaced(found: SourceFile | StoredObject, row: FileRow) -> bool:
    """True where another object is there than the one that the ledger knows."""
    return not is_same_object(found, row)


def may_be_replaced(found: SourceFile | StoredObject, row: FileRow) -> bool:
    """True where the object that the ledger knows is loaded, and another one is there since."""
    return row.state == FILE_LOADED and is_replaced(found, row)


def available(
    files: tuple[SourceFile, ...],
    known: Mapping[str, FileRow],
    replaced: Container[FileRow] = (),
) -> tuple[SourceFile, ...]:
    """Those that no batch has, and those in the place of what is `replaced`."""
    rows = ((file, known.get(file.key)) for file in files)
    return tuple(file for file, row in rows if is_free(row) or row in replaced)


def fresh_content(
    files: tuple[SourceFile, ...], seen: set[str], content: Content
) -> tuple[SourceFile, ...]:
    """Those whose content no other object brought, by what was `seen`, which gets theirs."""
    fresh = []
    for file in files:
        brings = content(file.key, file.sha256)
        if not brings or brings not in seen:
            fresh.append(file)
        seen.add(brings)
    return tuple(fresh)


def copies_among(
    files: tuple[SourceFile, ...],
    won: tuple[SourceFile, ...],
    batch_id: str,
    brought: Mapping[str, str],
    content: Content,
) -> Iterator[tuple[SourceFile, str]]:
    """The files that are not fresh, each with the batch that has its content: the one of what was
    `won`, or that of what was `brought` before."""
    mine = {content(file.key, file.sha256) for file in won}
    taken = {file.key for file in won}
    for file in files:
        if file.key not in taken:
            brings = content(file.key, file.sha256)
            yield file, batch_id if brings in mine else brought[brings]


def file_row(
    pipeline: str,
    batch_id: str,
    file: SourceFile,
    modified: datetime | None,
    at: datetime,
    state: str = FILE_CLAIMED,
) -> FileRow:
    """What the ledger keeps of a file that landed."""
    return FileRow(
        pipeline=pipeline,
        object_key=file.key,
        size=file.size,
        etag=file.etag,
        version_id=file.version_id,
        sha256=file.sha256,
        modified=modified,
        hour=file.hour,
        batch_id=batch_id,
        state=state,
        at=at,
    )
