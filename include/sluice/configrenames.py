"""Columns that a source renamed and of which its events tell nothing (PostgreSQL's, for one)."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, Field


def _one_name_each(value: dict[str, str]) -> dict[str, str]:
    former = {name.lower() for name in value}
    since = [name.lower() for name in value.values()]
    if "" in former or "" in since or len(set(since)) < len(since) or former & set(since):
        raise ValueError(
            "former name → name of now, each name once; of a column renamed twice both former "
            "names with the name of now are not told apart: name the last alone"
        )
    return value


RenamedColumns = Annotated[
    dict[str, str],
    AfterValidator(_one_name_each),
    Field(description="former name → name of now, where no DDL event tells the rename"),
]
