"""Transactions of batches whose pipeline holds back open ones: the ledger's table
`sluice.transactions`, which Spark writes."""

from __future__ import annotations

from collections import defaultdict

from pyiceberg.catalog import Catalog

from sluice.ledger.appends import LedgerTables
from sluice.ledger.filters import of_pipeline
from sluice.ledger.tables import TRANSACTIONS


def by_batch(catalog: Catalog, pipeline: str) -> defaultdict[str, set[str]]:
    """Return the transactions that each batch of the pipeline ended, or has changes of."""
    rows = LedgerTables(catalog).read(
        TRANSACTIONS, of_pipeline(pipeline), ("batch_id", "transaction")
    )
    transactions: defaultdict[str, set[str]] = defaultdict(set)
    for row in rows.to_pylist():
        transactions[row["batch_id"]].add(row["transaction"])
    return transactions
