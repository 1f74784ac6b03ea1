"""Some of a pipeline's tables, as a run names them."""

from __future__ import annotations

from collections.abc import Sequence

from sluice.config import Pipeline, TableConfig
from sluice.errors import ConfigError


def only(pipeline: Pipeline, tables: Sequence[str]) -> Pipeline:
    """The pipeline with these source tables alone, each by its name in `tables:` or the end of it.

    Raises ConfigError for one that the pipeline does not list.
    """
    if not tables:
        return pipeline
    chosen = dict(_found(pipeline, name) for name in tables)
    return pipeline.model_copy(update={"tables": chosen})


def _found(pipeline: Pipeline, name: str) -> tuple[str, TableConfig]:
    if pipeline.tables is None:
        return name, TableConfig()
    for listed, config in pipeline.tables.items():
        if listed == name or listed.endswith(f".{name}"):
            return listed, config
    known = ", ".join(pipeline.tables)
    raise ConfigError(f"pipeline {pipeline.name} has no table {name!r}; its `tables:` are {known}")
