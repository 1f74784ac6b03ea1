"""Which rows of the ledger's tables are read."""

from __future__ import annotations

from collections.abc import Iterable

from pyiceberg.expressions import And, BooleanExpression, In, Not

from sluice.ledger.rows import FILE_COPY
from sluice.ledger.tables import equals


def of_pipeline(pipeline: str) -> BooleanExpression:
    """Those of one pipeline."""
    return equals("pipeline", pipeline)


def taken(pipeline: str) -> BooleanExpression:
    """The files that batches have or had: without copies, whose rows change nothing of these."""
    return And(of_pipeline(pipeline), Not(equals("state", FILE_COPY)))


def copied(pipeline: str) -> BooleanExpression:
    """The files that only brought the bytes of others."""
    return And(of_pipeline(pipeline), equals("state", FILE_COPY))


def of_batches(batch_ids: Iterable[str]) -> BooleanExpression:
    """Those of some batches."""
    return In("batch_id", batch_ids)  # type: ignore[call-arg]
