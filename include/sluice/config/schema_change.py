"""Policies for changes of a source table's columns, and `renamed_columns:` of a table, for sources
such as PostgreSQL whose events do not show renames."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Final, Literal

from pydantic import AfterValidator, Field

from sluice.config.policies import EVOLVE, NEW_COLUMN
from sluice.source_names import stored_name

OnSchemaChange = Literal["evolve", "additive", "fail", "ignore"]
OnTypeChange = Literal["fail", "string", "new_column", "quarantine"]
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
