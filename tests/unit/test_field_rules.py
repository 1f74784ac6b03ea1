"""Single values of a pipeline's file that no load could ever work with."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from sluice.config.project import ENV_CATALOG_URI, Pipeline, load_project
from sluice.errors import ConfigError
from tests.unit.projects import PIPELINE, PROJECT


@pytest.fixture(autouse=True)
def _bare_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(ENV_CATALOG_URI, raising=False)


def shop(root: Path, **changed: Any) -> Pipeline:
    (root / "pipelines").mkdir(exist_ok=True)
    (root / "sluice.yaml").write_text(PROJECT)
    text = yaml.safe_dump(yaml.safe_load(PIPELINE) | changed)
    (root / "pipelines" / "shop.yaml").write_text(text)
    return load_project(root).pipeline("shop")


def refusal(root: Path, **changed: Any) -> str:
    with pytest.raises(ConfigError) as caught:
        shop(root, **changed)
    return str(caught.value)


@pytest.mark.parametrize("name", ["information_schema", "Information_Schema", "pg_catalog"])
def test_a_namespace_that_engines_keep_for_themselves(tmp_path: Path, name: str) -> None:
    told = refusal(tmp_path, namespace=name)
    assert "namespace: expected a name other than information_schema and pg_catalog" in told
    assert shop(tmp_path, namespace="memory").namespace == "memory"
