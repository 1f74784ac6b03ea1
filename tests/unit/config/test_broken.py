"""What is wrong with pipelines' files, each by a name that no other has."""

from __future__ import annotations

from pathlib import Path

import pytest

from sluice.config.project import load_project, load_sound
from sluice.errors import ConfigError
from tests.unit.projects import PIPELINE, PROJECT


def write(root: Path, files: dict[str, str]) -> None:
    (root / "pipelines").mkdir()
    (root / "sluice.yaml").write_text(PROJECT)
    for name, text in files.items():
        (root / "pipelines" / name).write_text(text)


def test_two_broken_files_of_one_name_are_both_told(tmp_path: Path) -> None:
    write(tmp_path, {"a.yaml": "name: shop\n", "b.yaml": "name: shop\n"})
    assert sorted(load_sound(tmp_path).broken) == ["b", "shop"]
    with pytest.raises(ConfigError, match=r"(?s)a\.yaml.*b\.yaml"):
        load_project(tmp_path)


def test_a_broken_file_never_hides_a_sound_pipeline(tmp_path: Path) -> None:
    """Not even where what it calls itself and what it is called are both taken."""
    other = PIPELINE.replace("shop", "other")
    write(tmp_path, {"a.yaml": PIPELINE, "b.yaml": other, "shop.yaml": "name: other\n"})
    found = load_sound(tmp_path)
    assert found.pipeline("shop").namespace == "shop"
    assert list(found.broken) == ["shop.yaml"]
