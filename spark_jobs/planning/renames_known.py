"""The renames of a table's columns from statements, configuration and stored rows, and the columns
that they require."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache

from pyiceberg.catalog import Catalog

from sluice.column_renames import NOWHERE, Rename, Renames, in_order, name_at
from sluice.config.collations import source_name
from sluice.config.pipeline import Pipeline, TableConfig
from sluice.config.policies import EVOLVE, FAIL, STRING
from sluice.ddl.stated_names import in_case_of, may_be
from sluice.errors import ELSEWHERE, Evidence, PlanError
from sluice.ledger.changelogs import stored_sources
from sluice.ledger.column_log import ColumnStatement, recorded
from sluice.ledger.ledger import Ledger
from sluice.names import dropped_column
from sluice.types.columns import ColumnType, widest, widest_or_text
from spark_jobs.canonical import OP_DDL
from spark_jobs.planning.dropped import leaves_target
from spark_jobs.planning.key_names import KeyNames, key_names, without_key
from spark_jobs.planning.partial_hints import refuse_partial_hint
from spark_jobs.planning.plan import TablePlan
from spark_jobs.planning.planned_column import PlannedColumn
from spark_jobs.planning.renames import declared, reused_names, wanted
from spark_jobs.planning.stored_types import needs_description
from spark_jobs.planning.table_summary import Source, TableSummary
from spark_jobs.planning.targets import table_config


def renames_from(statements: Iterable[ColumnStatement], config: TableConfig) -> Renames:
    """Return the renames of one table's statements, in the source's order.

    A dropped column whose name another column gets later counts as renamed, since an event below
    the drop does not mean the new column. If dropped columns leave the target, each of them goes
    NOWHERE. This does not hold for a table of several sources, each of which has columns of its
    own.
    """
    statements, leave = list(statements), leaves_target(config)
    added = [
        (new.lower(), one.position)
        for one in statements
        for _, new in one.columns
        if new is not None and not config.sources
    ]
    pairs = ((one.position, tuple(_pairs(one, added, leave))) for one in statements)
    return in_order(Rename(below, columns) for below, columns in pairs if columns)


def _pairs(
    one: ColumnStatement, added: Iterable[tuple[str, str]], leave: bool
) -> Iterator[tuple[str, str]]:
    for old, new in one.columns:
        if old is not None and new is not None:
            yield old, new
        elif old is not None and leave:
            yield old, NOWHERE
        elif old is not None and any(n == old.lower() and at >= one.position for n, at in added):
            yield old, dropped_column(old)


def published(catalog: Catalog, pipeline: str) -> list[ColumnStatement]:
    """Return the statements in the published batches of a pipeline."""
    statements = recorded(catalog, pipeline)
    counted = Ledger(catalog).of(pipeline).batches.published() if statements else ()
    return [one for one in statements if one.batch_id in counted]


def follows_renames(pipeline: Pipeline) -> bool:
    """Whether columns that the source renames get their new names in the target."""
    return pipeline.on_schema_change == EVOLVE


def renames_matter(pipeline: Pipeline) -> bool:
    """Whether renames matter to the pipeline: it follows them, or fails."""
    return follows_renames(pipeline) or pipeline.on_schema_change == FAIL


def refuse_renames(
    pipeline: Pipeline, source: Source, statements: Iterable[ColumnStatement]
) -> None:
    """Raise PlanError if a batch renames columns and on_schema_change is fail."""
    pairs = [
        (old, new)
        for one in statements
        for old, new in one.columns
        if old is not None and new is not None
    ]
    renames = [f"{old} to {new}" for old, new in pairs]
    if renames and pipeline.on_schema_change == FAIL:
        raise PlanError(
            f"table {source.name}: renamed {', '.join(renames)}, and on_schema_change is fail; set "
            "it to evolve to follow, or to additive to keep both columns",
            evidence=Evidence([old for old, _ in pairs], op=OP_DDL),
        )


def renames_of(
    pipeline: Pipeline, config: TableConfig, statements: Iterable[ColumnStatement]
) -> Renames | None:
    """Return a table's renames from statements and configuration; None if they are not followed."""
    if not follows_renames(pipeline):
        return None
    return in_order(renames_from(statements, config), declared(config.renamed_columns))


def names_at_source(
    pipeline: Pipeline,
    statements: Iterable[ColumnStatement],
    others: Callable[[], Collection[str]],
    source: str,
    key: Collection[str],
) -> KeyNames:
    """Return the other names that the columns of a stored key have, or had, at a source table.

    `others`: the stored source tables.
    """
    of_source = of_table(statements, source, pipeline.wire.ddl_as_typed, others)
    table = Source("", "", source)
    renames = renames_of(pipeline, table_config(pipeline, table) or TableConfig(), of_source)
    return key_names(TableSummary(table), map(source_name, key), renames or (), of_source)


def following(
    pipeline: Pipeline, plan: TablePlan, renames: Renames | None, stored: Collection[str]
) -> TablePlan:
    """Return the plan with the columns that renames require, if the pipeline follows them.

    A current name gets a type that holds the values of the former names. If it has no type of its
    own and is not `stored`, its values are read as theirs. Raises PlanError if there is no such
    type, if a column of the key is renamed, since the key identifies rows, and if values of a
    dropped column would mix with another's.
    """
    if renames is None:
        return plan
    texts, before = pipeline.on_type_change == STRING, None
    columns = {column.name: column for column in plan.columns}
    renaming = _Renaming(plan, renames, pipeline.wire.folds_case, stored, texts)
    while columns != before:  # an added or widened column may be a former name of another
        before, columns = columns, renaming.step(columns)
    stated = declared(plan.config.renamed_columns)
    return replace(plan, columns=tuple(columns.values()), declared=stated, renames=renames)


@dataclass(frozen=True)
class _Renaming:
    """The renames of a plan's columns.

    `folds_case`: statements may spell names in another case than events; `texts`: types that do not
    fit together are stored as text.
    """

    plan: TablePlan
    renames: Renames
    folds_case: bool
    stored: Collection[str]
    texts: bool

    def step(self, columns: Mapping[str, PlannedColumn]) -> dict[str, PlannedColumn]:
        """Return the columns together with those of current names."""
        names = wanted(without_key(self.renames, self.plan.key), columns)
        spelled = _spelled(names, columns, self.renames if self.folds_case else ())
        again, result = reused_names(self.renames), dict(columns)
        for name, former in names.items():
            kept = spelled[name.lower()]
            _refuse_key(self.plan, (kept, *former))
            if kept in self.plan.summary.columns and any(kept == dropped_column(n) for n in former):
                raise PlanError(_taken(self.plan, kept))
            there, were = result.get(kept), [result[n] for n in former]
            stated = there if there and (kept in self.stored or there.has_type) else None
            if stated is not None:
                refuse_partial_hint(self.plan, stated, were)
            two = again.intersection(n.lower() for n in (kept, *former))
            join = widest_or_text if self.texts or two else widest
            column = _holding(self.plan, kept, were, stated, join)
            result[kept] = replace(column, others=there.others if there else ())
        return result


def _spelled(
    names: Mapping[str, Iterable[str]], columns: Iterable[str], renames: Renames
) -> dict[str, str]:
    """Return current name in lower case → its spelling: that of the existing column,
    else `_cased`."""
    found = {name.lower(): name for name in columns}
    for name, former in names.items():
        found.setdefault(name.lower(), _cased(name, former, renames))
    return found


def _cased(name: str, former: Iterable[str], renames: Renames) -> str:
    """Return a name from a statement in the case in which the source will send it, judged by how it
    sent the former names (Oracle: `title` arrives as `TITLE`)."""
    typed = {old for rename in renames for old, _ in rename.columns}
    for known in former:
        for old in sorted(one for one in typed if one.lower() == known.lower()):
            if name == dropped_column(old):
                return dropped_column(known)
            name = in_case_of(name, old, known)
    return name


def _taken(plan: TablePlan, name: str) -> str:
    return (
        f"table {plan.source.name}: a column was dropped and one of its name added since, so its "
        f"values go to {name!r}, but the source has a column of that name; set on_schema_change: "
        "additive, which does not tell the two columns apart"
    )


def _refuse_key(plan: TablePlan, columns: Sequence[str]) -> None:
    if plan.identity.intersection(columns):
        raise PlanError(
            f"table {plan.source.name}: columns {sorted(columns)} are one that was renamed, and "
            f"the key is {list(plan.key)}: by another key its rows are others. Set "
            "on_schema_change: additive, which follows no renames, or, with the new `key`, "
            f"{ELSEWHERE}",
            evidence=Evidence(columns, op=OP_DDL),
        )


def _holding(
    plan: TablePlan,
    name: str,
    former: Sequence[PlannedColumn],
    there: PlannedColumn | None,
    join: Callable[[ColumnType, ColumnType], ColumnType | None],
) -> PlannedColumn:
    kinds = [column.stored for column in ([there] if there else []) + list(former)]
    result: ColumnType | None = kinds[0]
    for kind in kinds[1:]:
        result = None if result is None else join(result, kind)
    if result is None:
        raise PlanError(
            f"table {plan.source.name}: column {name!r} was called {[c.name for c in former]} "
            f"before, and {' and '.join(kind.spark for kind in kinds)} do not fit together; hint "
            f"a type that holds both in `columns:`, or have the text of both stored "
            "(on_type_change: string), which bytes have none of, or set on_schema_change: "
            "additive, which follows no renames"
        )
    if there is None:
        return PlannedColumn(name, result, _as_read(former[0].readings, result))
    return replace(there, stored=result)


def _as_read(
    former: Mapping[int | None, ColumnType], stored: ColumnType
) -> Mapping[int | None, ColumnType]:
    """Return how a column is read that events do not describe, by the `former` name's readings."""
    if None not in former and any(map(needs_description, former.values())):
        return former
    return {None: former.get(None, stored)}


def statements_on(
    catalog: Catalog, pipeline: str, plan: TablePlan, batches: Collection[str]
) -> list[ColumnStatement]:
    """Return the statements of some batches that concern a plan's table."""
    statements = (one for one in recorded(catalog, pipeline) if one.batch_id in batches)
    stored = cache(lambda: stored_sources(catalog, pipeline, plan.namespace).values())
    return of_table(statements, plan.source.name, plan.as_typed, stored)


def of_table(
    statements: Iterable[ColumnStatement],
    source: str,
    as_typed: bool,
    others: Callable[[], Collection[str]],
) -> list[ColumnStatement]:
    """Return the statements that concern a source table.

    A statement from before the table was known has its name as typed. It counts if it can mean no
    other of the tables.
    """
    return [
        one
        for one in statements
        if one.source_table == source or (as_typed and may_be(one.source_table, source, others))
    ]


def known_renames(plan: TablePlan, stated: Renames, before: Renames) -> Renames:
    """Return a table's renames from its statements, its configuration and its stored rows.

    Renames to a name that no column has yet are left out: the next batch's plan adds the column.
    """
    if plan.declared is None:
        return before
    renames = in_order(before, without_key(in_order(stated, plan.declared), plan.key))
    columns = {column.name.lower() for column in plan.columns}
    return tuple(rename for rename in renames if _arrives(rename, renames, columns))


def _arrives(rename: Rename, renames: Renames, columns: set[str]) -> bool:
    later = [r for r in renames if r.below >= rename.below]
    former = (old for old, _ in rename.columns if old.lower() in columns)
    return all(name_at(later, old, "").lower() in {NOWHERE, *columns} for old in former)
