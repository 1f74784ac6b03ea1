"""The newest rows of the ledger's tables, computed in Arrow, since a ledger has many more rows than
a caller needs as Python objects."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import fields
from operator import attrgetter
from typing import Final, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from sluice.ledger.claims import ContentKey
from sluice.ledger.rows import BatchRow, FileRow, FileState, Publication
from sluice.ledger.states import FILE_CLAIMED, FILE_LOADED, FILE_RELEASED, ROLLED_BACK
from sluice.objects.store import StoredObject

R = TypeVar("R", FileRow, FileState, BatchRow, Publication)
_ROW: Final = "_row"
# The rule of `objects.store.is_same_object`.
_IDENTITY: Final = ("size", "etag")
_VERSION: Final = "version_id"


def newest(rows: pa.Table, *key: str) -> pa.Table:
    """Return the row with the highest `seq` of every key, in the order of `seq`."""
    order = pc.sort_indices(rows["seq"])
    keys = rows.select(key).take(order).append_column(_ROW, pa.arange(0, rows.num_rows))
    last = keys.group_by(list(key)).aggregate([(_ROW, "max")])
    # Whole rows are copied only once: in a large ledger they take most of the memory.
    return rows.take(order.take(last[f"{_ROW}_max"].combine_chunks().sort()))


def where_in(rows: pa.Table, column: str, values: Iterable[str]) -> pa.Table:
    """Return the rows whose column holds one of the values."""
    return rows.filter(_is_among(rows, column, values))


def _is_among(rows: pa.Table, column: str, values: Iterable[str]) -> pa.ChunkedArray:
    return pc.is_in(rows[column], value_set=pa.array(values, rows[column].type))


def rows_of(kind: type[R], rows: pa.Table) -> Iterator[R]:
    """Yield the rows of an Arrow table as objects; the table has a column for every field."""
    columns = (rows.column(field.name).to_pylist() for field in fields(kind))
    return (kind(*values) for values in zip(*columns, strict=True))


def latest(kind: type[R], rows: pa.Table, key: str) -> dict[str, R]:
    """Return the newest row of every key as an object."""
    kept = newest(rows, key)
    return dict(zip(kept.column(key).to_pylist(), rows_of(kind, kept), strict=True))


def unclaimed_or_changed(
    kept: pa.Table, listed: Sequence[StoredObject]
) -> tuple[list[StoredObject], pa.Table]:
    """Return the listed objects that no batch has in this version (`claims.is_free`,
    `is_same_object`), and the rows of their keys. `kept`: the newest row of every key."""
    values = {"object_key": [one.key for one in listed]}
    values |= {name: [getattr(one, name) for one in listed] for name in (*_IDENTITY, _VERSION)}
    objects = pa.table({name: pa.array(values[name], kept[name].type) for name in values})
    at = pc.index_in(kept["object_key"], value_set=objects["object_key"].combine_chunks())
    rows, now = kept.filter(pc.is_valid(at)), objects.take(at.drop_null())
    same = pc.not_equal(rows["state"], FILE_RELEASED)
    for name in _IDENTITY:
        same = pc.and_(same, pc.fill_null(pc.equal(rows[name], now[name]), False))
    same = pc.and_(same, _same_version(rows[_VERSION], now[_VERSION]))
    claimed = set(rows["object_key"].filter(same).to_pylist())
    return [one for one in listed if one.key not in claimed], rows.filter(pc.invert(same))


def _same_version(before: pa.ChunkedArray, now: pa.ChunkedArray) -> pa.ChunkedArray:
    unknown = pc.or_(pc.equal(before, ""), pc.equal(now, ""))
    return pc.fill_null(pc.or_(unknown, pc.equal(before, now)), False)


def replaced_rows(rows: pa.Table) -> pa.Table:
    """Return the rows of objects that a batch still has as loaded, and whose key a
    later batch has."""
    of_batches = newest(rows, "object_key", "batch_id")
    loaded = where_in(of_batches, "state", [FILE_LOADED])
    now = newest(rows, "object_key").select(["object_key", "batch_id"])
    return loaded.join(now, now.column_names, join_type="left anti").sort_by("seq")


def with_checksums(rows: pa.Table, checksums: Iterable[str]) -> pa.Table:
    """Return all rows of the keys under which an object ever had one of the checksums."""
    keys = where_in(rows, "sha256", checksums)["object_key"].unique().to_pylist()
    return where_in(rows, "object_key", keys)


def batch_by_content(
    rows: pa.Table, content: ContentKey, elsewhere: Iterable[str]
) -> dict[str, str]:
    """Return content → batch, for contents that are claimed, loaded or held.

    Objects that the batches `elsewhere` loaded or hold are left out; those that they claimed are
    not.
    """
    claimed = pc.equal(rows["state"], FILE_CLAIMED)
    here = pc.or_(claimed, pc.invert(_is_among(rows, "batch_id", elsewhere)))
    taken = pc.and_(pc.not_equal(rows["sha256"], ""), pc.not_equal(rows["state"], FILE_RELEASED))
    rows = rows.filter(pc.and_(here, taken))
    values = map(content, rows["object_key"].to_pylist(), rows["sha256"].to_pylist())
    return dict(zip(values, rows["batch_id"].to_pylist(), strict=True))


def publications_of(rows: pa.Table) -> list[Publication]:
    """Return the newest row of each table of each batch."""
    last = newest(rows, "pipeline", "batch_id", "namespace", "table_name")
    return sorted(rows_of(Publication, last), key=_published_in)


def publications_since_undo(rows: pa.Table) -> list[list[Publication]]:
    """Return, for each table of a batch, its rows since the batch was last undone there,
    newest first."""
    tables: dict[tuple[str, str, str], list[Publication]] = {}
    for row in sorted(rows_of(Publication, rows), key=attrgetter("seq")):
        since = tables.setdefault(_published_in(row), [])
        if row.state == ROLLED_BACK:
            since.clear()
        else:
            since.insert(0, row)
    return [tables[name] for name in sorted(tables) if tables[name]]


def still_newest(given: list[Publication], rows: pa.Table) -> list[Publication]:
    """Return the publications that are new (`seq` 0), or whose stored row is still the newest of
    its batch and table."""
    now = {(*_published_in(row), row.pipeline, row.seq) for row in publications_of(rows)}
    return [r for r in given if not r.seq or (*_published_in(r), r.pipeline, r.seq) in now]


def _published_in(row: Publication) -> tuple[str, str, str]:
    return row.batch_id, row.namespace, row.table_name
