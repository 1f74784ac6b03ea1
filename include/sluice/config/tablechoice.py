"""Some of a pipeline's tables, as a run names them."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from sluice.config.project import Pipeline, TableConfig
from sluice.errors import ConfigError


def only(pipeline: Pipeline, tables: Sequence[str]) -> Pipeline:
    """The pipeline with these source tables alone, each by its name in `tables:` or the end of it.

    Raises ConfigError for one that the pipeline does not list.
    """
    if not tables:
        return pipeline
    if pipeline.tables is None:
        return pipeline.model_copy(update={"tables": {name: TableConfig() for name in tables}})
    return pipeline.choosing([_found(pipeline, pipeline.tables, name) for name in tables])


def _found(pipeline: Pipeline, tables: Collection[str], name: str) -> str:
    if name in tables:
        return name
    for listed in tables:
        if listed.endswith(f".{name}"):
            return listed
    known = ", ".join(tables)
    raise ConfigError(f"pipeline {pipeline.name} has no table {name!r}; its `tables:` are {known}")
