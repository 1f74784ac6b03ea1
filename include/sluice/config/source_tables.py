"""`sources:` of a table: several tables of the source that make one target.

A pattern is a glob over a source table's dotted name: `*` is any characters but a dot, `?` one of
them. It matches like a name in `tables:`, the whole dotted name or the end of it after a dot.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Annotated, Final, Literal, Self

from pydantic import AfterValidator, Field, PrivateAttr

from sluice.config.fields import TABLE_PLACEHOLDERS, Strict
from sluice.config.policies import APPLY, FAIL

if TYPE_CHECKING:
    from sluice.config.project import Pipeline

OnTruncate = Literal["apply", "ignore", "fail"]

_WILD: Final = {"*": "[^.]*", "?": "[^.]"}
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
    """What a table of the configuration says of the tables that its events come from."""

    sources: Annotated[list[SourcePattern] | None, AfterValidator(_distinct)] = Field(
        None, description="patterns of more source tables that make this one, such as orders_p*"
    )
    on_truncate: OnTruncate | None = Field(
        None,
        description="absent: the pipeline's, but a TRUNCATE of one of `sources` does not apply",
    )


class ListedTables(Strict):
    """A pipeline's choice among its tables, where a run names some of them."""

    _chosen: frozenset[str] | None = PrivateAttr(None)

    def choosing(self, names: Collection[str]) -> Self:
        """The same, to load only these of `tables:`; the others still say what is theirs."""
        copy = self.model_copy()
        copy._chosen = frozenset(names)
        return copy

    def loads(self, name: str) -> bool:
        """Whether a run loads this one of `tables:`."""
        return self._chosen is None or name in self._chosen


def regex(patterns: Iterable[str]) -> str:
    """Patterns as one regular expression on a whole dotted name, read alike by Python and Java."""
    parts = ("".join(_WILD.get(c, re.escape(c)) for c in pattern) for pattern in patterns)
    return rf"(?s:.*\.)?(?:{'|'.join(parts)})"


def matches(patterns: Iterable[str], name: str) -> bool:
    """Whether one of the patterns, of which there is one at least, matches a dotted name."""
    return re.fullmatch(regex(patterns), name) is not None


def listed_name(tables: Collection[str], name: str) -> str | None:
    """Which of the names is a source table's: in full, else the longest end of it."""
    parts = name.split(".")
    ends = (".".join(parts[start:]) for start in range(len(parts)))
    return next((end for end in ends if end in tables), None)


def claimants(tables: Mapping[str, SourceTables], name: str) -> list[str]:
    """Those of `tables:` that a source table belongs to, by their name or by a pattern."""
    by_pattern = {
        n for n, table in tables.items() if table.sources and matches(table.sources, name)
    }
    named = listed_name(tables, name)
    return sorted(by_pattern | ({named} if named else set()))


def with_sources(tables: Mapping[str, SourceTables] | None) -> dict[str, list[str]]:
    """The patterns of those tables that have any."""
    return {name: table.sources for name, table in (tables or {}).items() if table.sources}


def refuse_patterns(names: Iterable[str]) -> None:
    """Raise ValueError for one of `tables:` that is meant as a pattern, and would match nothing."""
    for name in names:
        if not (_OTHER_GLOBS | _WILD.keys()).isdisjoint(name):
            raise ValueError(
                f"names of source tables; {name} is a pattern, and patterns belong under "
                "`sources:` of a table"
            )


def refuse_shared_sources(tables: Mapping[str, SourceTables] | None) -> None:
    """Raise ValueError where a source table would be of two of `tables:`, as far as names tell."""
    patterns = with_sources(tables)
    for name, mine in patterns.items():
        if len(name.split(".")) > len(TABLE_PLACEHOLDERS):
            raise ValueError(f"{name} as database.schema.table or the end of it, for its sources")
        for other in tables or {}:
            if other != name:
                _refuse_shared(name, mine, other, patterns.get(other, []))


def _refuse_shared(name: str, mine: list[str], other: str, others: list[str]) -> None:
    for pattern in mine:
        if pattern in others:
            raise ValueError(
                f"each pattern in `sources` of one table; {pattern} is in those of {name} and "
                f"{other}"
            )
        if matches([pattern], other):
            raise ValueError(f"`sources` of {name} that leave {other} out; {pattern} matches it")


def truncate_policy(pipeline: Pipeline, table: SourceTables) -> OnTruncate:
    """What a TRUNCATE of a table does: its own word, else the pipeline's."""
    return table.on_truncate or pipeline.on_truncate


def partial_truncate_policy(pipeline: Pipeline, table: SourceTables) -> OnTruncate:
    """The same for a TRUNCATE that came under the name of one of `sources`.

    It empties only a part of the table, so only the table's own word lets it empty the target.
    """
    policy = truncate_policy(pipeline, table)
    return FAIL if table.on_truncate is None and policy == APPLY else policy
