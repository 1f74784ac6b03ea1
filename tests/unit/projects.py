"""A project folder for tests: one pipeline, `shop`, on a catalog in a file."""

from __future__ import annotations

from pathlib import Path

import pytest

from sluice.config.project import Project
from sluice.config.project_file import CatalogConfig, LakeConfig, SparkConfig
from sluice.operations import stages
from sluice.operations.context import Context, Say, open_context
from sluice.result import BatchResult

PROJECT = "lake: {catalog: {type: jdbc, uri: 'sqlite:///lake.db'}, warehouse: warehouse}\n"
PIPELINE = "name: shop\nnamespace: shop\nformat: debezium\nlanding: {url: landing}\n"


def open_shop(root: Path, pipeline: str = PIPELINE, say: Say = lambda _: None) -> Context:
    """Write the project and open its pipeline; its landing folder is there, and empty."""
    for folder in ("pipelines", "landing"):
        (root / folder).mkdir()
    (root / "sluice.yaml").write_text(PROJECT)
    (root / "pipelines" / "shop.yaml").write_text(pipeline)
    return open_context(root, "shop", say)


def keys(context: Context, manifests: list[str]) -> list[str]:
    """The files of some batches, by their manifests."""
    return [f.key for key in manifests for f in context.files.read_manifest(key).files]


def files_of_loads(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Gets the files of each batch that a run would load, in the place of its load."""
    loaded: list[str] = []

    def load(ctx: Context, key: str) -> BatchResult | None:
        loaded.extend(keys(ctx, [key]))
        return None

    monkeypatch.setattr(stages, "_load_in_turn", load)
    return loaded


def empty_lake(root: Path) -> Project:
    """A project without pipelines, whose tables are the test's own."""
    catalog = CatalogConfig(type="jdbc", uri=f"sqlite:///{root}/catalog.db")
    lake = LakeConfig(catalog=catalog, warehouse=str(root / "w"))
    return Project(root=root, lake=lake, spark=SparkConfig(), pipelines={})
