"""Records in quarantine: the ledger's table `sluice.quarantine`, which Spark writes."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from pyiceberg.catalog import Catalog
from pyiceberg.expressions import And

from sluice.catalog.expressions import equals
from sluice.ledger.appends import LedgerTables
from sluice.ledger.filters import of_batches, of_pipeline
from sluice.ledger.tables import QUARANTINE


@dataclass(frozen=True)
class Quarantined:
    """How many records of a batch's file are in quarantine for one reason."""

    batch_id: str
    file: str
    reason: str
    records: int


def query_of(batch_id: str) -> str:
    """Return SQL for a batch's quarantined records, as text where their bytes are text."""
    return (
        "SELECT file, record, reason, detail, coalesce(try(decode(raw)), raw::VARCHAR) AS raw "
        f"FROM sluice.quarantine WHERE batch_id = '{batch_id}'"
    )


def counted(catalog: Catalog, pipeline: str, batch_ids: Iterable[str]) -> list[Quarantined]:
    """Return the quarantined records of some batches, counted by file and reason."""
    by = ["batch_id", "file", "reason"]
    where = And(of_pipeline(pipeline), of_batches(batch_ids))
    rows = LedgerTables(catalog).read(QUARANTINE, where, tuple(by))
    grouped = rows.group_by(by).aggregate([([], "count_all")]).select([*by, "count_all"])
    found = grouped.rename_columns([*by, "records"]).to_pylist()
    return [Quarantined(**row) for row in found]


def details(
    catalog: Catalog, pipeline: str, batch_ids: Iterable[str], reason: str
) -> list[tuple[str, str]]:
    """Return batch and detail of those records of these batches that are in quarantine
    for the reason."""
    own = And(of_pipeline(pipeline), equals("reason", reason))
    where = And(own, of_batches(batch_ids))
    rows = LedgerTables(catalog).read(QUARANTINE, where, ("batch_id", "detail"))
    return [(row["batch_id"], row["detail"]) for row in rows.to_pylist()]
