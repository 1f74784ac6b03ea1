"""Projects that tests write as YAML: most have one pipeline, `shop`, on a catalog in a file."""

from __future__ import annotations

from pathlib import Path

import pytest

from sluice.config.project import Project, load_project
from sluice.config.project_file import CatalogConfig, LakeConfig, SparkConfig
from sluice.errors import ConfigError
from sluice.operations import stages
from sluice.operations.context import Context, Say, open_context

LAKE = """\
lake:
  catalog: {type: jdbc, uri: "sqlite:///data/catalog.db"}
  warehouse: data/warehouse
"""
SHOP = """\
name: shop
format: debezium
landing: {url: landing}
namespace: shop
"""


def write_project(root: Path, lake: str = LAKE, **pipelines: str) -> Path:
    """Write a project's files, and make its landing folder; returns the project's root."""
    for folder in ("pipelines", "landing"):
        (root / folder).mkdir(exist_ok=True)
    (root / "sluice.yaml").write_text(lake)
    for name, text in pipelines.items():
        (root / "pipelines" / f"{name}.yaml").write_text(text)
    return root


def load(root: Path, lake: str = LAKE, **pipelines: str) -> Project:
    """Write a project and load it."""
    return load_project(write_project(root, lake, **pipelines))


def mistake(root: Path, lake: str = LAKE, **pipelines: str) -> str:
    """The message about a project that cannot be loaded, with paths below its root."""
    with pytest.raises(ConfigError) as caught:
        load(root, lake, **pipelines)
    return str(caught.value).replace(f"{root}/", "")


def open_shop(root: Path, pipeline: str = SHOP, say: Say = lambda _: None) -> Context:
    """Write a project of one pipeline and open that."""
    return open_context(write_project(root, shop=pipeline), "shop", say)


def keys(context: Context, manifests: list[str]) -> list[str]:
    """The files of some batches, by their manifests."""
    return [f.key for key in manifests for f in context.files.read_manifest(key).files]


def files_of_loads(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Collects the files of each batch that a run would load, instead of loading it."""
    loaded: list[str] = []

    def load(ctx: Context, key: str) -> stages._Outcome:
        loaded.extend(keys(ctx, [key]))
        return stages._Outcome()

    monkeypatch.setattr(stages, "_load_in_turn", load)
    return loaded


def empty_lake(root: Path) -> Project:
    """A project without pipelines, for a test with tables of its own."""
    catalog = CatalogConfig(type="jdbc", uri=f"sqlite:///{root}/catalog.db")
    lake = LakeConfig(catalog=catalog, warehouse=str(root / "w"))
    return Project(root=root, lake=lake, spark=SparkConfig(), pipelines={})
