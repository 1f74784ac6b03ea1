"""`sources:` of a table: several source tables that make one target.

A pattern is a glob over a source table's dotted name: `*` matches any characters but a dot, `?` one
of them. It matches the whole dotted name or its end after a dot, like a name in `tables:`.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Annotated, Final, Literal, Self

from pydantic import AfterValidator, Field, PrivateAttr

from sluice.config.fields import TABLE_PLACEHOLDERS, Strict
from sluice.config.policies import APPLY, FAIL

if TYPE_CHECKING:
    from sluice.config.pipeline import Pipeline

OnTruncate = Literal["apply", "ignore", "fail"]

_WILD: Final = frozenset("*?")
_OTHER_GLOBS: Final = frozenset("[]{}")


def _source_pattern(value: str) -> str:
    if "" in value.split(".") or _OTHER_GLOBS & set(value):
        raise ValueError("a name with * and ? in it, such as public.orders_p* or shop_??.orders_*")
    return value


def _distinct(value: list[str] | None) -> list[str] | None:
    if value is not None and (not value or len(set(value)) < len(value)):
        raise ValueError("one pattern or more, each once")
    return value


SourcePattern = Annotated[str, AfterValidator(_source_pattern)]


class SourceTables(Strict):
    """A table's settings about its source tables."""

    sources: Annotated[list[SourcePattern] | None, AfterValidator(_distinct)] = Field(
        None, description="patterns of more source tables that make this one, such as orders_p*"
    )
    on_truncate: OnTruncate | None = Field(
        None,
        description="absent: the pipeline's, but a TRUNCATE of one of `sources` does not apply",
    )


class ListedTables(Strict):
    """A pipeline's `tables:`, optionally restricted to those that a run names."""

    _chosen: frozenset[str] | None = PrivateAttr(None)

    def choosing(self, names: Collection[str]) -> Self:
        """Return a copy that loads only these tables; the others keep their `sources`."""
        copy = self.model_copy()
        copy._chosen = frozenset(names)
        return copy

    def loads(self, name: str) -> bool:
        """Whether a run loads this entry of `tables:`."""
        return self._chosen is None or name in self._chosen


def regex(patterns: Iterable[str]) -> str:
    """Return patterns as one regular expression for a dotted name, valid in Python and Java."""
    wholes = (r"\.".join(map(_part, pattern.split("."))) for pattern in patterns)
    return rf"(?s:.*\.)?(?:{'|'.join(wholes)})"


def _part(glob: str) -> str:
    """Return the expression for one part of a name.

    Atomic groups: each `*` but the last takes the first match, so that a long name costs no
    backtracking.
    """
    first, *others = (
        "".join("[^.]" if c == "?" else re.escape(c) for c in s) for s in glob.split("*")
    )
    *between, last = others or [""]
    found = "".join(f"(?>[^.]*?{text})" for text in between)
    return f"{first}{found}[^.]*{last}" if others else first


def matches(patterns: Iterable[str], name: str) -> bool:
    """Whether one of the patterns matches a dotted name; there must be at least one."""
    return re.fullmatch(regex(patterns), name) is not None


def listed_name(tables: Collection[str], name: str) -> str | None:
    """Return the entry of `tables` for a source table: its full name, else the
    longest end of it."""
    parts = name.split(".")
    ends = (".".join(parts[start:]) for start in range(len(parts)))
    return next((end for end in ends if end in tables), None)


def claimants(tables: Mapping[str, SourceTables], name: str) -> list[str]:
    """Return the entries of `tables:` that match a source table, by name or by pattern."""
    by_pattern = {
        n for n, table in tables.items() if table.sources and matches(table.sources, name)
    }
    named = listed_name(tables, name)
    return sorted(by_pattern | ({named} if named else set()))


def with_sources(tables: Mapping[str, SourceTables] | None) -> dict[str, list[str]]:
    """Return the patterns of the tables that have any."""
    return {name: table.sources for name, table in (tables or {}).items() if table.sources}


def refuse_patterns(names: Iterable[str]) -> None:
    """Raise ValueError for a table name that looks like a pattern, which would match nothing."""
    for name in names:
        if not (_OTHER_GLOBS | _WILD).isdisjoint(name):
            raise ValueError(
                f"names of source tables; {name} is a pattern, and patterns belong under "
                "`sources:` of a table"
            )


def refuse_shared_sources(tables: Mapping[str, SourceTables] | None) -> None:
    """Raise ValueError if names or patterns give one source table to two entries."""
    patterns = with_sources(tables)
    for name, own in patterns.items():
        if len(name.split(".")) > len(TABLE_PLACEHOLDERS):
            raise ValueError(f"{name} as database.schema.table or the end of it, for its sources")
        for other in tables or {}:
            if other != name:
                _refuse_shared(name, own, other, patterns.get(other, []))


def _refuse_shared(name: str, own: list[str], other: str, others: list[str]) -> None:
    for pattern in own:
        if pattern in others:
            raise ValueError(
                f"each pattern in `sources` of one table; {pattern} is in those of {name} and "
                f"{other}"
            )
        if matches([pattern], other):
            raise ValueError(f"`sources` of {name} that leave {other} out; {pattern} matches it")


def truncate_policy(pipeline: Pipeline, table: SourceTables) -> OnTruncate:
    """Return what a TRUNCATE of a table does: the table's own policy, else the pipeline's."""
    return table.on_truncate or pipeline.on_truncate


def partial_truncate_policy(pipeline: Pipeline, table: SourceTables) -> OnTruncate:
    """Return what a TRUNCATE of one of a table's `sources` does.

    It affects only a part of the table, so it empties the target only if the table's own policy
    says so.
    """
    policy = truncate_policy(pipeline, table)
    return FAIL if table.on_truncate is None and policy == APPLY else policy
