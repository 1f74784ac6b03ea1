"""Projects that tests write as YAML, and what is said of their mistakes."""

from __future__ import annotations

from pathlib import Path

import pytest

from sluice.config.project import Project, load_project
from sluice.errors import ConfigError

LAKE = """\
lake:
  catalog: {type: jdbc, uri: "sqlite:///data/catalog.db"}
  warehouse: data/warehouse
"""
SHOP = """\
name: shop
format: debezium
landing: {url: data/landing/shop, pattern: "**/*.jsonl*"}
namespace: shop
"""


def project(root: Path, lake: str = LAKE, **pipelines: str) -> Project:
    """Write a project and load it."""
    (root / "pipelines").mkdir(exist_ok=True)
    (root / "sluice.yaml").write_text(lake)
    for name, text in pipelines.items():
        (root / "pipelines" / f"{name}.yaml").write_text(text)
    return load_project(root)


def mistake(root: Path, lake: str = LAKE, **pipelines: str) -> str:
    """What is said of a project that cannot be loaded, by paths below its root."""
    with pytest.raises(ConfigError) as caught:
        project(root, lake, **pipelines)
    return str(caught.value).replace(f"{root}/", "")
