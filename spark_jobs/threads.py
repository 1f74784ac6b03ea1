"""Concurrent work in one driver, since a single Spark job leaves cores idle."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final, TypeVar

S = TypeVar("S")
T = TypeVar("T")
AT_ONCE: Final = 4


def map_concurrently(items: Iterable[S], work: Callable[[S], T]) -> list[T]:
    """Do the work for every item, AT_ONCE of them at a time; raises the first error."""
    with ThreadPoolExecutor(AT_ONCE) as pool:
        return list(pool.map(work, items))


def run_concurrently(*works: Callable[[], Any]) -> list[Any]:
    """Do all of these concurrently; returns results in order, raises the first error."""
    return map_concurrently(works, lambda work: work())
