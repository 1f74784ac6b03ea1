"""The state of a thing is its newest row: found in Arrow, for a lake has many more rows than things
that somebody asks for."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import fields
from typing import Any, Final, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from sluice.ledger.claims import Content
from sluice.ledger.rows import (
    FILE_CLAIMED,
    FILE_LOADED,
    FILE_RELEASED,
    BatchRow,
    FileRow,
    Publication,
)

R = TypeVar("R", FileRow, BatchRow, Publication)
_ROW: Final = "_row"


def newest(found: Any, *key: str) -> Any:
    """The row with the highest `seq` of every key, in the order of `seq`."""
    ordered = found.sort_by("seq")
    row = pa.array(range(ordered.num_rows), pa.int64())
    last = ordered.append_column(_ROW, row).group_by(list(key)).aggregate([(_ROW, "max")])
    return ordered.take(last[f"{_ROW}_max"].combine_chunks().sort())


def having(found: Any, column: str, values: Iterable[str]) -> Any:
    """The rows whose column holds one of the values."""
    return found.filter(_is_among(found, column, values))


def _is_among(found: Any, column: str, values: Iterable[str]) -> Any:
    return pc.is_in(found[column], value_set=pa.array(values, found[column].type))


def rows_of(kind: type[R], found: Any) -> Iterator[R]:
    """The rows of an Arrow table with a column for every field."""
    columns = (found.column(field.name).to_pylist() for field in fields(kind))
    return (kind(*values) for values in zip(*columns, strict=True))


def latest(kind: type[R], found: Any, key: str) -> dict[str, R]:
    """The newest row of every key."""
    kept = newest(found, key)
    return dict(zip(kept.column(key).to_pylist(), rows_of(kind, kept), strict=True))


def replaced_rows(found: Any) -> Any:
    """The loaded objects whose key a later batch has, where their own batch never gave it up."""
    of_batches = newest(found, "object_key", "batch_id")
    loaded = having(of_batches, "state", [FILE_LOADED])
    now = newest(found, "object_key").select(["object_key", "batch_id"])
    return loaded.join(now, now.column_names, join_type="left anti").sort_by("seq")


def contents(found: Any, content: Content, elsewhere: Iterable[str]) -> dict[str, str]:
    """What the objects brought that are claimed, loaded or held, with the batch of each, without
    what the batches `elsewhere` have loaded. What is claimed is not, whatever became of its batch
    before."""
    claimed = pc.equal(found["state"], FILE_CLAIMED)
    here = pc.or_(claimed, pc.invert(_is_among(found, "batch_id", elsewhere)))
    taken = pc.and_(pc.not_equal(found["sha256"], ""), pc.not_equal(found["state"], FILE_RELEASED))
    rows = found.filter(pc.and_(here, taken))
    told = map(content, rows["object_key"].to_pylist(), rows["sha256"].to_pylist())
    return dict(zip(told, rows["batch_id"].to_pylist(), strict=True))


def publications_of(found: Any) -> list[Publication]:
    """The newest record of each table of each batch."""
    told = newest(found, "pipeline", "batch_id", "namespace", "table_name")
    return sorted(rows_of(Publication, told), key=_published_in)


def untold(given: list[Publication], found: Any) -> list[Publication]:
    """Those of `given` that may still be written: new ones (`seq` 0), and those whose batch has no
    newer row of the table in `found` than the one they were read from."""
    now = {(*_published_in(row), row.pipeline, row.seq) for row in publications_of(found)}
    return [r for r in given if not r.seq or (*_published_in(r), r.pipeline, r.seq) in now]


def _published_in(row: Publication) -> tuple[str, str, str]:
    return row.batch_id, row.namespace, row.table_name
