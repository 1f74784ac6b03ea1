"""Policies for changes of a source table's columns, and `renamed_columns:` of a table, for sources
such as PostgreSQL whose events do not show renames."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Final, Literal

from pydantic import AfterValidator, Field

from sluice.config.policies import DROP, EVOLVE, NEW_COLUMN
from sluice.modes import APPEND, HISTORY
from sluice.source_names import stored_name

if TYPE_CHECKING:
    from sluice.config.pipeline import Pipeline, TableConfig

OnSchemaChange = Literal["evolve", "additive", "fail", "ignore"]
OnTypeChange = Literal["fail", "string", "new_column", "quarantine"]
OnDroppedColumn = Literal["keep", "drop"]
_ADDING: Final = (EVOLVE, "additive")


def _former_to_now(value: dict[str, str]) -> dict[str, str]:
    stored = [(stored_name(old), stored_name(new)) for old, new in value.items()]
    former, since = {old.lower() for old, _ in stored}, {new.lower() for _, new in stored}
    if "" in former | since or len(former) < len(value) or former & since:
        raise ValueError(
            "former name → present name, and no present name that is a former one too (of a column "
            "renamed twice, both former names have the present name)"
        )
    return dict(stored)


RenamedColumns = Annotated[
    dict[str, str],
    AfterValidator(_former_to_now),
    Field(description="former name → present name, if no DDL event has the rename"),
]


def refuse_unheeded(on_type_change: str, on_schema_change: str, renaming: Sequence[str]) -> None:
    """Raise ValueError for settings that have no effect with this `on_schema_change`.

    `renaming`: the tables with `renamed_columns`.
    """
    if on_type_change == NEW_COLUMN and on_schema_change not in _ADDING:
        raise ValueError(
            f"fail, string or quarantine where on_schema_change is {on_schema_change}: "
            f"{NEW_COLUMN} adds columns"
        )
    if on_schema_change != EVOLVE and renaming:
        raise ValueError(
            f"on_schema_change: {EVOLVE} beside renamed_columns (of {', '.join(renaming)}): with "
            f"{on_schema_change} they are not followed"
        )


def dropped_column_policy(pipeline: Pipeline, table: TableConfig) -> OnDroppedColumn:
    """Return what becomes of a table's columns that the source drops: the table's own policy, else
    the pipeline's."""
    return table.on_dropped_column or pipeline.on_dropped_column


def refuse_undroppable_columns(
    policy: OnDroppedColumn,
    on_schema_change: str,
    tables: Mapping[str, TableConfig],
    modes: Sequence[str],
) -> None:
    """Raise ValueError where columns could not be dropped.

    `policy` and `modes`: the pipeline's, for tables without their own.
    """
    dropping = {name for name, one in tables.items() if (one.on_dropped_column or policy) == DROP}
    if on_schema_change != EVOLVE and (policy == DROP or dropping):
        raise ValueError(
            f"on_schema_change: {EVOLVE} beside on_dropped_column: {DROP}: with "
            f"{on_schema_change} the statements are not followed"
        )
    if wrong := [*_undroppable(policy, tables, dropping, modes)]:
        raise ValueError(f"keep for {'; '.join(wrong)}")


def _undroppable(
    policy: OnDroppedColumn,
    tables: Mapping[str, TableConfig],
    dropping: set[str],
    modes: Sequence[str],
) -> Iterator[str]:
    if policy == DROP and not tables and (keeping := _keeping(modes)):
        yield f"modes {keeping}, which keep what the column held"
    for name in sorted(dropping):
        if keeping := _keeping(tables[name].modes or modes):
            yield f"{name}, whose modes {keeping} keep what the column held"
        if tables[name].sources and tables[name].on_dropped_column:
            yield f"{name}, whose `sources` drop columns each for itself"


def _keeping(modes: Sequence[str]) -> str:
    return " and ".join(mode for mode in (HISTORY, APPEND) if mode in modes)
