"""Limits on the files of one batch that only their inspection shows: distinct schemas (each is
stored once), bytes of staged files, and rejects.

A listing only has an object's own size; decompressed it may be a hundred times as large.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import replace

from sluice.bounds import SCHEMA_BYTES_OF_A_BATCH
from sluice.containers.rejects import BatchRejects
from sluice.operations.claim import Inspected


def split_by_limits(
    inspected: Iterable[Inspected], most_rejects: int, most_bytes: float = math.inf
) -> Iterator[list[Inspected]]:
    """Yield lists of as many files as the limits allow; a single file may exceed them.

    A file counts with the larger of its own size and its staged file's. `BatchRejects`
    keeps about `most_rejects` rejects of each list.
    """
    batch, remaining = list[Inspected](), _Remaining(most_rejects, most_bytes)
    for one in inspected:
        if batch and not remaining.is_left_for(one):
            yield batch
            batch, remaining = [], _Remaining(most_rejects, most_bytes)
        batch.append(remaining.add(one))
    if batch:
        yield batch


class _Remaining:
    """What is left of one batch's limits."""

    def __init__(self, most_rejects: int, most_bytes: float) -> None:
        self._rejects = BatchRejects(most_rejects)
        self._bytes = most_bytes
        self._schema_bytes = SCHEMA_BYTES_OF_A_BATCH
        self._schemas: dict[str, str] = {}

    def is_left_for(self, one: Inspected) -> bool:
        schema = one.inspection.file.avro_schema
        fits = schema in self._schemas or len(schema.encode()) <= self._schema_bytes
        return fits and one.inspection.bytes_to_read <= self._bytes

    def add(self, one: Inspected) -> Inspected:
        """Return the file with its schema's text shared with others, and the rejects that fit."""
        file = one.inspection.file
        self._bytes -= one.inspection.bytes_to_read
        if file.avro_schema not in self._schemas:
            self._schema_bytes -= len(file.avro_schema.encode())
        schema = self._schemas.setdefault(file.avro_schema, file.avro_schema)
        look = replace(one.inspection, file=replace(file, avro_schema=schema))
        return replace(one, inspection=replace(look, rejects=self._rejects.take(look.rejects)))
