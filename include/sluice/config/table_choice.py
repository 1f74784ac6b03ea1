"""Restrict a pipeline to the tables that a run names."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from sluice.config.pipeline import Pipeline, TableConfig
from sluice.config.source_tables import listed_name
from sluice.errors import ConfigError


def only(pipeline: Pipeline, tables: Sequence[str]) -> Pipeline:
    """Return the pipeline restricted to these source tables, named as in `tables:`, by an end of
    that, or by the full name of which that is the end.

    Raises ConfigError for a table that the pipeline does not list.
    """
    if not tables:
        return pipeline
    if pipeline.tables is None:
        return pipeline.model_copy(update={"tables": {name: TableConfig() for name in tables}})
    return pipeline.choosing([_listed(pipeline, pipeline.tables, name) for name in tables])


def _listed(pipeline: Pipeline, tables: Collection[str], name: str) -> str:
    if name in tables:
        return name
    ends_so = [listed for listed in tables if listed.endswith(f".{name}")]
    if len(ends_so) > 1:
        raise ConfigError(
            f"pipeline {pipeline.name}: {name!r} may be {' or '.join(ends_so)}: name it in full"
        )
    if found := next(iter(ends_so), None) or listed_name(tables, name):
        return found
    listed = ", ".join(tables)
    raise ConfigError(f"pipeline {pipeline.name} has no table {name!r}; its `tables:` are {listed}")
