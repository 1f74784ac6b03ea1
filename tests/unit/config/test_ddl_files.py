"""`ddl:` of a pipeline: which files it takes, what it tells of source tables, what it refuses."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from sluice.cli import app
from sluice.config.ddl_files import MOST_BYTES
from sluice.config.pipeline import Pipeline
from sluice.config.project import load_sound
from sluice.config.table_choice import only
from sluice.ddl import create_table
from sluice.errors import ConfigError
from sluice.types.columns import STRING, ColumnType, decimal
from tests.unit.projects import SHOP, load, mistake, write_project

ORDERS = "CREATE TABLE public.orders (id bigint PRIMARY KEY, total numeric(9,2), mood public.mood);"
ITEMS = "CREATE TABLE public.items (id integer, at date);\n"


def with_ddl(ddl: str) -> str:
    return f"{SHOP}ddl: {ddl}\n"


def write_scripts(root: Path, **scripts: str | bytes) -> None:
    """Files of the project's folder `schema`."""
    (root / "schema").mkdir()
    for name, script in scripts.items():
        text = script.encode() if isinstance(script, str) else script
        (root / "schema" / f"{name}.sql").write_bytes(text)


def shop(root: Path, ddl: str, **scripts: str | bytes) -> Pipeline:
    """A pipeline that has such a `ddl:`, in a project with these scripts."""
    write_scripts(root, **scripts)
    return load(root, shop=with_ddl(ddl)).pipeline("shop")


@pytest.mark.parametrize(
    "files", ["schema", "schema/a.sql, schema/b.sql", "schema/b.sql, schema", "schema/../schema"]
)
def test_files_folders_and_lists_of_them(tmp_path: Path, files: str) -> None:
    found = shop(tmp_path, f"{{dialect: postgres, files: [{files}]}}", a=ORDERS, b=ITEMS)
    orders, items = found.ddl_table("shop.public.orders"), found.ddl_table("public.items")
    assert orders
    assert items
    assert orders.columns == {"id": ColumnType("bigint"), "total": decimal(9, 2), "mood": STRING}
    assert orders.key == ("id",)
    assert items.columns == {"id": ColumnType("int"), "at": ColumnType("date")}
    assert items.key == ()


def test_key_may_be_in_another_ddl_file(tmp_path: Path) -> None:
    key = "ALTER TABLE ONLY PUBLIC.items ADD CONSTRAINT k PRIMARY KEY (id);"
    found = shop(tmp_path, "{dialect: postgres, files: [schema]}", a=key, b=ITEMS)
    items = found.ddl_table("items")
    assert items
    assert items.key == ("id",)


@pytest.mark.parametrize(
    ("source", "table"),
    [
        ("public.orders", "public.orders"), ("db.PUBLIC.Orders", "public.orders"),
        ("other.orders", None), ("archive.orders", "archive.orders"), ("orders", None),
        ("items", "public.items"), ("lines", "lines"), ("shop.lines", "lines"), ("nes", None),
    ],
)  # fmt: skip
def test_ddl_table_matches_by_the_parts_that_both_names_have(
    tmp_path: Path, source: str, table: str | None
) -> None:
    more = "CREATE TABLE archive.orders (a int); CREATE TABLE lines (a int)"
    found = shop(tmp_path, "{dialect: postgres, files: [schema]}", a=ORDERS, b=ITEMS, c=more)
    one = found.ddl_table(source)
    assert (one and one.name) == table


def test_ddl_files_count_in_a_run_for_some_tables(tmp_path: Path) -> None:
    ddl = "{dialect: postgres, files: [schema]}\ntables: {orders: , items: }"
    assert only(shop(tmp_path, ddl, a=ORDERS), ("orders",)).ddl_table("orders")


def test_pipeline_without_ddl_has_no_ddl_tables(tmp_path: Path) -> None:
    assert shop(tmp_path, "null").ddl_table("public.orders") is None


def test_scripts_as_sql_server_saves_them(tmp_path: Path) -> None:
    script = "CREATE TABLE [dbo].[Ø] ([Id] [int])\r\nGO\r\n".encode("utf-16")
    assert shop(tmp_path, "{dialect: tsql, files: [schema]}", a=script).ddl_table("dbo.ø")


def test_the_same_table_twice(tmp_path: Path) -> None:
    assert shop(tmp_path, "{dialect: postgres, files: [schema]}", a=ITEMS, b=ITEMS)


@pytest.mark.parametrize(
    ("ddl", "scripts", "problem"),
    [
        ("{dialect: postgres}", {}, "pipelines/shop.yaml:5: ddl.files: "),
        ("{dialect: db2, files: [schema]}", {}, "ddl.dialect: expected 'mysql', 'postgres', "),
        ("{dialect: mysql, files: []}", {}, "shop.yaml:5: ddl.files: expected one path or more"),
        ("{dialect: mysql, files: [schema]}", {}, "ddl.files: expected files *.sql in schema"),
        ("{dialect: mysql, files: [no.sql]}", {}, "expected a file or folder, found no no.sql"),
        ("{dialect: mysql, files: [../x]}", {}, "a path inside the project's folder, got '../x'"),
        ("{dialect: mysql, files: [/etc]}", {}, "a path inside the project's folder, got '/etc'"),
        ("{dialect: mysql, files: ['s3://b/x']}", {}, "path inside the project's folder, got 's3:"),
        ("{dialect: mysql, files: [schema]}", {"a": "SELECT 1;"}, "there is none: is ddl.dialect"),
        ("{dialect: mysql, files: [schema]}", {"a": b"\xff"}, "schema/a.sql: expected a readable"),
        (
            "{dialect: mysql, files: [schema]}", {"a": "-- ok\nCREATE TABLE t (a int;\n"},
            "schema/a.sql: expected a script in mysql: line 2: CREATE TABLE t: its ( is not close",
        ),
        (
            "{dialect: mysql, files: [schema]}",
            {"a": "CREATE TABLE t (a int)", "b": "\nCREATE TABLE T (b int)"},
            "schema/b.sql:2: expected table T once, or as it is in ",
        ),
        (
            "{dialect: oracle, files: [schema]}", {"a": "\nCREATE TABLE t (a INT, b NUMBER(,-2))"},
            "schema/a.sql:2: expected column b of table t in oracle, got the type NUMBER(,-2)",
        ),
        (
            "{dialect: mysql, files: [schema]}", {"a": " " * (MOST_BYTES + 1)},
            f"ddl.files: expected no more than {MOST_BYTES} bytes",
        ),
    ],
)  # fmt: skip
def test_mistakes_in_ddl_files_are_named(
    tmp_path: Path, ddl: str, scripts: dict[str, str], problem: str
) -> None:
    write_scripts(tmp_path, **scripts)
    assert problem in mistake(tmp_path, shop=with_ddl(ddl))


@pytest.mark.parametrize("files", ["schema", "schema/out.sql"])
def test_no_link_leads_out_of_the_project(tmp_path: Path, files: str) -> None:
    (tmp_path / "out.sql").write_text(ITEMS)
    root = tmp_path / "project"
    root.mkdir()
    write_scripts(root, a=ORDERS)
    (root / "schema" / "out.sql").symlink_to(tmp_path / "out.sql")
    message = mistake(root, shop=with_ddl(f"{{dialect: postgres, files: [{files}]}}"))
    assert "a path inside the project's folder" in message


def test_a_mistake_stops_its_pipeline_alone(tmp_path: Path) -> None:
    wrong = with_ddl("{dialect: mysql, files: [none]}")
    found = load_sound(write_project(tmp_path, shop=wrong, other=SHOP.replace("shop", "other")))
    assert (list(found.pipelines), list(found.broken)) == (["other"], ["shop"])


def test_only_the_scripts_of_the_pipeline_in_use_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever reads the configuration has all pipelines; parsing all of their dumps took longer
    than Airflow gives a file of DAGs."""
    write_scripts(tmp_path, shop=ORDERS, other="CREATE TABLE t (a int;\n")
    sound = with_ddl("{dialect: postgres, files: [schema/shop.sql]}")
    read = list[str]()

    def noted(text: str, dialect: str) -> create_table.Script:
        read.append(text)
        return create_table.script(text, dialect)

    monkeypatch.setattr("sluice.config.ddl_files.script", noted)
    found = load_sound(write_project(tmp_path, shop=sound, other=sound.replace("shop", "other")))
    assert (sorted(found.pipelines), found.broken, read) == (["other", "shop"], {}, [])
    assert found.pipeline("shop").ddl_table("orders")
    assert read == [ORDERS]
    with pytest.raises(ConfigError, match=r"other\.sql: expected a script in postgres: "):
        found.pipeline("other")


def test_a_script_that_stops_its_reader_stops_its_pipeline_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object) -> None:
        raise KeyError("an odd name")

    write_scripts(tmp_path, a=ORDERS)
    monkeypatch.setattr("sluice.config.ddl_files.script", fails)
    assert mistake(tmp_path, shop=with_ddl("{dialect: mysql, files: [schema]}")) == (
        "pipelines/shop.yaml: expected a pipeline's configuration, which stops at KeyError:"
        " \"'an odd name'\""
    )


def test_validate_names_types_that_nobody_knows(tmp_path: Path) -> None:
    shop(tmp_path, "{dialect: postgres, files: [schema]}", a=f"\n{ORDERS}")
    expected = f"{tmp_path}/schema/a.sql:2: public.orders.mood is text: unknown type"
    plain = CliRunner().invoke(app, ["validate", "--project", str(tmp_path)])
    assert f"    {expected} public.mood\n" in plain.output
    coded = CliRunner().invoke(app, ["validate", "--project", str(tmp_path), "--json"])
    assert json.loads(coded.output)["unknown_types"] == {"shop": [f"{expected} public.mood"]}
