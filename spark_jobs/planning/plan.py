"""The plan of one source table of a batch: its target, key and columns."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from sluice.column_renames import Renames
from sluice.config.collations import rules
from sluice.config.pipeline import Pipeline, TableConfig
from sluice.config.policies import FAIL, IGNORE
from sluice.config.source_tables import truncate_policy
from sluice.errors import ELSEWHERE, Evidence, PlanError, UnknownKeyError
from sluice.modes import APPEND, CURRENT, HISTORY, SOFT_DELETE, needs_key, target_metadata
from sluice.names import (
    IS_DELETED,
    OWN_COLUMNS,
    POSITION,
    full_name,
)
from sluice.source_names import is_reserved, stored_name
from spark_jobs.canonical import OP_TRUNCATE
from spark_jobs.formats.base import Format
from spark_jobs.planning import defaults
from spark_jobs.planning.additions import Additions
from spark_jobs.planning.defaults import Defaults
from spark_jobs.planning.descriptions import as_read
from spark_jobs.planning.opening import Opening, opening_of
from spark_jobs.planning.planned_column import PlannedColumn, key_by_rules
from spark_jobs.planning.shown_columns import shown_columns
from spark_jobs.planning.table_inputs import (
    StoredTable,
    TableInputs,
    column_names,
    gather_inputs,
    planned_columns,
)
from spark_jobs.planning.table_summary import Source, TableSummary
from spark_jobs.planning.targets import target_name
from spark_jobs.planning.type_split import NO_SPLIT, TypeSplit


@dataclass(frozen=True)
class TablePlan:
    """One source table of the batch and its target.

    `opening`: set in an epoch that begins with a full load. `declared`: the renames of the
    configuration, None if the pipeline follows none; `renames` and `additions`: all that were known
    when the plan was made. `may_go`: the columns that leave the target unless a change has a value
    in them. `describes_defaults`: see `Format`; `as_typed`: statements name the table as their
    author typed it.
    """

    source: Source
    namespace: str
    target: str
    columns: tuple[PlannedColumn, ...]
    key: tuple[str, ...]
    config: TableConfig
    summary: TableSummary
    modes: tuple[str, ...] = (CURRENT,)
    defaults: Defaults = field(default_factory=dict)
    additions: Additions = ()
    describes_defaults: bool = False
    as_typed: bool = False
    opening: Opening | None = None
    declared: Renames | None = None
    renames: Renames = ()
    may_go: tuple[str, ...] = ()
    type_split: TypeSplit = NO_SPLIT

    @property
    def follows(self) -> bool:
        """Whether the pipeline follows changes of existing columns."""
        return self.declared is not None

    @property
    def described(self) -> bool:
        """Whether the table's events may carry defaults of columns."""
        return self.describes_defaults and bool(self.summary.types)

    @property
    def history(self) -> bool:
        """Whether a history table keeps the versions of every row."""
        return HISTORY in self.modes

    @property
    def append(self) -> bool:
        """Whether a table of events keeps every event."""
        return APPEND in self.modes

    @property
    def soft_delete(self) -> bool:
        """Whether deleted rows stay in the target, marked."""
        return SOFT_DELETE in self.modes

    @property
    def keyed(self) -> bool:
        """Whether the table has a key; without one, rows are counted by content."""
        return bool(self.key)

    @property
    def row_key(self) -> tuple[str, ...]:
        """The columns that identify a row of the target: without a key, its position."""
        return self.key or (POSITION,)

    @property
    def data(self) -> list[str]:
        """The names of the columns, in order."""
        return [c.name for c in self.columns]

    @property
    def types(self) -> dict[str, str]:
        """The stored Spark type of each column."""
        return {c.name: c.stored.spark for c in self.columns}

    @property
    def key_columns(self) -> tuple[PlannedColumn, ...]:
        """The columns of the key, in the key's order."""
        return tuple(c for n in self.key for c in self.columns if c.name == n)

    @property
    def null_misfits(self) -> tuple[PlannedColumn, ...]:
        """The columns in which NULL replaces a value that does not fit."""
        named = {name.lower() for name in self.config.null_misfits}
        return tuple(c for c in self.columns if not named.isdisjoint(map(str.lower, c.spellings)))

    @property
    def identity(self) -> frozenset[str]:
        """The key's columns, and the source's columns that they compare."""
        return frozenset((*self.key, *(c.source_name for c in self.key_columns)))

    @property
    def name(self) -> str:
        """Namespace and table, for messages."""
        return full_name(self.namespace, self.target)


def plan_table(
    pipeline: Pipeline, fmt: Format, summary: TableSummary, config: TableConfig, stored: StoredTable
) -> TablePlan:
    """Plan one table."""
    _refuse_truncates(pipeline, summary, config)
    inputs = gather_inputs(pipeline, fmt, summary, config, stored)
    names = column_names(inputs, stored.types)
    if stored.types:
        names = _by_policy(pipeline, summary, names, stored.types)
    key = _key(pipeline, inputs, names)
    columns = planned_columns(inputs, names)
    read = as_read(inputs.described, columns)
    compared = rules(inputs.hints.collations, inputs.hints.null_keys)
    key, columns = key_by_rules(
        summary.source.name, key, columns, compared, whole_rows=fmt.whole_rows
    )
    plan = TablePlan(
        source=summary.source,
        namespace=pipeline.namespace,
        target=target_name(pipeline, summary.source),
        columns=columns,
        key=key,
        config=config.model_copy(update={"partition_by": inputs.hints.partition_by}),
        summary=summary,
        modes=pipeline.modes_of(config),
        defaults=defaults.of_batch(inputs.summary, read, pipeline.epoch, fmt.describes_defaults),
        describes_defaults=fmt.describes_defaults,
        as_typed=pipeline.wire.ddl_as_typed,
        opening=opening_of(pipeline),
        type_split=inputs.type_split,
    )
    _refuse_unfit(plan, names, stored)
    return plan


def _refuse_truncates(pipeline: Pipeline, summary: TableSummary, config: TableConfig) -> None:
    if summary.truncates and truncate_policy(pipeline, config) == FAIL:
        raise PlanError(
            f"table {summary.source.name}: a TRUNCATE came, and on_truncate is fail; set it to "
            "apply or ignore and run again",
            evidence=Evidence(op=OP_TRUNCATE),
        )


def _by_policy(
    pipeline: Pipeline, summary: TableSummary, names: list[str], existing: Mapping[str, str]
) -> list[str]:
    new = [n for n in names if n not in existing]
    if new and pipeline.on_schema_change == FAIL:
        raise PlanError(
            f"table {summary.source.name}: new columns {new}, and on_schema_change is fail; "
            "set it to additive or evolve to add them",
            evidence=Evidence(new),
        )
    return [n for n in names if n in existing] if pipeline.on_schema_change == IGNORE else names


def _key(pipeline: Pipeline, inputs: TableInputs, names: list[str]) -> tuple[str, ...]:
    summary = inputs.summary
    if inputs.key is None:
        raise UnknownKeyError(*_no_key(pipeline, summary))
    missing = [c for c in inputs.key if c not in names]
    if missing:
        lacks = "have no type, and no row has come yet"
        if summary.images:
            lacks = f"are not in its events, which {_told(summary, names)}"
        raise UnknownKeyError(
            f"table {summary.source.name}: key columns {missing} {lacks}; name others in `key:`, "
            "or give these a type in `columns:` where the first event is a TRUNCATE; where the "
            "source renamed them, tell it in `renamed_columns:`"
        )
    return inputs.key


def _told(summary: TableSummary, names: list[str]) -> str:
    """Return which columns the events have, and which key they tell, if any."""
    keys = " or ".join(str([*key]) for key in sorted({*summary.keys.values()})[:3])
    return f"have {shown_columns(names)}{f' and tell the key {keys}' if keys else ''}"


def _no_key(pipeline: Pipeline, summary: TableSummary) -> Iterator[str]:
    """Yield the lines of the error of a table whose key nobody tells."""
    candidates = ", ".join(sorted(summary.columns)[:8])
    offered = f"of {candidates}; " if candidates else ""
    typed = pipeline.wire.ddl_as_typed and not summary.images
    spelled = "; list it as its rows spell it, which a statement may not" if typed else ""
    others = "   # with `tables:` these alone are loaded: list all others, too"
    yield (f"no key is known for table {summary.source.name}. Add to the file of {pipeline.name}:")
    yield f"tables:{others if pipeline.tables is None else ''}"
    yield f"  {summary.source.name}: {{key: [<columns>]}}   # {offered}[] for none{spelled}"


def _refuse_unfit(plan: TablePlan, names: list[str], stored: StoredTable) -> None:
    """Raise PlanError if the plan does not fit the stored table or the modes; `names`: as
    at the source."""
    _refuse_other_key(plan, stored.key)
    _refuse_reserved(plan, names)
    _refuse_null_keys(plan)
    if not stored.types:
        _refuse_partitions(plan)
    _refuse_modes(plan, stored.types)


def _refuse_other_key(plan: TablePlan, stored: tuple[str, ...] | None) -> None:
    if stored is not None and plan.key != stored:
        names = [column.source_name for column in plan.key_columns]
        keys = _telling(plan.summary, names)
        raise PlanError(
            f"table {plan.source.name}: the key is {list(plan.key)}, but the stored table has "
            f"{list(stored)}; take back what `key` and `collations` say, or {ELSEWHERE}",
            evidence=Evidence(names, keys=keys) if keys else None,
        )


def _telling(summary: TableSummary, key: Iterable[str]) -> list[int]:
    """Return the keys in events that have these columns, by short name."""
    columns = {name.lower() for name in key}
    told = {i: {stored_name(n).lower() for n in names} for i, names in summary.keys.items()}
    return [ident for ident, names in told.items() if names == columns]


def _refuse_reserved(plan: TablePlan, names: list[str]) -> None:
    reserved = sorted(filter(is_reserved, names))
    if reserved:
        raise PlanError(
            f"table {plan.source.name}: columns {reserved} have names that begin with "
            f"{OWN_COLUMNS}, as Sluice's own do",
            evidence=Evidence(reserved),
        )


def _refuse_null_keys(plan: TablePlan) -> None:
    if keyed := [c.name for c in plan.null_misfits if c.name in plan.identity]:
        raise PlanError(
            f"table {plan.source.name}: `null_misfits` names {keyed} of its key, without which "
            "nobody knows a row; take them out"
        )


def _refuse_partitions(plan: TablePlan) -> None:
    named, own = [p.column for p in plan.config.partitions], target_metadata(plan.modes)
    if others := [n for n in named if n not in plan.data and n.lower() not in own]:
        raise PlanError(
            f"table {plan.source.name}: partition_by names {others}, and its columns are "
            f"{sorted(plan.data)}"
        )


def _refuse_modes(plan: TablePlan, existing: Mapping[str, str]) -> None:
    if not plan.key and needs_key(plan.modes):
        raise PlanError(
            f"table {plan.source.name}: {', '.join(needs_key(plan.modes))} in `modes` needs a key, "
            "and the table has none; name one in `key` or take the mode out"
        )
    if IS_DELETED in existing and SOFT_DELETE not in plan.modes:
        raise PlanError(
            f"table {plan.source.name}: its target holds soft-deleted rows, which mode {CURRENT} "
            f"would show as living ones; keep soft_delete in `modes`, or {ELSEWHERE}"
        )
