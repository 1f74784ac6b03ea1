"""The catalog's settings for pyiceberg and for Spark, from one configuration."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField

from sluice.catalog import client as catalog_module
from sluice.catalog.client import open_catalog
from sluice.catalog.spark import spark_catalog_conf, uses_s3
from sluice.config.project import Project
from sluice.config.project_file import CatalogConfig, LakeConfig, SparkConfig

pytestmark = pytest.mark.catalog

SPARK_LAKE = "spark.sql.catalog.lake"
SCHEMA = Schema(NestedField(1, "id", LongType(), required=False))


@pytest.fixture(autouse=True)
def _bare_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("SLUICE_S3_ENDPOINT", "AWS_REGION", "AWS_DEFAULT_REGION", "PGPASSWORD", "PGUSER"):
        monkeypatch.delenv(name, raising=False)


def project(
    uri: str, warehouse: str, kind: str = "jdbc", more: dict[str, Any] | None = None
) -> Project:
    catalog = CatalogConfig.model_validate({"type": kind, "uri": uri} | (more or {}))
    return Project(
        root=Path("/p"), lake=LakeConfig(catalog=catalog, warehouse=warehouse), spark=SparkConfig(),
        pipelines={},
    )  # fmt: skip


@pytest.fixture
def embedded(tmp_path: Path) -> Project:
    return project(f"sqlite:///{tmp_path}/a b/catalog.db", str(tmp_path / "ware house"))


def test_embedded_catalog_is_made(embedded: Project) -> None:
    catalog = open_catalog(embedded)
    catalog.create_namespace("shop")
    table = catalog.create_table("shop.orders", SCHEMA)
    assert embedded.lake.catalog.sqlite_path.is_file()
    assert table.location() == f"{embedded.lake.warehouse}/shop/orders"
    assert open_catalog(embedded).list_tables("shop") == [("shop", "orders")]


def test_pyiceberg_and_spark_have_one_catalog_and_warehouse(embedded: Project) -> None:
    conf = spark_catalog_conf(embedded)
    assert open_catalog(embedded).name == "lake"
    assert conf[f"{SPARK_LAKE}.uri"] == f"jdbc:sqlite:{embedded.lake.catalog.sqlite_path}"
    assert conf[f"{SPARK_LAKE}.warehouse"] == embedded.lake.warehouse
    assert conf[f"{SPARK_LAKE}.jdbc.schema-version"] == "V1"


def test_writers_wait_for_each_other(embedded: Project) -> None:
    """SQLite locks its file for a write; the others wait instead of failing."""
    open_catalog(embedded).create_namespace("shop")
    errors: list[BaseException] = []

    def write(number: int) -> None:
        try:
            catalog = open_catalog(embedded)
            for n in range(5):
                catalog.create_table(f"shop.t_{number}_{n}", SCHEMA)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=write, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    assert len(open_catalog(embedded).list_tables("shop")) == 20


def test_postgres_password_is_not_in_sparks_address() -> None:
    conf = spark_catalog_conf(
        project("postgresql://me:p%40ss@db:5433/c?sslmode=require", "s3://b/w")
    )
    assert conf[f"{SPARK_LAKE}.uri"] == "jdbc:postgresql://db:5433/c?sslmode=require"
    assert conf[f"{SPARK_LAKE}.jdbc.user"] == "me"
    assert conf[f"{SPARK_LAKE}.jdbc.password"] == "p@ss"


def test_postgres_is_not_waited_for_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    uri = "postgresql://me@db/c?connect_timeout=3"
    conf = spark_catalog_conf(project(uri, "s3://b/w"))
    limits = {
        name: conf[f"{SPARK_LAKE}.jdbc.{name}"] for name in ("connectTimeout", "socketTimeout")
    }
    assert limits == {"connectTimeout": "10", "socketTimeout": "60"}
    assert conf[f"{SPARK_LAKE}.jdbc.tcpKeepAlive"] == "true"
    opened: dict[str, str] = {}
    monkeypatch.setattr(
        catalog_module, "load_catalog", lambda _, **properties: opened.update(properties)
    )
    open_catalog(project(uri, "s3://b/w"))
    assert opened["uri"] == (
        "postgresql+psycopg2://me@db/c?connect_timeout=3&keepalives=1&keepalives_idle=30"
        "&keepalives_interval=10&keepalives_count=3&tcp_user_timeout=60000"
    )
    open_catalog(project("postgresql://me@db/c", "s3://b/w"))
    assert "/c?connect_timeout=10&keepalives=1" in opened["uri"]


def test_postgres_password_of_libpq(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PGPASSWORD", "hidden")
    conf = spark_catalog_conf(project("postgresql://me@db/c", "s3://b/w"))
    assert conf[f"{SPARK_LAKE}.jdbc.password"] == "hidden"


def test_rest_catalog(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLUICE_CATALOG_TOKEN", "t")
    conf = spark_catalog_conf(project("https://catalog", "s3://b/w", "rest"))
    assert conf[f"{SPARK_LAKE}.type"] == "rest"
    assert conf[f"{SPARK_LAKE}.uri"] == "https://catalog"
    assert conf[f"{SPARK_LAKE}.token"] == "t"


def test_a_rest_catalog_has_a_name_for_its_warehouse_and_properties() -> None:
    more = {"warehouse": "prod", "properties": {"scope": "PRINCIPAL_ROLE:ALL"}}
    conf = spark_catalog_conf(project("https://catalog", "s3://b/w", "rest", more))
    assert conf[f"{SPARK_LAKE}.warehouse"] == "prod"
    assert conf[f"{SPARK_LAKE}.scope"] == "PRINCIPAL_ROLE:ALL"


def test_s3_settings_only_where_used(embedded: Project) -> None:
    assert not uses_s3(embedded)
    assert not [name for name in spark_catalog_conf(embedded) if "s3" in name]


def test_s3_endpoint(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLUICE_S3_ENDPOINT", "http://s3:7070")
    monkeypatch.setenv("AWS_REGION", "eu-west-1")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "never-in-spark")
    conf = spark_catalog_conf(project("https://catalog", "s3://b/w", "rest"))
    hadoop = {k.removeprefix("spark.hadoop.fs."): v for k, v in conf.items() if ".fs." in k}
    assert hadoop["s3a.endpoint"] == "http://s3:7070"
    assert hadoop["s3a.path.style.access"] == "true"
    assert hadoop["s3a.endpoint.region"] == "eu-west-1"
    assert hadoop["s3.impl"] == hadoop["s3a.impl"]
    assert "never-in-spark" not in conf.values()


def test_hadoop_finds_the_keys_where_the_other_clients_do() -> None:
    conf = spark_catalog_conf(project("https://catalog", "s3://b/w", "rest"))
    providers = conf["spark.hadoop.fs.s3a.aws.credentials.provider"].split(",")
    assert [name.rsplit(".", 1)[-1] for name in providers] == [
        "TemporaryAWSCredentialsProvider",
        "SimpleAWSCredentialsProvider",
        "DefaultCredentialsProvider",
    ]


def test_class_of_the_catalog(embedded: Project) -> None:
    assert isinstance(open_catalog(embedded), SqlCatalog)


def test_first_opens_at_once_all_succeed(tmp_path: Path) -> None:
    """The SQL catalog makes its tables unguarded; of many first openers only one makes them."""
    (tmp_path / "sluice.yaml").write_text(
        'lake:\n  catalog: {type: jdbc, uri: "sqlite:///c.db"}\n  warehouse: w\n'
    )
    code = "import sys; from sluice.config.project import load_project; "
    code += "from sluice.catalog.client import *; "
    code += "project = load_project(sys.argv[1]); print(flush=True); "
    code += "sys.stdin.readline(); open_catalog(project)"
    command = [sys.executable, "-c", code, str(tmp_path)]
    pipe = subprocess.PIPE
    openers = [subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe) for _ in range(6)]
    for opener in openers:  # all of them have imported what they need, and wait
        assert opener.stdout is not None
        opener.stdout.readline()
    for opener in openers:
        assert opener.stdin is not None
        opener.stdin.write(b"\n")
        opener.stdin.flush()
    errors = [opener.communicate()[1].decode()[-500:] for opener in openers]
    assert [opener.returncode for opener in openers] == [0] * 6, errors
