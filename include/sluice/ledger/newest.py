"""The state of a thing is its newest row: found in Arrow, for a lake has many more rows than things
that somebody asks for."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import fields
from operator import attrgetter
from typing import Any, Final, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from sluice.ledger.claims import Content
from sluice.ledger.rows import (
    FILE_CLAIMED,
    FILE_LOADED,
    FILE_RELEASED,
    ROLLED_BACK,
    BatchRow,
    FileRow,
    Publication,
)
from sluice.objects.store import StoredObject

R = TypeVar("R", FileRow, BatchRow, Publication)
_ROW: Final = "_row"
# As `objects.store.is_same_object` has it.
_ALWAYS_TOLD: Final = ("size", "etag")
_VERSION: Final = "version_id"


def newest(found: Any, *key: str) -> Any:
    """The row with the highest `seq` of every key, in the order of `seq`."""
    order = pc.sort_indices(found["seq"])
    keys = found.select(key).take(order).append_column(_ROW, pa.arange(0, found.num_rows))
    last = keys.group_by(list(key)).aggregate([(_ROW, "max")])
    # The rows themselves are copied once: they are most of what a large lake's ledger takes.
    return found.take(order.take(last[f"{_ROW}_max"].combine_chunks().sort()))


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


def unsettled(kept: Any, found: Sequence[StoredObject]) -> tuple[list[StoredObject], Any]:
    """Of the objects that are found those that no batch has as they are (`claims.is_free`,
    `is_replaced`), and the rows of their keys, of which `kept` has the newest ones."""
    told = {"object_key": [one.key for one in found]}
    told |= {name: [getattr(one, name) for one in found] for name in (*_ALWAYS_TOLD, _VERSION)}
    seen = pa.table({name: pa.array(told[name], kept[name].type) for name in told})
    at = pc.index_in(kept["object_key"], value_set=seen["object_key"].combine_chunks())
    rows, there = kept.filter(pc.is_valid(at)), seen.take(at.drop_null())
    same = pc.not_equal(rows["state"], FILE_RELEASED)
    for name in _ALWAYS_TOLD:
        same = pc.and_(same, pc.fill_null(pc.equal(rows[name], there[name]), False))
    same = pc.and_(same, _same_version(rows[_VERSION], there[_VERSION]))
    settled = set(rows["object_key"].filter(same).to_pylist())
    return [one for one in found if one.key not in settled], rows.filter(pc.invert(same))


def _same_version(before: Any, now: Any) -> Any:
    untold = pc.or_(pc.equal(before, ""), pc.equal(now, ""))
    return pc.fill_null(pc.or_(untold, pc.equal(before, now)), False)


def replaced_rows(found: Any) -> Any:
    """The loaded objects whose key a later batch has, where their own batch never gave it up."""
    of_batches = newest(found, "object_key", "batch_id")
    loaded = having(of_batches, "state", [FILE_LOADED])
    now = newest(found, "object_key").select(["object_key", "batch_id"])
    return loaded.join(now, now.column_names, join_type="left anti").sort_by("seq")


def with_checksums(found: Any, checksums: Iterable[str]) -> Any:
    """All rows of the keys under which an object ever had one of the checksums."""
    keys = having(found, "sha256", checksums)["object_key"].unique().to_pylist()
    return having(found, "object_key", keys)


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


def told_since_undone(found: Any) -> list[list[Publication]]:
    """Of each table of a batch its records since the batch was taken out of it, the newest
    first."""
    tables: dict[tuple[str, str, str], list[Publication]] = {}
    for row in sorted(rows_of(Publication, found), key=attrgetter("seq")):
        told = tables.setdefault(_published_in(row), [])
        if row.state == ROLLED_BACK:
            told.clear()
        else:
            told.insert(0, row)
    return [tables[name] for name in sorted(tables) if tables[name]]


def untold(given: list[Publication], found: Any) -> list[Publication]:
    """Those of `given` that may still be written: new ones (`seq` 0), and those whose batch has no
    newer row of the table in `found` than the one they were read from."""
    now = {(*_published_in(row), row.pipeline, row.seq) for row in publications_of(found)}
    return [r for r in given if not r.seq or (*_published_in(r), r.pipeline, r.seq) in now]


def _published_in(row: Publication) -> tuple[str, str, str]:
    return row.batch_id, row.namespace, row.table_name
