"""The tables that DDL may refer to: those with rows in the batch, and the stored ones."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
from functools import cache

from sluice.config.pipeline import Pipeline
from sluice.ddl.stated_names import named
from sluice.ddl.statements import UnreadableDdlError
from sluice.ledger.changelogs import stored_sources
from spark_jobs.job import Job
from spark_jobs.planning.table_summary import Source, TableSummary
from spark_jobs.planning.targets import target_name


@dataclass(frozen=True)
class KnownTables:
    """Tables with rows in the batch, and the stored ones, which are read only when needed.

    `as_typed`: the format's events name tables as the statement spells them.
    """

    with_rows: frozenset[Source]
    stored: Callable[[], Collection[Source]]
    as_typed: bool = False

    def all(self) -> Collection[Source]:
        """Return each table once, in the batch's spelling if the batch has it."""
        by_name = {source.name: source for source in (*self.stored(), *self.with_rows)}
        return by_name.values()

    def one(self, stated: Source, also: Iterable[Source] = ()) -> Source:
        """Return the table that a stated name refers to, or the name itself if no table matches.

        `also`: further candidates. Raises UnreadableDdlError if several match.
        """
        if stated in self.with_rows:
            return stated
        known = {source.name: source for source in (*also, *self.all())}
        found = named(stated.name, known)
        if len(found) > 1:
            raise UnreadableDdlError(f"it names {stated.name}, which may be {' or '.join(found)}")
        return known[found[0]] if found else stated


def known_tables(job: Job, summaries: Iterable[TableSummary]) -> KnownTables:
    """Return the known tables of a batch, from the summaries of its tables."""
    with_rows = frozenset(summary.source for summary in summaries if summary.images)
    return KnownTables(with_rows, cache(lambda: _stored(job)), job.pipeline.wire.ddl_as_typed)


def _stored(job: Job) -> list[Source]:
    pipeline = job.pipeline
    names = stored_sources(job.lake.catalog, pipeline.name, pipeline.namespace)
    return [source for target, name in names.items() for source in _sources(pipeline, target, name)]


def _sources(pipeline: Pipeline, target: str, name: str) -> Iterator[Source]:
    """Yield the ways to split a dotted name into the parts of a source that gives the target's
    name; none if there are more dots than parts."""
    *of, table = name.split(".")
    first, second = ([*of, "", ""])[:2]
    ways = (Source(first, second, table), Source("", first, table))[: 3 - len(of)]
    yield from [way for way in ways if target_name(pipeline, way) == target][:1]
