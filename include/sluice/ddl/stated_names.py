"""Match table names in statements with source tables, ignoring case and missing parts.

Rows have the name that the server stores. A DDL event may have the name as somebody typed it: Canal
copies the statement's words (with `lower_case_table_names=1` rows are of `t` where a statement has
`T`), DTS only states the database (docs/formats/canal.md, dts_avro.md).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable


def may_name(stated: str, source: str) -> bool:
    """Whether a dotted name may mean a source table, ignoring case and missing leading parts."""
    return _is_part(stated.lower(), source.lower())


def named(stated: str, sources: Iterable[str]) -> list[str]:
    """Return the source tables that a name may mean: exact matches, else those with more parts,
    else also ignoring case."""
    candidates = sorted(set(sources))
    for alike in (str.__eq__, _is_part, may_name):
        if matching := [source for source in candidates if alike(stated, source)]:
            return matching
    return []


def may_be(stated: str, source: str, others: Callable[[], Collection[str]]) -> bool:
    """Whether a name means this source table and none of `others`, which is only called if
    that is unclear."""
    if stated == source or not may_name(stated, source):
        return stated == source
    return named(stated, (source, *others())) == [source]


def in_case_of(name: str, typed: str, known: str) -> str:
    """Return `name` in upper or lower case as the source stores it, judged by a name of which both
    the `typed` and the stored (`known`) form are known (Oracle: `title` → `TITLE`)."""
    if typed == known or typed.lower() != known.lower():
        return name
    return name.upper() if known.isupper() else name.lower() if known.islower() else name


def _is_part(stated: str, source: str) -> bool:
    *stated_parts, table = stated.split(".")
    *source_parts, name = source.split(".")
    return table == name and set(stated_parts) <= set(source_parts)
