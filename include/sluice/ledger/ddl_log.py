"""What the DDL of each batch told, in a table of the ledger: rows that only grow, of which those of
the last attempt at a batch count."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import partial
from typing import Any

from pyiceberg.catalog import Catalog
from pyiceberg.table import Table

from sluice.catalog.client import find_table
from sluice.catalog.patience import retry
from sluice.ledger.scans import scan
from sluice.ledger.tables import Decision, LedgerTables, Row, equals
from sluice.names import LEDGER_NAMESPACE


def record(
    catalog: Catalog,
    log: str,
    batch: tuple[str, str],
    told: Collection[Mapping[str, Any]],
    nothing: Mapping[str, Any],
) -> None:
    """Write what a batch, by its pipeline and id, tells in the place of what an earlier attempt at
    it did; `nothing`: the row of one that tells nothing any more."""
    rows, none = [_of(batch, one) for one in told], _of(batch, nothing)
    LedgerTables(catalog).append(log, partial(_unless_there, batch, rows, none, tuple(nothing)))


def recorded(catalog: Catalog, log: str, pipeline: str) -> list[dict[str, Any]]:
    """What the batches of a pipeline told, published or not."""
    return _newest(retry(lambda: _rows(catalog, log, pipeline), also=(FileNotFoundError,)))


def _of(batch: tuple[str, str], told: Mapping[str, Any]) -> Row:
    pipeline, batch_id = batch
    return {**told, "pipeline": pipeline, "batch_id": batch_id}


def _unless_there(
    batch: tuple[str, str], rows: list[Row], nothing: Row, fields: tuple[str, ...], table: Table
) -> Decision[None]:
    pipeline, batch_id = batch
    there = [r for r in _newest(_of_pipeline(table, pipeline)) if r["batch_id"] == batch_id]
    told = rows or ([nothing] if there else [])
    known, wanted = (
        {tuple(row[name] for name in fields) for row in some} for some in (there, told)
    )
    return ([] if known == wanted else told), None


def _rows(catalog: Catalog, log: str, pipeline: str) -> list[dict[str, Any]]:
    table = find_table(catalog, LEDGER_NAMESPACE, log)
    return [] if table is None else _of_pipeline(table, pipeline)


def _of_pipeline(table: Table, pipeline: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = scan(table, equals("pipeline", pipeline)).to_pylist()
    return found


def _newest(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """What the last attempt at each batch wrote."""
    last = {row["batch_id"]: row["seq"] for row in sorted(rows, key=lambda row: row["seq"])}
    return [row for row in rows if row["seq"] == last[row["batch_id"]]]
