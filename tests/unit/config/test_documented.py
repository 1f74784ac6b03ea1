"""The YAML of the documents: whole pipelines, and parts that fit into one."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from sluice.config.formats import FORMAT_NAMES
from sluice.config.pipeline import Pipeline
from sluice.config.project import load_project
from tests import documented
from tests.conftest import ROOT
from tests.documented import FORMATS, INDEX, PAGES, README, example_of, files_written, yaml_blocks

OPTIONS = re.compile(r"`(format_options: \{[^`]+\})`")
SHOP = files_written(README)["pipelines/mine.yaml"]
BLOCKS = [
    (page.name, block)
    for page in (README, *sorted((ROOT / "docs").glob("*.md")))
    for block in yaml_blocks(page)
]


def load_pipeline(project: Path, pipeline: str) -> Pipeline:
    """Read the pipeline as `sluice validate` does; raises ConfigError."""
    (project / "pipelines").mkdir(exist_ok=True)
    (project / "pipelines" / "shop.yaml").write_text(pipeline)
    (project / "sluice.yaml").write_text(files_written(INDEX)["sluice.yaml"])
    (loaded,) = load_project(project).pipelines.values()
    return loaded


def pipeline_of(page: str) -> dict[str, Any]:
    return yaml.safe_load(example_of(page).files["pipelines/shop.yaml"])


def parts(page: str) -> list[str]:
    """Every block of YAML outside the example, and the options that the page shows in a line."""
    path, example = FORMATS / f"{page}.md", example_of(page).files.values()
    blocks = [block for block in yaml_blocks(path) if block not in example]
    return blocks + OPTIONS.findall(path.read_text())


@pytest.mark.parametrize("page", PAGES)
def test_the_pipeline_of_an_example_is_right(tmp_path: Path, page: str) -> None:
    pipeline = load_pipeline(tmp_path, example_of(page).files["pipelines/shop.yaml"])
    assert pipeline.format == pipeline_of(page)["format"]


def test_every_format_has_an_example() -> None:
    assert {pipeline_of(page)["format"] for page in PAGES} == set(FORMAT_NAMES)


@pytest.mark.parametrize(("page", "part"), [(page, part) for page in PAGES for part in parts(page)])
def test_a_part_of_a_pipeline_is_right(tmp_path: Path, page: str, part: str) -> None:
    given = yaml.safe_load(part)
    pipeline = load_pipeline(tmp_path, json.dumps(pipeline_of(page) | given))
    assert given.keys() <= pipeline.model_fields_set


@pytest.mark.parametrize(("_page", "block"), BLOCKS)
def test_a_block_outside_the_formats_is_right(tmp_path: Path, _page: str, block: str) -> None:
    (tmp_path / "schema").mkdir()
    (tmp_path / "schema" / "shop.sql").write_text("CREATE TABLE orders (id INT);")
    given = yaml.safe_load(block)
    if "lake" in given:
        (tmp_path / "sluice.yaml").write_text(block)
        load_project(tmp_path)
        return
    whole = block if "name" in given else json.dumps(yaml.safe_load(SHOP) | given)
    assert given.keys() <= load_pipeline(tmp_path, whole).model_fields_set


def test_missing_parts_of_a_page_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(documented, "FORMATS", tmp_path)
    (tmp_path / "x.md").write_text("# X\n\n## Operations\n")
    with pytest.raises(LookupError, match=r"x\.md has no section `## Example`"):
        example_of("x")
    (tmp_path / "x.md").write_text("## Example\n\n`pipelines/shop.yaml`:\n\n```yaml\na: 1\n```\n")
    with pytest.raises(LookupError, match=r"x\.md lacks a landed file, a table's rows"):
        example_of("x")


def test_the_first_pipeline_of_the_readme_is_no_pipeline_of_the_checkout() -> None:
    """Two of one name would be one DAG. What a reader makes in the checkout is in no diff."""
    files = files_written(README).items()
    (first,) = (yaml.safe_load(text)["name"] for path, text in files if "pipelines/" in path)
    assert first not in load_project(ROOT / "include").pipelines
    assert "/my/" in (ROOT / ".gitignore").read_text().splitlines()
