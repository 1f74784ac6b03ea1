"""One pipeline's file that is wrong, in whatever way, is one mistake: the others run on."""

from __future__ import annotations

from pathlib import Path

import pytest

from sluice.config.locations import refuse_landing
from sluice.config.project import load_project, load_sound
from sluice.config.yaml_file import Document
from sluice.errors import ConfigError
from tests.unit.projects import SHOP, load

NESTED = "(" * 3000 + "1=1" + ")" * 3000
DOUBLING = "DATE(" * 14 + "1" + ")" * 14
WRONG = {
    "timestamp": "name: !!timestamp foo\n",
    "bool": "name: !!bool foo\n",
    "int": "name: !!int ''\n",
    "character": 'name: "\\UFFFFFFFF"\n',
    "nobody": "landing: {url: ~nobody-of-this-name/in}\n",
    "nul": 'landing: {url: "a\\0b"}\n',
    "ddl-nobody": "ddl: {dialect: mysql, files: [~nobody-of-this-name/a.sql]}\n",
    "ddl-nul": 'ddl: {dialect: mysql, files: ["a\\0.sql"]}\n',
    "name": f"name: {'p' * 201}\n",
    "check": f"tables: {{a: {{checks: [{{name: c, sql: 'SELECT * FROM {{table}} WHERE {NESTED}'}}]}}}}\n",  # noqa: E501
    "doubling": f"tables: {{a: {{checks: [{{name: c, sql: 'SELECT {DOUBLING} FROM {{table}}'}}]}}}}\n",  # noqa: E501
}


def with_line(line: str) -> str:
    """The shop's file, of another name and namespace, with this line in the place of its own."""
    key = line.partition(":")[0]
    text = SHOP.replace("shop", "other")
    return "".join(one for one in text.splitlines(True) if not one.startswith(f"{key}:")) + line


@pytest.mark.parametrize("line", WRONG.values(), ids=WRONG.keys())
def test_a_wrong_value_is_a_mistake_of_its_own_file(tmp_path: Path, line: str) -> None:
    """Each of these was a traceback, and no pipeline ran any more."""
    with pytest.raises(ConfigError, match=r"other\.yaml:?\d*: (.*: )?expected"):
        load(tmp_path, shop=SHOP, other=with_line(line))
    found = load_sound(tmp_path)
    assert list(found.pipelines) == ["shop"]
    assert len(found.broken) == 1


def test_aliases_that_multiply_are_a_mistake_of_their_own_file(tmp_path: Path) -> None:
    levels = "".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]\n" for n in range(1, 6))
    with pytest.raises(ConfigError, match=r"other\.yaml: expected aliases that repeat at most"):
        load(tmp_path, shop=SHOP, other=with_line("name: other\n") + "a0: &a0 x\n" + levels)
    assert list(load_sound(tmp_path).pipelines) == ["shop"]


def test_aliases_and_merges_are_read(tmp_path: Path) -> None:
    tables = "tables:\n  a: &a {key: &key [id]}\n  b: {<<: *a}\n  c: {key: *key}\n"
    read = load(tmp_path, other=with_line("name: other\n") + tables).pipelines["other"].tables
    assert read is not None
    assert [table.key for table in read.values()] == [["id"]] * 3


def test_unforeseen_error_is_a_mistake_of_its_own_file_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unforeseen(document: Document, *more: object) -> None:
        if document.path.stem == "other":
            raise ArithmeticError("at postgresql://me:s3cr3t@host/db")
        refuse_landing(document, *more)  # type: ignore[arg-type]

    monkeypatch.setattr("sluice.config.project.refuse_landing", unforeseen)
    with pytest.raises(ConfigError, match=r"other\.yaml: .*ArithmeticError") as caught:
        load(tmp_path, shop=SHOP, other=with_line("name: other\n"))
    assert "s3cr3t" not in str(caught.value)
    assert list(load_sound(tmp_path).pipelines) == ["shop"]


def test_a_catalog_file_of_nobody_is_a_mistake_of_the_project(tmp_path: Path) -> None:
    load(tmp_path, shop=SHOP)
    file = tmp_path / "sluice.yaml"
    file.write_text(
        "lake: {catalog: {type: jdbc, uri: 'sqlite:///~nobody-of-this-name/a.db'}, warehouse: w}\n"
    )
    with pytest.raises(ConfigError, match=r"sluice\.yaml:1: lake\.catalog: expected"):
        load_project(tmp_path)
