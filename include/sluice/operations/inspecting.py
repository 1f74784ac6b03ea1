"""The inspection of landed objects, several at a time, within the limits of a batch."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Final

from sluice.bounds import rejects_of_a_batch
from sluice.errors import SluiceError
from sluice.landing.inspection import Inspection, Inspector
from sluice.landing.reading import Reading, reading_of
from sluice.objects.store import ObjectStore, StoredObject
from sluice.operations.batch_limits import split_by_limits
from sluice.operations.claim import Inspected
from sluice.operations.context import Context
from sluice.operations.unreadable_files import UnreadableFiles, inspect_or_skip, with_retries

INSPECTED_AT_ONCE: Final = 4
UNREADABLE: Final = "unreadable_file"


@dataclass(frozen=True)
class Inspecting:
    """Inspects objects of a landing place's `store`, without those that are left out (see
    `inspect_or_skip`).

    `named`: the objects were requested by name. `unreadable` collects those that cannot be read;
    without it none is left out, and such an object raises. Staged files are written below `prefix`,
    by default where those of batches are; `reading` defaults to the pipeline's.
    """

    ctx: Context
    store: ObjectStore
    named: bool
    unreadable: UnreadableFiles | None = None
    prefix: str = ""
    reading: Reading | None = None

    def batches(self, objects: list[StoredObject]) -> Iterator[list[Inspected]]:
        """Inspect the objects; yield one list for each batch."""
        most = self.ctx.pipeline.max_bytes_per_batch
        for chunk in chunks(self.ctx, objects):
            yield from split_by_limits(self._each(chunk), self._most_rejects, most)

    def all(self, objects: list[StoredObject]) -> list[Inspected]:
        """Inspect the objects, as many as there are."""
        lists = split_by_limits(self._each(objects), self._most_rejects)
        return [one for some in lists for one in some]

    @property
    def _most_rejects(self) -> int:
        return rejects_of_a_batch(self.ctx.pipeline.max_bad_records)

    def _each(self, objects: list[StoredObject]) -> Iterator[Inspected]:
        inspector = Inspector(
            self.store,
            self.ctx.files.store,
            self.prefix or self.ctx.files.staging_prefix(self.ctx.pipeline.name),
            self.reading or reading_of(self.ctx.pipeline),
        )
        look = partial(self._one, inspector)
        for found, inspection in zip(objects, _inspect_ahead(look, objects), strict=True):
            if inspection is not None:
                yield Inspected(found, inspection)

    def _one(self, inspector: Inspector, found: StoredObject) -> Inspection | None:
        look = partial(_inspection, self.ctx, inspector, found)
        if self.unreadable is None:
            return with_retries(look, UnreadableFiles())
        return inspect_or_skip(self.ctx.say, found.key, look, self.named, self.unreadable)


def chunks(ctx: Context, objects: list[StoredObject]) -> Iterator[list[StoredObject]]:
    """Split objects, by hour and name, into lists within the limits on count and bytes; a single
    object may exceed the latter."""
    chunk: list[StoredObject] = []
    size = 0
    for found in sorted(objects, key=lambda o: (o.hour, o.key)):
        full = len(chunk) >= ctx.pipeline.max_files_per_batch
        if chunk and (full or size + found.size > ctx.pipeline.max_bytes_per_batch):
            yield chunk
            chunk, size = [], 0
        chunk.append(found)
        size += found.size
    if chunk:
        yield chunk


def _inspect_ahead(
    look: Callable[[StoredObject], Inspection | None], objects: list[StoredObject]
) -> Iterator[Inspection | None]:
    """Inspect several objects at a time, and yield the results in order; few wait
    behind a slow one."""
    with ThreadPoolExecutor(INSPECTED_AT_ONCE) as pool:
        begun: deque[Future[Inspection | None]] = deque()
        for found in objects:
            begun.append(pool.submit(look, found))
            if len(begun) >= 2 * INSPECTED_AT_ONCE:
                yield begun.popleft().result()
        while begun:
            yield begun.popleft().result()


def _inspection(ctx: Context, inspector: Inspector, found: StoredObject) -> Inspection:
    """Inspect one object.

    A file that breaks the inspection in an unforeseen way becomes one reject, so that the others
    can still land.
    """
    try:
        return inspector.inspect(found)
    except (SluiceError, OSError, MemoryError):
        raise
    except Exception as error:
        reason = f"{UNREADABLE}: {type(error).__name__}"
        ctx.say(
            f"land: pipeline {ctx.pipeline.name}: {found.key} goes into quarantine as a whole "
            f"({reason}: {error})"
        )
        return inspector.reject(found, reason)
