"""Iceberg's filter expressions for values, which are passed as objects and never as SQL text."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from pyiceberg.expressions import BooleanExpression, EqualTo, In

# pyiceberg's constructors take the column's name first; mypy sees those of pydantic's model.


def equals(column: str, value: Any) -> BooleanExpression:
    """Rows whose column has the value."""
    return EqualTo(column, value)  # type: ignore[call-arg]


def among(column: str, values: Iterable[Any]) -> BooleanExpression:
    """Rows whose column has one of the values."""
    return In(column, values)  # type: ignore[call-arg]
