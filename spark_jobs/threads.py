"""Independent work of one driver, a few pieces of it at once: Spark's jobs leave gaps."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final, TypeVar

S = TypeVar("S")
T = TypeVar("T")
AT_ONCE: Final = 4


def side_by_side(tables: Iterable[S], work: Callable[[S], T]) -> list[T]:
    """Do the work for every table, a few of them at once; the first error ends it."""
    with ThreadPoolExecutor(AT_ONCE) as pool:
        return list(pool.map(work, tables))


def together(*works: Callable[[], Any]) -> list[Any]:
    """Do all of these at once; results in their order, the first error ends it."""
    return side_by_side(works, lambda work: work())
