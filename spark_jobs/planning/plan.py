"""The plan of a batch: for every source table its target, key and columns."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from sluice.config.collations import rules, source_name
from sluice.config.policies import FAIL, IGNORE
from sluice.config.project import Pipeline, TableConfig
from sluice.config.sourcetables import listed_name, truncate_policy
from sluice.errors import ELSEWHERE, PlanError
from sluice.modes import APPEND, CURRENT, HISTORY, SOFT_DELETE, needs_key
from sluice.names import (
    IS_DELETED,
    OWN_COLUMNS,
    RESERVED_COLUMNS,
    events_table,
    full_name,
    history_table,
)
from sluice.sourcenames import ICEBERG_COLUMNS
from spark_jobs.formats.base import Format
from spark_jobs.planning import defaults
from spark_jobs.planning.additions import Additions
from spark_jobs.planning.besides import NOTHING_BESIDE, Besides, besides
from spark_jobs.planning.defaults import Defaults
from spark_jobs.planning.descriptions import as_read, descriptions, refuse_too_many_columns
from spark_jobs.planning.discover import Found, Source
from spark_jobs.planning.keynames import NO_NAMES, KeyNames
from spark_jobs.planning.opening import Opening, opening_of
from spark_jobs.planning.plannedcolumn import PlannedColumn, key_by_rules
from spark_jobs.planning.renames import Renames
from spark_jobs.planning.spelling import Described, Spelling, spelling
from spark_jobs.planning.storedtypes import KnownTypes, planned

_RESERVED: Final = RESERVED_COLUMNS | ICEBERG_COLUMNS


@dataclass(frozen=True)
class TablePlan:
    """One source table of the batch and where it goes; `opening`: its epoch is a full load.

    `declared`: the renames that the configuration tells, None where the pipeline follows none;
    `renames` and `additions`: all that were known when the plan was made. `tells_defaults`: as its
    format says.
    """

    source: Source
    namespace: str
    target: str
    columns: tuple[PlannedColumn, ...]
    key: tuple[str, ...]
    config: TableConfig
    found: Found
    modes: tuple[str, ...] = (CURRENT,)
    defaults: Defaults = field(default_factory=dict)
    additions: Additions = ()
    tells_defaults: bool = False
    opening: Opening | None = None
    declared: Renames | None = None
    renames: Renames = ()
    besides: Besides = NOTHING_BESIDE

    @property
    def follows(self) -> bool:
        """Whether the pipeline follows what changes columns that are there."""
        return self.declared is not None

    @property
    def described(self) -> bool:
        """Whether its events may name the defaults of columns."""
        return self.tells_defaults and bool(self.found.types)

    @property
    def history(self) -> bool:
        """True where the versions of every row are kept in a table of their own."""
        return HISTORY in self.modes

    @property
    def append(self) -> bool:
        """True where every event is kept in a table of its own."""
        return APPEND in self.modes

    @property
    def soft_delete(self) -> bool:
        """True where deleted rows stay in the target, marked."""
        return SOFT_DELETE in self.modes

    @property
    def keyed(self) -> bool:
        """False for `key: []`: rows count by content, not by key."""
        return bool(self.key)

    @property
    def data(self) -> list[str]:
        """The names of its columns, in their order."""
        return [c.name for c in self.columns]

    @property
    def types(self) -> dict[str, str]:
        """The Spark type that each of its columns is stored as."""
        return {c.name: c.stored.spark for c in self.columns}

    @property
    def key_columns(self) -> tuple[PlannedColumn, ...]:
        """The columns of the key, in its order."""
        return tuple(c for n in self.key for c in self.columns if c.name == n)

    @property
    def identity(self) -> frozenset[str]:
        """The key's columns, and those of the source whose texts are compared in them."""
        return frozenset((*self.key, *(c.source_name for c in self.key_columns)))

    @property
    def name(self) -> str:
        """Namespace and table, for messages."""
        return full_name(self.namespace, self.target)


def table_config(pipeline: Pipeline, source: Source) -> TableConfig | None:
    """The configuration of a source table: by its full name or the end of it.

    None where the pipeline lists tables and this one is not among them, or not chosen for the run.
    """
    if pipeline.tables is None:
        return TableConfig()
    name = listed_name(pipeline.tables, source.name)
    return pipeline.tables[name] if name is not None and pipeline.loads(name) else None


def target_name(pipeline: Pipeline, source: Source) -> str:
    """The target's name by the pipeline's `table_name` template."""
    return pipeline.table_name.format(
        database=source.database, schema=source.schema, table=source.table
    )


def plan_table(
    pipeline: Pipeline,
    fmt: Format,
    found: Found,
    config: TableConfig,
    existing: Mapping[str, str] | None,
    stored_key: tuple[str, ...] | None,
    used_again: Collection[str] = (),
    key_names: KeyNames = NO_NAMES,
) -> TablePlan:
    """Plan one table; `existing` maps the stored columns to Spark types, None: no table yet.

    `used_again`: in lower case, names that two columns of the source had, one after the other.
    """
    _refuse_truncates(pipeline, found, config)
    stored = _Stored(existing or {}, stored_key, used_again, key_names)
    heard = _hear(pipeline, fmt, found, config, stored)
    names = _column_names(heard, existing or {})
    if existing is not None:
        names = _by_policy(pipeline, found, names, existing)
    key = _key(pipeline, heard, names)
    columns = _planned(heard, names)
    read = as_read(heard.described, columns)
    compared = rules(heard.hints.collations, heard.hints.null_keys)
    key, columns = key_by_rules(found.source.name, key, columns, compared)
    plan = TablePlan(
        source=found.source,
        namespace=pipeline.namespace,
        target=target_name(pipeline, found.source),
        columns=columns,
        key=key,
        config=config,
        found=found,
        modes=pipeline.modes_of(config),
        defaults=defaults.told(heard.found, read, pipeline.epoch, fmt.tells_defaults),
        tells_defaults=fmt.tells_defaults,
        opening=opening_of(pipeline),
        besides=heard.besides,
    )
    _refuse_unfit(plan, names, existing or {}, stored_key)
    return plan


@dataclass(frozen=True)
class _Stored:
    """The table that is there: its columns' types and its key; `used_again` and `key_names` as in
    `plan_table`."""

    types: Mapping[str, str]
    key: tuple[str, ...] | None
    used_again: Collection[str]
    key_names: KeyNames


@dataclass(frozen=True)
class _Heard:
    """What the events and the configuration tell of a table, in the spelling of its columns."""

    described: Described
    found: Found
    hints: TableConfig
    spelled: Spelling
    types: KnownTypes
    besides: Besides
    key: tuple[str, ...] | None


def _hear(
    pipeline: Pipeline, fmt: Format, found: Found, config: TableConfig, stored: _Stored
) -> _Heard:
    told = descriptions(fmt, found, pipeline.format_options)
    spelled = spelling(found, told, stored.types, stored.key_names)
    described, known = spelled.of_described(told), spelled.of_found(found)
    hints = spelled.of_config(config)
    policy = pipeline.on_type_change
    ddl = spelled.of_ddl(pipeline.ddl_table(found.source.name), fmt.plain)
    types = KnownTypes(
        found.source.name, hints.columns, stored.types, policy, stored.used_again, ddl.columns
    )
    key = _told_key(hints, known, stored.key, ddl.key)
    beside = besides(known, described, types, spelled, key or ())
    moved, spelled = beside.of_described(described), beside.of_spelling(spelled)
    refuse_too_many_columns(pipeline, found.source, {n for one in moved.values() for n in one})
    return _Heard(moved, known, hints, spelled, types, beside, key)


def _planned(heard: _Heard, names: Iterable[str]) -> tuple[PlannedColumn, ...]:
    columns = (planned(name, heard.described, heard.types) for name in names)
    return tuple(_as_heard(column, heard.spelled) for column in columns)


def _as_heard(column: PlannedColumn, spelled: Spelling) -> PlannedColumn:
    of_key = column.name.lower() in spelled.key_names
    return replace(column, others=spelled.others(column.name), silent=of_key)


def _refuse_truncates(pipeline: Pipeline, found: Found, config: TableConfig) -> None:
    if found.truncates and truncate_policy(pipeline, config) == FAIL:
        raise PlanError(
            f"table {found.source.name}: a TRUNCATE came, and on_truncate is fail; set it to apply "
            "or ignore and run again, or roll the batch back to go on without its files"
        )


def _column_names(heard: _Heard, existing: Mapping[str, str]) -> list[str]:
    """Stored columns first, then described ones in their order, then the rest by name.

    Of a table of which no row has come, but a TRUNCATE, those that have hints, and its key: what
    a script tells of the others, events may describe otherwise.
    """
    names = dict.fromkeys(n for n in existing if not is_reserved(n))
    for columns in heard.described.values():
        names.update(dict.fromkeys(columns))
    found = heard.found
    bare = not found.images and not names
    names.update(dict.fromkeys(c for c in heard.hints.columns if bare or c in found.columns))
    wanted = {*found.columns, *(heard.key or () if bare else ())}
    names.update(dict.fromkeys(c for c in heard.types.ddl if c in wanted))
    names.update(dict.fromkeys(sorted(found.columns)))
    return list(names)


def _by_policy(
    pipeline: Pipeline, found: Found, names: list[str], existing: Mapping[str, str]
) -> list[str]:
    new = [n for n in names if n not in existing]
    if new and pipeline.on_schema_change == FAIL:
        raise PlanError(
            f"table {found.source.name}: new columns {new}, and on_schema_change is fail; "
            "set it to additive or evolve to add them"
        )
    return [n for n in names if n in existing] if pipeline.on_schema_change == IGNORE else names


def is_reserved(name: str) -> bool:
    """True for a name that Sluice or Iceberg keeps for itself."""
    return name in _RESERVED or name.startswith(OWN_COLUMNS)


def _told_key(
    hints: TableConfig, found: Found, stored: tuple[str, ...] | None, ddl: tuple[str, ...]
) -> tuple[str, ...] | None:
    """The key's columns by the configuration, the events, the stored table or a script of DDL;
    None: nobody says."""
    told = hints.key
    if told is None and found.keys:
        told = list(max((len(key), key) for key in found.keys.values())[1])
    known = None if stored is None else tuple(map(source_name, stored))
    # Events may name the columns of one key in another order.
    if known is not None and (told is None or (len(told), {*told}) == (len(known), {*known})):
        return known
    return (ddl or None) if told is None else tuple(told)


def _key(pipeline: Pipeline, heard: _Heard, names: list[str]) -> tuple[str, ...]:
    found = heard.found
    if heard.key is None:
        raise PlanError(_no_key(pipeline, found))
    missing = [c for c in heard.key if c not in names]
    if missing:
        lacks = "are not in its events" if found.images else "have no type, and no row has come yet"
        raise PlanError(
            f"table {found.source.name}: key columns {missing} {lacks}; name others in `key:`, or "
            "give these a type in `columns:` where the first event is a TRUNCATE; where the source "
            "renamed them, tell it in `renamed_columns:`"
        )
    return heard.key


def _no_key(pipeline: Pipeline, found: Found) -> str:
    candidates = ", ".join(sorted(found.columns)[:8])
    others = "   # with `tables:` these alone are loaded: list all others, too"
    return (
        f"nobody tells the key of table {found.source.name}. "
        f"Add to pipelines/{pipeline.name}.yaml:\n"
        f"tables:{others if pipeline.tables is None else ''}\n"
        f"  {found.source.name}: {{key: [<columns>]}}   # of {candidates}; [] for none"
    )


def _refuse_unfit(
    plan: TablePlan,
    names: list[str],
    existing: Mapping[str, str],
    stored_key: tuple[str, ...] | None,
) -> None:
    """Refuse what the stored table or its modes cannot take; `names`: the source's own columns."""
    _refuse_other_key(plan, stored_key)
    _refuse_reserved(plan, names)
    if not existing:
        _refuse_partitions(plan, names)
    _refuse_modes(plan, existing)


def _refuse_other_key(plan: TablePlan, stored: tuple[str, ...] | None) -> None:
    if stored is not None and plan.key != stored:
        raise PlanError(
            f"table {plan.source.name}: the key is {list(plan.key)}, but the stored table has "
            f"{list(stored)}; take back what `key` and `collations` say, or {ELSEWHERE}"
        )


def _refuse_reserved(plan: TablePlan, names: list[str]) -> None:
    reserved = sorted(filter(is_reserved, names))
    if reserved:
        raise PlanError(
            f"table {plan.source.name}: columns {reserved} have names that Sluice and Iceberg "
            "keep for themselves"
        )


def _refuse_partitions(plan: TablePlan, names: list[str]) -> None:
    named = [p.column for p in plan.config.partitions]
    if others := [n for n in named if n not in names and not is_reserved(n)]:
        raise PlanError(
            f"table {plan.source.name}: partition_by names {others}, and its columns are "
            f"{sorted(names)}"
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


def refuse_shared_targets(plans: list[TablePlan]) -> None:
    """Two sources of one table would overwrite each other's rows; raises PlanError."""
    seen: dict[str, TablePlan] = {}
    for plan in plans:
        for name in _written(plan):
            other = seen.setdefault(name.lower(), plan)
            if other is not plan:
                raise PlanError(
                    f"tables {other.source.name} and {plan.source.name} both go to "
                    f"{full_name(plan.namespace, name)}: "
                    "tell them apart in `table_name`, for example {database}_{table}"
                )


def _written(plan: TablePlan) -> list[str]:
    modes = ((plan.history, history_table), (plan.append, events_table))
    return [plan.target, *(name(plan.target) for asked, name in modes if asked)]
