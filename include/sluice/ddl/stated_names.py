"""Tables by the names that statements give them: in any case, and without what their session knows.

Rows come under the name that the server keeps. What a statement's event says of its table may be
what somebody typed: Canal copies the statement's own words (with `lower_case_table_names=1` rows
are of `t` where a statement is of `T`), DTS tells the database alone (docs/formats/canal.md,
dts_avro.md).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable


def may_name(stated: str, source: str) -> bool:
    """Whether a dotted name may be a source table's, which has more parts before its own name, or
    another case."""
    return _is_part(stated.lower(), source.lower())


def named(stated: str, sources: Iterable[str]) -> list[str]:
    """Which of the source tables a name is of: the one that is called so, else those that are but
    for parts that it leaves out, else but for case as well."""
    known = sorted(set(sources))
    for alike in (str.__eq__, _is_part, may_name):
        if found := [source for source in known if alike(stated, source)]:
            return found
    return []


def is_of(stated: str, source: str, others: Callable[[], Collection[str]]) -> bool:
    """Whether a name is of one source table, and of none of the others, which are asked for only
    where that is unclear."""
    if stated == source or not may_name(stated, source):
        return stated == source
    return named(stated, (source, *others())) == [source]


def in_case_of(name: str, typed: str, known: str) -> str:
    """A name in the case into which its source put another one: that was `known` as it is for what
    was typed, as Oracle has `TITLE` of `title`."""
    if typed == known or typed.lower() != known.lower():
        return name
    return name.upper() if known.isupper() else name.lower() if known.islower() else name


def _is_part(stated: str, source: str) -> bool:
    *said, table = stated.split(".")
    *known, name = source.split(".")
    return table == name and set(said) <= set(known)
