"""The schemas of a batch's files: each is held once, and a batch has no more than it may hold."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from sluice.bounds import SCHEMA_BYTES_OF_A_BATCH
from sluice.operations.claim import Inspected


def by_schemas(looks: Iterable[Inspected]) -> Iterator[list[Inspected]]:
    """Lists of as many files as the ceiling on distinct schemas allows: one alone may be above."""
    batch, schemas = list[Inspected](), _Schemas()
    for one in looks:
        if batch and not schemas.have_room_for(one):
            yield batch
            batch, schemas = [], _Schemas()
        batch.append(schemas.shared_by(one))
    if batch:
        yield batch


class _Schemas:
    """The distinct schemas of one batch."""

    def __init__(self) -> None:
        self._texts: dict[str, str] = {}
        self._bytes = 0

    def have_room_for(self, one: Inspected) -> bool:
        schema = one.look.file.avro_schema
        known = schema in self._texts
        return known or self._bytes + len(schema.encode()) <= SCHEMA_BYTES_OF_A_BATCH

    def shared_by(self, one: Inspected) -> Inspected:
        """The file with the text that others of its schema have."""
        file = one.look.file
        if file.avro_schema not in self._texts:
            self._bytes += len(file.avro_schema.encode())
        schema = self._texts.setdefault(file.avro_schema, file.avro_schema)
        return replace(one, look=replace(one.look, file=replace(file, avro_schema=schema)))
