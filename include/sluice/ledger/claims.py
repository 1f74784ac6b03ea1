"""What a run asks of the ledger, and which of the files it may claim by their rows there."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime

from sluice.ledger.rows import FILE_CLAIMED, FILE_LOADED, FILE_RELEASED, FileRow
from sluice.manifest import SourceFile
from sluice.objects.store import StoredObject, is_same_object

Content = Callable[[str, str], str]
"""Returns one value, from key and checksum, for all objects that hold the same records."""


@dataclass(frozen=True)
class Claim:
    """Files to be claimed where no batch has them, under the batch id that `name` returns for those
    that are won.

    `name` is called before each try to commit; it may write the manifest, so that no claim is
    without one. A changed object (other ETag, version or size) under a known key is claimed only
    where the key's row is still one of `replaced`. With `once_by`, an object whose content another
    one had (at one of `epochs`, if given) is recorded as a copy instead; one with the bytes that a
    published batch loaded under its key, as loaded by that batch again. `modified`: by key.
    """

    files: tuple[SourceFile, ...]
    name: Callable[[tuple[SourceFile, ...]], str]
    once_by: Content | None = None
    epochs: Container[int] | None = None
    modified: Mapping[str, datetime] = field(default_factory=dict)
    replaced: Container[FileRow] = ()


def is_free(row: FileRow | None) -> bool:
    """Whether no batch has the file."""
    return row is None or row.state == FILE_RELEASED


def is_replaced(found: SourceFile | StoredObject, row: FileRow) -> bool:
    """Whether the object differs from the one that the ledger recorded under its key."""
    return not is_same_object(found, row)


def may_be_replaced(found: SourceFile | StoredObject, row: FileRow) -> bool:
    """Whether the recorded object is loaded and another one has replaced it since."""
    return row.state == FILE_LOADED and is_replaced(found, row)


def available(
    files: tuple[SourceFile, ...],
    known: Mapping[str, FileRow],
    replaced: Container[FileRow],
) -> tuple[SourceFile, ...]:
    """Return the files that no batch has, and those that replace one of `replaced`."""
    rows = ((file, known.get(file.key)) for file in files)
    return tuple(file for file, row in rows if is_free(row) or row in replaced)


def fresh_content(
    files: tuple[SourceFile, ...], seen: set[str], content: Content
) -> tuple[SourceFile, ...]:
    """Return the files whose content is not in `seen`; adds theirs to `seen`."""
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
    content: Content,
) -> Iterator[tuple[SourceFile, str]]:
    """Yield the files that were not `won`, each with the batch that has its content: `batch_id`,
    or the batch in `brought` (content to batch)."""
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
