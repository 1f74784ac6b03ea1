"""What a table's plan is made from: events, configuration and scripts of DDL, with columns spelled
as in the table."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from sluice.config.collations import source_name
from sluice.config.pipeline import Pipeline, TableConfig
from sluice.modes import target_metadata
from sluice.source_names import is_reserved
from spark_jobs.formats.base import Format
from spark_jobs.planning.descriptions import descriptions, refuse_too_many_columns
from spark_jobs.planning.other_names import NOTHING_RENAMED, KnownNames
from spark_jobs.planning.planned_column import PlannedColumn
from spark_jobs.planning.spelling import Described, Spelling, spelling
from spark_jobs.planning.stored_types import KnownTypes, planned, refuse_foreign_types
from spark_jobs.planning.table_summary import TableSummary
from spark_jobs.planning.type_split import TypeSplit, split_by_type


@dataclass(frozen=True)
class StoredTable:
    """The stored table: its columns' Spark types (empty if there is no table yet), its key, the
    columns' former names, and the descriptions in events of earlier batches."""

    types: Mapping[str, str] = field(default_factory=dict)
    key: tuple[str, ...] | None = None
    names: KnownNames = NOTHING_RENAMED
    described: Mapping[int, str] = field(default_factory=dict)


@dataclass(frozen=True)
class TableInputs:
    """A table's events, configuration and scripts, with columns spelled as in the table."""

    described: Described
    summary: TableSummary
    hints: TableConfig
    spelled: Spelling
    types: KnownTypes
    type_split: TypeSplit
    key: tuple[str, ...] | None


def gather_inputs(
    pipeline: Pipeline, fmt: Format, summary: TableSummary, config: TableConfig, stored: StoredTable
) -> TableInputs:
    """Combine everything that is known of a table's columns and key.

    Raises PlanError if its events describe too many columns, or types that `on_type_change` cannot
    place, or if the stored table has columns of types that only another writer makes.
    """
    refuse_foreign_types(summary.source.name, stored.types)
    as_described = descriptions(fmt, summary, pipeline.format_options)
    spelled = spelling(summary, as_described, stored.types, stored.names.of_key)
    described, respelled = spelled.of_described(as_described), spelled.of_summary(summary)
    hints = spelled.of_config(config, target_metadata(pipeline.modes_of(config)))
    unseen = {i: text for i, text in stored.described.items() if i not in summary.types}
    earlier = descriptions(fmt, replace(summary, types=unseen), pipeline.format_options)
    ddl = spelled.of_ddl(pipeline.ddl_table(summary.source.name), fmt.plain)
    types = KnownTypes(
        table=summary.source.name,
        hints=hints.columns,
        stored=stored.types,
        on_type_change=pipeline.on_type_change,
        reused_names=stored.names.reused_names,
        ddl=ddl.columns,
        other_names=stored.names.other_names,
        undescribed=bool(summary.images) and not any(as_described.values()),
        earlier={**spelled.of_described(earlier), **described},
        bytes_as=fmt.bytes_as,
    )
    key = _key(hints, respelled, stored.key, ddl.key)
    beside = split_by_type(respelled, described, types, spelled, key or ())
    columns, spelled = beside.of_described(described), beside.of_spelling(spelled)
    refuse_too_many_columns(pipeline, summary.source, {n for one in columns.values() for n in one})
    return TableInputs(columns, respelled, hints, spelled, types, beside, key)


def planned_columns(inputs: TableInputs, names: Iterable[str]) -> tuple[PlannedColumn, ...]:
    """Plan the columns of these names: their types, and how events carry them."""
    columns = (planned(name, inputs.described, inputs.types) for name in names)
    return tuple(_as_carried(column, inputs.spelled) for column in columns)


def _as_carried(column: PlannedColumn, spelled: Spelling) -> PlannedColumn:
    of_key = column.name.lower() in spelled.key_names
    return replace(column, others=spelled.others(column.name), silent=of_key)


def column_names(inputs: TableInputs, existing: Mapping[str, str]) -> list[str]:
    """Return the columns in order: stored ones, then described ones in their order, then the rest
    by name.

    A table that has only had a TRUNCATE gets its hinted columns and its key, since later events may
    describe the other columns of its script in another way.
    """
    names = dict.fromkeys(n for n in existing if not is_reserved(n))
    for columns in inputs.described.values():
        names.update(dict.fromkeys(columns))
    summary = inputs.summary
    empty = not summary.images and not names
    names.update(dict.fromkeys(c for c in inputs.hints.columns if empty or c in summary.columns))
    wanted = {*summary.columns, *(inputs.key or () if empty else ())}
    names.update(dict.fromkeys(c for c in inputs.types.ddl if c in wanted))
    names.update(dict.fromkeys(sorted(summary.columns)))
    return list(names)


def _key(
    hints: TableConfig, summary: TableSummary, stored: tuple[str, ...] | None, ddl: tuple[str, ...]
) -> tuple[str, ...] | None:
    """Return the key from the first of these that has one: the configuration, the events, the
    stored table, a script of DDL; None if none has.

    The configuration comes first, so that a key other than the stored one is seen and refused;
    `spark_jobs.planning.key_names.key_for_names` asks the stored table first.
    """
    declared = hints.key
    if declared is None and summary.keys:
        declared = list(max((len(key), key) for key in summary.keys.values())[1])
    kept = None if stored is None else tuple(map(source_name, stored))
    # Events may name the columns of one key in another order.
    if kept is not None and (
        declared is None or (len(declared), {*declared}) == (len(kept), {*kept})
    ):
        return kept
    return (ddl or None) if declared is None else tuple(declared)
