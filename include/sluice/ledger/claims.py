"""Requests to claim files for a batch, and which files the ledger's rows allow to be claimed."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import NamedTuple

from sluice.ledger.rows import FileRow
from sluice.ledger.states import FILE_CLAIMED, FILE_LOADED, FILE_RELEASED
from sluice.manifest import SourceFile
from sluice.objects.store import StoredObject, is_same_object

ContentKey = Callable[[str, str], str]
"""Returns one value, from key and checksum, for all objects that hold the same records."""


def by_checksum(_key: str, checksum: str) -> str:
    """Identify the content of objects of which only the bytes count."""
    return checksum


@dataclass(frozen=True)
class ClaimRequest:
    """A request to claim those of `files` that no batch has.

    `batch_id_for(won)` returns the batch id for the files that are won. It is called before each
    try to commit, and may write the manifest, so that no claim is without one. `content_key`: of
    files with the same content only the first is claimed, the others are recorded as copies, and
    one with the bytes that a published batch loaded under its key as loaded by that batch again;
    `epochs`: only files of these epochs count as the same (None: all). `replaced`: the rows of
    loaded files whose changed object (other ETag, version or size) may be claimed. `modified`:
    object key → time of last modification.
    """

    files: tuple[SourceFile, ...]
    batch_id_for: Callable[[tuple[SourceFile, ...]], str]
    content_key: ContentKey = by_checksum
    epochs: Container[int] | None = None
    modified: Mapping[str, datetime] = field(default_factory=dict)
    replaced: Container[FileRow] = ()


class Claim(NamedTuple):
    """The files that a batch has won; none, and no batch, if no file was left."""

    batch_id: str
    files: tuple[SourceFile, ...]


def is_free(row: FileRow | None) -> bool:
    """Whether no batch has the file."""
    return row is None or row.state == FILE_RELEASED


def may_be_replaced(found: SourceFile | StoredObject, row: FileRow) -> bool:
    """Whether the ledger's object is loaded and another one has replaced it since."""
    return row.state == FILE_LOADED and not is_same_object(found, row)


def available(
    files: tuple[SourceFile, ...],
    known: Mapping[str, FileRow],
    replaced: Container[FileRow],
) -> tuple[SourceFile, ...]:
    """Return the files that no batch has, and those that replace one of `replaced`."""
    rows = ((file, known.get(file.key)) for file in files)
    return tuple(file for file, row in rows if is_free(row) or row in replaced)


def fresh_content(
    files: tuple[SourceFile, ...], seen: set[str], content: ContentKey
) -> tuple[SourceFile, ...]:
    """Return the files whose content is not in `seen`, and add theirs to it."""
    fresh = []
    for file in files:
        value = content(file.key, file.sha256)
        if not value or value not in seen:
            fresh.append(file)
        seen.add(value)
    return tuple(fresh)


def copies_among(
    files: tuple[SourceFile, ...],
    won: tuple[SourceFile, ...],
    batch_id: str,
    brought: Mapping[str, str],
    content: ContentKey,
) -> Iterator[tuple[SourceFile, str]]:
    """Yield the files that were not `won`, each with the batch that has its content: `batch_id`, or
    that in `brought` (content → batch)."""
    own = {content(file.key, file.sha256) for file in won}
    taken = {file.key for file in won}
    for file in files:
        if file.key not in taken:
            value = content(file.key, file.sha256)
            yield file, batch_id if value in own else brought[value]


def file_row(
    pipeline: str,
    modified: Mapping[str, datetime],
    at: datetime,
    file: SourceFile,
    batch_id: str,
    state: str = FILE_CLAIMED,
) -> FileRow:
    """Return the ledger's row of a landed file."""
    return FileRow(
        pipeline=pipeline,
        object_key=file.key,
        size=file.size,
        etag=file.etag,
        version_id=file.version_id,
        sha256=file.sha256,
        modified=modified.get(file.key),
        hour=file.hour,
        batch_id=batch_id,
        state=state,
        at=at,
    )
