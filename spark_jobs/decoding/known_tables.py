"""The tables that a batch's statements may be of: those that it has rows of, and those stored."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
from functools import cache

from sluice.config.project import Pipeline
from sluice.ddl.stated_names import named
from sluice.ddl.statements import UnreadableDdl
from sluice.ledger.changelogs import stored_sources
from spark_jobs.job import Job
from spark_jobs.planning.discover import Found, Source
from spark_jobs.planning.plan import target_name


@dataclass(frozen=True)
class KnownTables:
    """`as_typed`: the format's events name tables as their statements do. `stored` is asked only
    where the batch's own tables leave something open."""

    with_rows: frozenset[Source]
    stored: Callable[[], Collection[Source]]
    as_typed: bool = False

    def all(self) -> Collection[Source]:
        """Each of them once, as the batch has it."""
        by_name = {source.name: source for source in (*self.stored(), *self.with_rows)}
        return by_name.values()

    def one(self, stated: Source, also: Iterable[Source] = ()) -> Source:
        """The table that a name is of, itself where it may be of none that is known, which `also`
        are; raises UnreadableDdl where it may be of several."""
        if stated in self.with_rows:
            return stated
        known = {source.name: source for source in (*also, *self.all())}
        found = named(stated.name, known)
        if len(found) > 1:
            raise UnreadableDdl(f"it names {stated.name}, which may be {' or '.join(found)}")
        return known[found[0]] if found else stated


def known_tables(job: Job, found: Iterable[Found]) -> KnownTables:
    """Those of a batch in which these are found."""
    with_rows = frozenset(table.source for table in found if table.images)
    return KnownTables(with_rows, cache(lambda: _stored(job)), job.pipeline.wire.ddl_as_typed)


def _stored(job: Job) -> list[Source]:
    pipeline = job.pipeline
    names = stored_sources(job.lake.catalog, pipeline.name, pipeline.namespace)
    return [source for target, name in names.items() for source in _sources(pipeline, target, name)]


def _sources(pipeline: Pipeline, target: str, name: str) -> Iterator[Source]:
    """A dotted name as the parts that make the name of its target; none of one with more dots."""
    *of, table = name.split(".")
    first, second = ([*of, "", ""])[:2]
    ways = (Source(first, second, table), Source("", first, table))[: 3 - len(of)]
    yield from [way for way in ways if target_name(pipeline, way) == target][:1]
