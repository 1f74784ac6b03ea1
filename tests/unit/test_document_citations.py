"""What the documents cite of the code is there: modules by their path or their file's name, and
the names in them."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
DOCUMENTS = sorted([*(ROOT / "docs").rglob("*.md"), *ROOT.glob("*.md")])
MODULE = re.compile(r"`([\w./-]+\.py)`")
NAME = re.compile(r"`([\w.]+)(?:\(\))?` in `([\w./-]+\.py)`")


def modules(cited: str) -> list[Path]:
    """The files of a path from the root, or of a file's name in any folder of the code."""
    if "/" in cited:
        return [path for path in [ROOT / cited] if path.is_file()]
    folders = ("include", "spark_jobs", "plugins", "dags", "tests")
    return [path for folder in folders for path in (ROOT / folder).rglob(cited)]


def defined(path: Path) -> Iterator[str]:
    """The functions, classes, constants and fields of a module."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_every_cited_module_and_name_is_there(document: Path) -> None:
    text = document.read_text()
    assert [cited for cited in MODULE.findall(text) if not modules(cited)] == []
    missing = [
        (name, cited)
        for name, cited in NAME.findall(text)
        if not any(set(name.split(".")) <= set(defined(path)) for path in modules(cited))
    ]
    assert missing == []


def test_the_readme_has_the_versions_of_the_locks() -> None:
    packages, jars, setup = (
        (ROOT / file).read_text() for file in ("requirements.txt", "jars.lock", "scripts/setup.sh")
    )
    versions = dict(re.findall(r"^(apache-airflow|pyspark|pyspark-client)==(\S+)", packages, re.M))
    assert versions["pyspark"] == versions["pyspark-client"]  # they share a folder
    scala = set(re.findall(r"^[\w.]+:[\w.-]+_([\d.]+):", jars, re.M))
    java = re.findall(r'version "\((\d+)\|(\d+)\)', setup)
    assert (len(scala), len(java)) == (1, 1)
    assert (
        f"Airflow {versions['apache-airflow']}, and Spark {versions['pyspark']} with Scala "
        f"{scala.pop()}, on Java {' or '.join(java[0])}."
    ) in (ROOT / "README.md").read_text()
