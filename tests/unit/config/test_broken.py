"""What is wrong with pipelines' files, each by a name that no other has."""

from __future__ import annotations

from pathlib import Path

import pytest

from sluice.config.project import load_project, load_sound
from sluice.errors import ConfigError
from tests.unit.projects import SHOP, write_project


def test_two_broken_files_of_one_name_are_both_listed(tmp_path: Path) -> None:
    root = write_project(tmp_path, a="name: shop\n", b="name: shop\n")
    assert sorted(load_sound(root).broken) == ["b", "shop"]
    with pytest.raises(ConfigError, match=r"(?s)a\.yaml.*b\.yaml"):
        load_project(root)


def test_a_broken_file_never_hides_a_sound_pipeline(tmp_path: Path) -> None:
    """Not even where what it calls itself and what it is called are both taken."""
    other = SHOP.replace("shop", "other")
    found = load_sound(write_project(tmp_path, a=SHOP, b=other, shop="name: other\n"))
    assert found.pipeline("shop").namespace == "shop"
    assert list(found.broken) == ["shop.yaml"]


def test_a_text_that_is_no_yaml_is_shown_under_the_name_it_states(tmp_path: Path) -> None:
    """Its file may be called otherwise, and its DAG is looked for by the pipeline's name."""
    torn = "name: 'shop'  # of Europe\nformat: [debezium\n"
    assert list(load_sound(write_project(tmp_path, eu_orders=torn)).broken) == ["shop"]
