"""Filters on the ledger's tables."""

from __future__ import annotations

from collections.abc import Iterable

from pyiceberg.expressions import And, BooleanExpression, Not

from sluice.catalog.expressions import among, equals
from sluice.ledger.states import FILE_COPY


def of_pipeline(pipeline: str) -> BooleanExpression:
    """Rows of one pipeline."""
    return equals("pipeline", pipeline)


def not_copied(pipeline: str) -> BooleanExpression:
    """Rows of files that a batch has or had, without copies: a copy belongs to no batch."""
    return And(of_pipeline(pipeline), Not(equals("state", FILE_COPY)))


def copied(pipeline: str) -> BooleanExpression:
    """Rows of files whose bytes another object had before."""
    return And(of_pipeline(pipeline), equals("state", FILE_COPY))


def of_batches(batch_ids: Iterable[str]) -> BooleanExpression:
    """Rows of some batches."""
    return among("batch_id", batch_ids)
