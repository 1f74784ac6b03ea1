"""Policies for changes of a source table's columns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal

from sluice.config.policies import EVOLVE, NEW_COLUMN

OnSchemaChange = Literal["evolve", "additive", "fail", "ignore"]
OnTypeChange = Literal["fail", "string", "new_column", "quarantine"]
_ADDING: Final = (EVOLVE, "additive")


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
