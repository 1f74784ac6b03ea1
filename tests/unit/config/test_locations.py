"""Landing and warehouse: apart from each other, and where Spark finds them."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from sluice.cli import app
from sluice.config.project import load_project, load_sound
from sluice.errors import ConfigError

SHOP = "name: shop\nnamespace: shop\nformat: debezium\nlanding: {url: '%s', pattern: '%s'}\n"
LAKE = "lake:\n  catalog: {type: jdbc, uri: 'sqlite:///%s'}\n  warehouse: '%s'\n"


def write(
    root: Path,
    landing: str,
    warehouse: str = "warehouse",
    catalog: str = "db/lake.db",
    pattern: str = "**/*",
) -> None:
    (root / "pipelines").mkdir(parents=True)
    (root / "sluice.yaml").write_text(LAKE % (catalog, warehouse))
    (root / "pipelines" / "shop.yaml").write_text(SHOP % (landing, pattern))


@pytest.mark.parametrize(
    ("landing", "warehouse"),
    [
        ("warehouse", "warehouse"),
        ("data", "data/warehouse"),
        ("link/", "warehouse"),
        ("/", "warehouse"),
        ("s3://lake", "s3://lake/ware"),
    ],
)
def test_a_landing_that_meets_the_warehouse_is_refused(
    tmp_path: Path, landing: str, warehouse: str
) -> None:
    """Iceberg's own files were landed, and each landing wrote some more of them."""
    (tmp_path / "link").symlink_to(tmp_path / "warehouse")
    write(tmp_path, landing, warehouse)
    problem = r"shop\.yaml:4: landing\.url: expected a place with files of events only"
    with pytest.raises(ConfigError, match=problem) as caught:
        load_project(tmp_path)
    assert load_sound(tmp_path).lake.warehouse in str(caught.value)


@pytest.mark.parametrize(
    "landing", ["shop/orders/data", "shop__cdc", "_sluice/../sluice", "_sluice"]
)
def test_a_landing_among_the_tables_files_is_refused(tmp_path: Path, landing: str) -> None:
    write(tmp_path, f"warehouse/{landing}")
    with pytest.raises(ConfigError, match="a place that is not among the tables' own files"):
        load_project(tmp_path)


@pytest.mark.parametrize(
    ("landing", "warehouse", "pattern"),
    [
        ("s3://lake/landing", "s3://lake", "**/*"),
        ("s3://lake/ware/landing/", "s3://lake/ware", "**/*"),
        ("s3://lake", "s3://lake/ware", "in/**/*.json"),
        ("s3://lake", "s3://lake", "**/*.jsonl"),
        ("data", "data/warehouse", "cdc/**"),
    ],
)
def test_a_landing_whose_pattern_takes_none_of_the_tables_files_is_sound(
    tmp_path: Path, landing: str, warehouse: str, pattern: str
) -> None:
    write(tmp_path, landing, warehouse, pattern=pattern)
    assert load_project(tmp_path).pipelines


@pytest.mark.parametrize(
    ("landing", "file"), [("landing", "landing/lake.db"), (".", "sluice.yaml")]
)
def test_a_landing_with_sluices_own_files_is_refused(
    tmp_path: Path, landing: str, file: str
) -> None:
    write(tmp_path / "p", landing, "../warehouse", "landing/lake.db")
    with pytest.raises(ConfigError, match=f"since the files in '.*/{file}' would be landed"):
        load_project(tmp_path / "p")


def test_a_catalog_in_a_landing_may_be_a_hidden_file(tmp_path: Path) -> None:
    """Hidden files do not land."""
    write(tmp_path / "p", "landing", "../warehouse", "landing/.lake.db")
    assert load_project(tmp_path / "p").pipelines


@pytest.mark.parametrize(
    ("landing", "warehouse"),
    [
        ("landing", "warehouse"),
        ("warehouse2", "warehouse"),
        ("s3://lake/ware2", "s3://lake/ware"),
        ("s3://landing", "s3://lake"),
        ("s3://lake/p", "lake"),
    ],
)
def test_locations_side_by_side_are_sound(tmp_path: Path, landing: str, warehouse: str) -> None:
    write(tmp_path, landing, warehouse)
    assert load_project(tmp_path).pipelines


@pytest.mark.parametrize("odd", "[]{}*?\\")
def test_a_path_that_spark_takes_for_a_pattern_is_refused(tmp_path: Path, odd: str) -> None:
    for landing in (f"in{odd}", f"s3://bucket/in{odd}/x"):
        root = tmp_path / landing[:2]
        write(root, landing)
        with pytest.raises(ConfigError, match=r"shop\.yaml:4: landing\.url: expected a path wi"):
            load_project(root)
    write(tmp_path / "w", "landing", f"ware{odd}")
    with pytest.raises(ConfigError, match=r"sluice\.yaml:3: lake\.warehouse: expected a path wi"):
        load_project(tmp_path / "w")


def test_a_projects_own_folder_is_part_of_its_paths(tmp_path: Path) -> None:
    write(tmp_path / "old {1}", "landing")
    with pytest.raises(ConfigError, match="the project's own folder is part of it"):
        load_project(tmp_path / "old {1}")
    write(tmp_path / "old [1]", "s3://bucket/landing", "s3://lake/ware")
    assert load_project(tmp_path / "old [1]").pipelines


def test_validate_prints_a_path_as_it_is(tmp_path: Path) -> None:
    """`[/b]` is a mark-up of the terminal's printer, which failed at it."""
    folder = tmp_path / "a [red]" / "[" / "b]"
    write(folder, "s3://bucket/landing", "s3://lake/ware")
    done = CliRunner().invoke(app, ["validate", "--project", str(folder)], terminal_width=400)
    assert done.exit_code == 0
    assert "a [red]/[/b]:" in done.output.replace("\n", "")


@pytest.mark.parametrize(
    "url",
    ["s3://b//in", "s3a://b/a//in/", "s3://b/a/./in", "s3://b/a/../in", "s3://b/..", "s3://b/."],
)
def test_a_bucket_folder_that_hadoop_names_otherwise_is_refused(tmp_path: Path, url: str) -> None:
    """Its files landed, and no load ever found them."""
    problem = r"expected a bucket's folder without //, \. or \.\. as parts of its path"
    write(tmp_path / "a", url)
    with pytest.raises(ConfigError, match=rf"shop\.yaml:4: landing\.url: {problem}"):
        load_project(tmp_path / "a")
    write(tmp_path / "b", "in", url)
    with pytest.raises(ConfigError, match=rf"sluice\.yaml:3: lake\.warehouse: {problem}"):
        load_project(tmp_path / "b")


@pytest.mark.parametrize("url", ["s3://b", "s3://b/", "s3://b//", "s3://b/a/", "s3://b/a.b/..c/d."])
def test_other_folders_of_a_bucket_are_sound(tmp_path: Path, url: str) -> None:
    write(tmp_path, url)
    assert load_sound(tmp_path).pipelines["shop"].landing.url == url.rstrip("/")


@pytest.mark.parametrize(
    "place",
    ["s3//lake/w", "s3:lake/w", "arn:aws:s3:::lake/w", "$WAREHOUSE", "data/${env}", "s3://b/$(x)"],
)
def test_an_address_that_would_make_a_folder_of_its_name_is_refused(
    tmp_path: Path, place: str
) -> None:
    write(tmp_path, "landing", place)
    with pytest.raises(ConfigError, match=r"lake\.warehouse: expected a folder or s3://bucket/pre"):
        load_project(tmp_path)


@pytest.mark.parametrize("place", ["s3/w", "share$/w", "arn/w", "a$b/_$folder$", "$1.5/w"])
def test_a_folder_may_look_like_an_address_in_part(tmp_path: Path, place: str) -> None:
    write(tmp_path, "landing", place)
    assert load_project(tmp_path).lake.warehouse == f"{tmp_path}/{place}"
