"""One dependency per folder: airflow in dags/ and plugins/, pyspark in spark_jobs/; packages
only import those before them; nothing makes objects of bytes; and no test module imports
from another one."""

from __future__ import annotations

import ast
from collections import Counter
from pathlib import Path

import pytest

from sluice.errors import SluiceError, names_of

ROOT = Path(__file__).resolve().parents[2]
FORBIDDEN = {
    "include": {"airflow", "pyspark", "sluice_airflow", "spark_jobs"},
    "spark_jobs": {"airflow", "sluice_airflow"},
    "plugins": {"pyspark", "spark_jobs"},
    "dags": {"pyspark", "spark_jobs"},
}
# Each package imports only those before it.
LAYERS = {
    "include/sluice": (
        "ddl",
        "types",
        "config",
        "objects",
        "containers",
        "catalog",
        "ledger",
        "landing",
        "spark_submit",
        "operations",
        "output",
    ),
    "spark_jobs": (
        "formats",
        "planning",
        "folding",
        "lake",
        "decoding",
        "modes",
        "merging",
        "verifying",
        "maintaining",
    ),
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


def test_whoever_starts_a_driver_knows_the_names_of_its_errors() -> None:
    """It does not import spark_jobs: a name from there would be no error that lasts."""
    bases = {
        base.id
        for path in (ROOT / "spark_jobs").rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ClassDef)
        for base in node.bases
        if isinstance(base, ast.Name)
    }
    assert "ValueError" in bases
    assert bases & names_of(SluiceError) == set()


@pytest.mark.parametrize("folder", sorted(FORBIDDEN))
def test_no_bytes_become_objects(folder: str) -> None:
    modules = sorted((ROOT / folder).rglob("*.py"))
    assert modules
    for path in modules:
        assert imported(path) & UNSAFE == set(), path
        names = {
            (node.value.id, node.attr)
            for node in ast.walk(ast.parse(path.read_text()))
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name)
        }
        assert names & {("yaml", name) for name in UNSAFE_YAML} == set(), path


def units_imported(path: Path, root: str) -> set[str]:
    """The packages of `root`, and the modules beside them, that a module of it imports."""
    top = root.rsplit("/", 1)[-1]
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module == top:
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith(f"{top}."):
            found.add(str(node.module).split(".")[1])
    return found


def reached(start: set[str], beside: dict[str, set[str]]) -> set[str]:
    """`start`, and what the modules beside the packages lead to from there."""
    found, todo = set(start), list(start)
    while todo:
        fresh = beside.get(todo.pop(), set()) - found
        found |= fresh
        todo.extend(fresh)
    return found


@pytest.mark.parametrize("root", sorted(LAYERS))
def test_a_package_imports_only_those_before_it(root: str) -> None:
    folder, order = ROOT / root, LAYERS[root]
    assert {path.parent.name for path in folder.glob("*/__init__.py")} == set(order)
    beside = {path.stem: units_imported(path, root) for path in folder.glob("*.py")}
    for number, package in enumerate(order):
        for path in sorted((folder / package).rglob("*.py")):
            later = reached(units_imported(path, root), beside) & set(order[number + 1 :])
            assert later == set(), path


def test_verify_shares_only_the_content_hash_with_the_folding() -> None:
    """It finds the faults of the merge: what both used would be wrong in both."""
    shared = {
        (node.module, alias.name)
        for path in (ROOT / "spark_jobs/verifying").rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("spark_jobs.folding")
        for alias in node.names
    }
    assert shared == {("spark_jobs.folding.fold", "content_hash")}


def names_imported(path: Path) -> set[str]:
    """Every word of what a module imports: packages, modules, and the names in them."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import | ast.ImportFrom):
            found |= {word for alias in node.names for word in alias.name.split(".")}
        if isinstance(node, ast.ImportFrom):
            found |= set((node.module or "").split("."))
    return found


@pytest.mark.parametrize("folder", ["tests", "bench", "demo"])
def test_nothing_is_imported_from_a_test_module(folder: str) -> None:
    """What two of them share is a helper beside them: neither can take it from the other."""
    tests = {path.stem for path in (ROOT / "tests").rglob("test_*.py")}
    wrong = {
        str(path.relative_to(ROOT)): found
        for path in (ROOT / folder).rglob("*.py")
        if (found := names_imported(path) & tests)
    }
    assert wrong == {}


def test_no_two_modules_of_the_tests_have_one_name() -> None:
    """pytest puts each of their folders on the path, where the first of a name is found."""
    names = Counter(path.name for path in (ROOT / "tests").rglob("*.py"))
    assert {name for name, count in names.items() if count > 1} <= {"conftest.py", "__init__.py"}
