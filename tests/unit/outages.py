"""What a catalog raises while it is away, for tests of waiting and of giving up."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from typing import Any

import psycopg2
from sqlalchemy.exc import DatabaseError, InternalError, OperationalError


def away(text: str = "connection refused") -> OperationalError:
    return OperationalError("SELECT 1", {}, sqlite3.OperationalError(text))


def internal(code: str) -> InternalError:
    """An error for which neither psycopg2 nor SQLAlchemy has a class of a lost connection."""
    kind = type("InternalError", (psycopg2.InternalError,), {"pgcode": code})
    return InternalError("UPDATE iceberg_tables", {}, kind("cannot execute UPDATE"))


def invalidated() -> DatabaseError:
    """A lost connection for which psycopg2 has no class of its own: SQLAlchemy marks the error."""
    lost = psycopg2.DatabaseError("error with status PGRES_TUPLES_OK and no message from the libpq")
    return DatabaseError("SELECT 1", {}, lost, connection_invalidated=True)


def failing(times: int, error: Exception, answer: Any = "answer") -> Callable[..., Any]:
    left = iter([error] * times)

    def action(*args: Any, **kwargs: Any) -> Any:
        for problem in left:
            raise problem
        return answer(*args, **kwargs) if callable(answer) else answer

    return action
