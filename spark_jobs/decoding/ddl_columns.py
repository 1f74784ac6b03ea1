"""Column renames, drops and additions in a batch's DDL."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import reduce
from typing import Final, TypeVar

from pyspark.sql import DataFrame

from sluice import names
from sluice.config.pipeline import Pipeline
from sluice.config.policies import APPLY
from sluice.config.source_tables import truncate_policy
from sluice.ddl.defaults import kept_columns
from sluice.ddl.stated_names import may_name
from sluice.ddl.statements import (
    MENTIONS_COLUMNS,
    Altered,
    UnreadableDdlError,
    altered,
    dropped_tables,
    in_turn,
)
from sluice.ledger.column_log import ColumnStatement
from sluice.source_names import is_column_name, is_reserved, stored_name
from spark_jobs.decoding.known_tables import KnownTables, known_tables
from spark_jobs.decoding.statements import (
    Statement,
    has_statements,
    ordered_tables,
    placed_statements,
)
from spark_jobs.driver_messages import emit
from spark_jobs.formats import FORMATS
from spark_jobs.job import Job
from spark_jobs.planning.table_summary import Source, TableSummary
from spark_jobs.planning.targets import table_config

_MOST: Final = 10_000
_Altering = TypeVar("_Altering", Altered, ColumnStatement)


def statements_of_batch(
    job: Job, envelope: DataFrame, summaries: list[TableSummary]
) -> dict[Source, list[ColumnStatement]]:
    """Return the column changes in the batch's DDL, by table, and the DROPs that empty its target.

    Raises PlanError for more statements than a driver can read.
    """
    changes = _column_changes(job, envelope, summaries) if has_statements(summaries) else {}
    drops = {one.source: list(_drops_of(job.pipeline, one)) for one in summaries if one.drops}
    of_all = dict.fromkeys((*changes, *(source for source, found in drops.items() if found)))
    return {of: [*changes.get(of, []), *drops.get(of, [])] for of in of_all}


def _drops_of(pipeline: Pipeline, summary: TableSummary) -> Iterator[ColumnStatement]:
    source, config = summary.source, table_config(pipeline, summary.source)
    if config is None or truncate_policy(pipeline, config) != APPLY:
        return
    for drop in sorted(set(summary.drops)):
        if dropped_tables(drop.text):
            yield ColumnStatement(source.name, drop.at, (), drop.text, drops_table=True)


def _column_changes(
    job: Job, envelope: DataFrame, summaries: list[TableSummary]
) -> dict[Source, list[ColumnStatement]]:
    found = placed_statements(job, envelope, MENTIONS_COLUMNS, _MOST, "change a column's name")
    statements: dict[Source, list[ColumnStatement]] = {}
    tables = known_tables(job, summaries)
    ordered = ordered_tables(summaries)
    labels = FORMATS[job.pipeline.format].labels
    for event in found:
        for of, statement in _of_statement(event, ordered, tables):
            if _concerns(job.pipeline, event.source, of, statement):
                statements.setdefault(of, []).append(_as_written(statement, labels))
    return {of: _by_place(stated) for of, stated in statements.items()}


def _concerns(pipeline: Pipeline, event: Source, of: Source, statement: ColumnStatement) -> bool:
    """Whether a statement concerns, or may concern, a table that the pipeline loads.

    A statement whose table is unknown may concern any. Where events name tables as typed, the name
    may be that of a listed table whose rows are still to come, with a schema that the event lacks.
    """
    if table_config(pipeline, of) is not None or (statement.problem is not None and not of.table):
        return True
    listed = filter(pipeline.loads, pipeline.tables or ()) if pipeline.wire.ddl_as_typed else ()
    stated = of.name if event.table else of.table
    return any(may_name(name, of.name) or may_name(stated, name) for name in listed)


def _as_written(statement: ColumnStatement, labels: Collection[str]) -> ColumnStatement:
    added = tuple(column.as_written(labels) for column in statement.added)
    return replace(statement, added=added)


def _by_place(statements: Iterable[ColumnStatement]) -> list[ColumnStatement]:
    """Combine statements at the same position, in their order, since all apply to the rows below
    it.

    A repeated statement counts once.
    """
    places: dict[tuple[str, str | None], list[ColumnStatement]] = {}
    for one in dict.fromkeys(statements):
        unread = one.statement if one.problem is not None else None
        places.setdefault((one.position, unread), []).append(one)
    return list(map(_as_one, places.values()))


def _as_one(statements: Sequence[ColumnStatement]) -> ColumnStatement:
    all_of = reduce(_in_turn, statements)
    return replace(all_of, statement=";\n".join(one.statement for one in statements))


def _in_turn(first: _Altering, then: _Altering) -> _Altering:
    """Combine two changes into one that applies the first and then the second."""
    added = (*kept_columns(first.added, then.columns), *then.added)
    return replace(first, columns=in_turn(first.columns, then.columns), added=added)


def _of_statement(
    stated: Statement, ordered: Collection[Source], tables: KnownTables
) -> Iterator[tuple[Source, ColumnStatement]]:
    """Yield the column changes of a statement by table: the event's or, in a topic of schema
    changes, the statement's.

    `ordered`: the tables whose rows all have a position from the source.
    """
    source, text = stated.source, stated.text
    followed: dict[Source, Altered] = {}
    problem = None
    try:
        for one in map(_as_stored, altered(text)):
            of = _table_of(one, source, stated.lost, ordered, tables)
            followed[of] = _in_turn(followed.get(of, Altered("", ())), one)
    except UnreadableDdlError as unreadable:
        problem = str(unreadable)
        emit(
            f"{source.name}: a DDL statement that may rename or drop a column could not be "
            f"followed ({problem}); it is in sluice.renames, and changes nothing"
        )
    for of, one in followed.items():
        yield of, ColumnStatement(of.name, stated.at, one.columns, text, added=one.added)
    if problem is not None:
        yield source, ColumnStatement(source.name, stated.at, (), text, problem)


def _table_of(
    one: Altered, source: Source, lost: bool, ordered: Collection[Source], tables: KnownTables
) -> Source:
    """Return the table of a statement; raise UnreadableDdlError if it cannot be followed."""
    if not source.table or "," in source.table:
        of = named_by(one, source, tables)
    else:
        of = tables.one(source) if tables.as_typed else source
    if not of.table:
        raise UnreadableDdlError("neither it nor its event names a table")
    if lost and of in ordered and any(_names_since(one)):
        raise UnreadableDdlError("its place in the source's order is unknown")
    if not all(map(_is_legal, _names_since(one))):
        raise UnreadableDdlError("no column may have such a name")
    return of


def named_by(one: Altered, source: Source, tables: KnownTables) -> Source:
    """Return the table that a statement names, for an event that names none.

    It is in the event's schema unless the statement names another. In another schema, or if neither
    names one (a statement that Canal's parser cannot read), the table must have rows in the batch
    or be stored. Raises UnreadableDdlError if several tables match, or none has rows.
    """
    stated, here = one.schema.lower(), (source.database.lower(), source.schema.lower())
    if not one.table:
        return Source(source.database, source.schema, "")
    if any(here) and (not stated or stated in here):
        return tables.one(Source(source.database, source.schema, one.table))
    found = [
        other
        for other in tables.all()
        if other.table.lower() == one.table.lower()
        and stated in ("", (other.schema or other.database).lower())
    ]
    near = [other for other in found if other.database.lower() == here[0]] or found
    spelled = [other for other in near if other.table == one.table] or near
    if len(spelled) != 1:
        name = Source("", one.schema, one.table).name
        count = "there are several" if spelled else "there are no rows"
        raise UnreadableDdlError(f"it names {name}, of which {count}")
    return spelled[0]


def _names_since(altered: Altered) -> Iterator[str]:
    """Yield the names under which renamed and dropped columns are stored afterwards."""
    for old, new in altered.columns:
        if old is not None:
            yield new or names.dropped_column(old)


def _as_stored(one: Altered) -> Altered:
    """Return a change with the names that its columns have in the table."""
    columns = tuple((_stored(old), _stored(new)) for old, new in one.columns)
    added = tuple(column._replace(name=stored_name(column.name)) for column in one.added)
    return replace(one, columns=columns, added=added)


def _stored(name: str | None) -> str | None:
    return None if name is None else stored_name(name)


def _is_legal(name: str) -> bool:
    return is_column_name(name) and not is_reserved(name)
