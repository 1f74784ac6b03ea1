"""The DDL statements of each batch, in append-only tables of the ledger: the rows of a batch's last
attempt are valid."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import partial
from typing import Any

from pyiceberg.catalog import Catalog
from pyiceberg.table import Table

from sluice.catalog.client import find_table
from sluice.catalog.expressions import equals
from sluice.catalog.retries import retry_while_away
from sluice.ledger.appends import Decision, LedgerTables
from sluice.ledger.scans import scan
from sluice.ledger.tables import Row
from sluice.names import LEDGER_NAMESPACE


def record(
    catalog: Catalog,
    log: str,
    batch: tuple[str, str],
    stated: Collection[Mapping[str, Any]],
    nothing: Mapping[str, Any],
) -> None:
    """Write the statements of a batch (pipeline, id), in place of those of an earlier attempt.

    `nothing`: the row of a batch that had statements in an earlier attempt and has none now.
    """
    rows, none = [_row(batch, one) for one in stated], _row(batch, nothing)
    LedgerTables(catalog).append(log, partial(_unless_there, batch, rows, none, tuple(nothing)))


def recorded(catalog: Catalog, log: str, pipeline: str) -> list[dict[str, Any]]:
    """Return the statements of a pipeline's batches, published or not."""
    return _newest(
        retry_while_away(lambda: _rows(catalog, log, pipeline), also=(FileNotFoundError,))
    )


def _row(batch: tuple[str, str], stated: Mapping[str, Any]) -> Row:
    pipeline, batch_id = batch
    return {**stated, "pipeline": pipeline, "batch_id": batch_id}


def _unless_there(
    batch: tuple[str, str], rows: list[Row], nothing: Row, fields: tuple[str, ...], table: Table
) -> Decision[None]:
    """Return the rows to append so that `rows` are the batch's newest; none if they are already.

    `nothing`: the row that says the batch has none any more.
    """
    pipeline, batch_id = batch
    stored = [r for r in _newest(_of_pipeline(table, pipeline)) if r["batch_id"] == batch_id]
    new = rows or ([nothing] if stored else [])
    before, after = (
        {tuple(row[name] for name in fields) for row in some} for some in (stored, new)
    )
    return ([] if before == after else new), None


def _rows(catalog: Catalog, log: str, pipeline: str) -> list[dict[str, Any]]:
    table = find_table(catalog, LEDGER_NAMESPACE, log)
    return [] if table is None else _of_pipeline(table, pipeline)


def _of_pipeline(table: Table, pipeline: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = scan(table, equals("pipeline", pipeline)).to_pylist()
    return rows


def _newest(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the rows that the last attempt at each batch wrote."""
    last = {row["batch_id"]: row["seq"] for row in sorted(rows, key=lambda row: row["seq"])}
    return [row for row in rows if row["seq"] == last[row["batch_id"]]]
