"""Policies for changes of a source table's columns."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal, Protocol

from sluice.config.policies import EVOLVE, NEW_COLUMN

OnSchemaChange = Literal["evolve", "additive", "fail", "ignore"]
OnTypeChange = Literal["fail", "string", "new_column", "quarantine"]
_ADDING: Final = (EVOLVE, "additive")


class Renaming(Protocol):
    """A table's configuration that may declare renamed columns."""

    renamed_columns: dict[str, str]


def refuse_unheeded(
    on_type_change: str, on_schema_change: str, tables: Mapping[str, Renaming] | None
) -> None:
    """Raise ValueError for settings that have no effect with this `on_schema_change`."""
    if on_type_change == NEW_COLUMN and on_schema_change not in _ADDING:
        raise ValueError(
            f"fail, string or quarantine where on_schema_change is {on_schema_change}: "
            f"{NEW_COLUMN} adds columns"
        )
    renaming = [name for name, table in (tables or {}).items() if table.renamed_columns]
    if on_schema_change != EVOLVE and renaming:
        raise ValueError(
            f"on_schema_change: {EVOLVE} beside renamed_columns (of {', '.join(renaming)}): with "
            f"{on_schema_change} they are not followed"
        )
