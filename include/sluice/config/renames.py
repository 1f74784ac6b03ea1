"""`renamed_columns:` of a table, for sources such as PostgreSQL whose events do not
show renames."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, Field


def _former_to_now(value: dict[str, str]) -> dict[str, str]:
    former = {name.lower() for name in value}
    since = {name.lower() for name in value.values()}
    if "" in former | since or len(former) < len(value) or former & since:
        raise ValueError(
            "former name → name of now, and no name of now that is a former one too (of a column "
            "renamed twice both former names have the name of now)"
        )
    return value


RenamedColumns = Annotated[
    dict[str, str],
    AfterValidator(_former_to_now),
    Field(description="former name → name of now, where no DDL event tells the rename"),
]
