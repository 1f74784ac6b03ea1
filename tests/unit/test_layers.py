"""One dependency a folder: airflow in dags/ and plugins/, pyspark in spark_jobs/; and none at all
on what makes objects of bytes."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
FORBIDDEN = {
    "include": {"airflow", "pyspark", "sluice_airflow", "spark_jobs"},
    "spark_jobs": {"airflow", "sluice_airflow"},
    "plugins": {"pyspark", "spark_jobs"},
    "dags": {"pyspark", "spark_jobs"},
}
# They run what they read, or fetch what it names.
UNSAFE = {"pickle", "cloudpickle", "dill", "joblib", "marshal", "shelve", "xml", "lxml", "xmlrpc"}
UNSAFE_YAML = {"load", "load_all", "full_load", "unsafe_load", "Loader", "UnsafeLoader"}


def imported(path: Path) -> set[str]:
    """The top-level packages that a module imports, wherever in it."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            found.add(node.module.split(".")[0])
    return found


@pytest.mark.parametrize("folder", sorted(FORBIDDEN))
def test_a_folder_imports_only_its_own_engine(folder: str) -> None:
    modules = sorted((ROOT / folder).rglob("*.py"))
    assert modules
    wrong = {
        str(path.relative_to(ROOT)): found
        for path in modules
        if (found := imported(path) & FORBIDDEN[folder])
    }
    assert wrong == {}


@pytest.mark.parametrize("folder", sorted(FORBIDDEN))
def test_no_bytes_become_objects(folder: str) -> None:
    for path in (ROOT / folder).rglob("*.py"):
        assert imported(path) & UNSAFE == set(), path
        names = {
            (node.value.id, node.attr)
            for node in ast.walk(ast.parse(path.read_text()))
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name)
        }
        assert names & {("yaml", name) for name in UNSAFE_YAML} == set(), path
