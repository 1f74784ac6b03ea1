"""Iceberg's format version of a table, and which catalogs can publish it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from sluice.config.yaml_file import refused

if TYPE_CHECKING:
    from sluice.config.pipeline import Pipeline
    from sluice.config.project_file import LakeConfig
    from sluice.config.yaml_file import Document

# Of the format, by pyiceberg.
WRITABLE_VERSION: Final = 2


def refuse_unpublishable_version(document: Document, pipeline: Pipeline, lake: LakeConfig) -> None:
    """Raise ConfigError for a table that could be staged but never published: for `jdbc` catalogs
    pyiceberg writes the metadata itself, and does not support version 3."""
    for name, table in (pipeline.tables or {}).items():
        if table.format_version > WRITABLE_VERSION and lake.catalog.type == "jdbc":
            key = ("tables", name, "format_version")
            expected = f"{WRITABLE_VERSION} with a jdbc catalog, for 3 needs a rest catalog"
            raise refused(document, key, expected)
