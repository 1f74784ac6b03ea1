"""`renamed_columns:` of a table, for sources such as PostgreSQL whose events do not
show renames."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, Field

from sluice.source_names import stored_name


def _former_to_now(value: dict[str, str]) -> dict[str, str]:
    former = {name.lower() for name in value}
    since = {name.lower() for name in value.values()}
    if "" in former | since or len(former) < len(value) or former & since:
        raise ValueError(
            "former name → present name, and no present name that is a former one too (of a column "
            "renamed twice, both former names have the present name)"
        )
    return {stored_name(old): stored_name(new) for old, new in value.items()}


RenamedColumns = Annotated[
    dict[str, str],
    AfterValidator(_former_to_now),
    Field(description="former name → present name, if no DDL event has the rename"),
]
