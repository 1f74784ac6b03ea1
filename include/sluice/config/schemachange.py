"""What a pipeline does where a source changes its tables' columns."""

from __future__ import annotations

from typing import Final, Literal

OnSchemaChange = Literal["evolve", "additive", "fail", "ignore"]
OnTypeChange = Literal["fail", "string", "new_column", "quarantine"]
NEW_COLUMN: Final = "new_column"
_ADDING: Final = ("evolve", "additive")


def refuse_unadded_columns(on_type_change: str, on_schema_change: str) -> None:
    """Raise ValueError where a changed type asks for a column that the pipeline does not add."""
    if on_type_change == NEW_COLUMN and on_schema_change not in _ADDING:
        raise ValueError(
            f"fail, string or quarantine where on_schema_change is {on_schema_change}: "
            f"{NEW_COLUMN} adds columns"
        )
