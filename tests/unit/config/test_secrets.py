"""Secrets planted wherever a person may put them, and looked for wherever others may read."""

from __future__ import annotations

import json
import re
import traceback
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from sluice.catalog.spark import spark_catalog_conf
from sluice.config.project import load_project, load_sound
from sluice.config.project_file import CatalogConfig
from sluice.environment import ENV_CATALOG_URI
from sluice.errors import ConfigError
from sluice.spark_submit.submit import LOAD_BATCH, spark_conf, submit_command
from spark_jobs.session import DEFAULTS
from tests.all_readable import land
from tests.planted import PLANTED, SECRET_VARIABLES
from tests.unit.projects import open_shop

LAKE = {"catalog": {"type": "jdbc", "uri": "sqlite:///lake.db"}, "warehouse": "warehouse"}
SHOP = {"name": "shop", "format": "debezium", "namespace": "shop", "landing": {"url": "landing"}}


def write(root: Path, lake: dict[str, Any], shop: dict[str, Any], **top: Any) -> None:
    (root / "pipelines").mkdir(exist_ok=True)
    (root / "sluice.yaml").write_text(json.dumps({"lake": lake, **top}))
    (root / "pipelines" / "shop.yaml").write_text(json.dumps(shop))


def refusal(root: Path, lake: dict[str, Any], shop: dict[str, Any], **top: Any) -> str:
    write(root, lake, shop, **top)
    with pytest.raises(ConfigError) as caught:
        load_project(root)
    expected = "".join(traceback.format_exception(caught.value))
    assert PLANTED not in expected, "Airflow shows the causes of an error, too"
    assert "s3cr3t" not in expected
    return str(caught.value)


@pytest.mark.parametrize(
    "key",
    [
        "spark.hadoop.fs.s3a.secret.key",
        "spark.hadoop.fs.s3a.access.key",
        "spark.hadoop.fs.s3a.session.token",
        "spark.sql.catalog.lake.jdbc.password",
        "spark.sql.catalog.lake.credential",
        "spark.kerberos.keytab",
        "spark.ssl.keyPassword",
        "spark.hadoop.fs.azure.account.key.shop.dfs.core.windows.net",
        "spark.hadoop.fs.azure.sas.landing.shop.blob.core.windows.net",
        "spark.hadoop.fs.s3a.encryption.key",
        "spark.hadoop.fs.s3a.server-side-encryption.key",
        "spark.hadoop.fs.s3a.bucket.shop.encryption.key",
        "spark.hadoop.fs.gs.auth.service.account.private.key",
        "spark.hadoop.basic.auth.user.info",
        "spark.executorEnv.SCHEMA_REGISTRY_USER_INFO",
        "spark.executorEnv.DB_PWD",
        "spark.executorEnv.SHOP_APIKEY",
        "spark.executorEnv.X_API_KEY",
        "spark.sql.catalog.lake.header.Authorization",
        "spark.executorEnv.PROXY_AUTHORIZATION",
        "spark.executorEnv.SHOP_BEARER",
    ],
)
@pytest.mark.parametrize("value", [PLANTED, [PLANTED]])
def test_no_secret_among_sparks_settings(tmp_path: Path, key: str, value: Any) -> None:
    message = refusal(tmp_path, LAKE, SHOP, spark={"conf": {key: value}})
    assert (
        f"spark.conf: expected no secret: {key} would be on spark-submit's command line" in message
    )
    assert "SPARK_CONF_DIR" in message


@pytest.mark.parametrize(
    "value",
    [
        f"-Xmx2g -Djavax.net.ssl.trustStorePassword={PLANTED} -Da=b",
        f"-Dx.y='secretKey={PLANTED}'",
        f"jdbc:p://u:{PLANTED}@h/db",
        f"-Dhttp.proxy=http://u:{PLANTED}@h:1",
        f"https://h/?a=1&access_token={PLANTED}",
        f"jdbc:sqlserver://h;user=u;password={PLANTED}",
        f"jdbc:sqlserver://h;user=u;pwd={PLANTED}",
        f"DefaultEndpointsProtocol=https;AccountName=a;AccountKey={PLANTED}",
        f"https://a.blob.core.windows.net/c?sv=2026&sig={PLANTED}",
    ],
)
def test_no_secret_in_what_a_setting_of_spark_holds(tmp_path: Path, value: str) -> None:
    key = "spark.driver.extraJavaOptions"
    message = refusal(tmp_path, LAKE, SHOP, spark={"conf": {key: value, "spark.ui.port": 4040}})
    assert f"expected no secret: what {key} holds would be on spark-submit's" in message


def test_places_of_secrets_are_allowed_among_sparks_settings(tmp_path: Path) -> None:
    conf = {
        "spark.hadoop.fs.s3a.aws.credentials.provider": "org.example.Provider",
        "spark.hadoop.hadoop.security.credential.provider.path": "jceks://file/keys",
        "spark.driver.extraJavaOptions": "-Da.credentials.provider=org.P -Dx=http://h:80 -Dy=a@b",
        "spark.jars.repositories": "https://repo:8443/a,https://other/b",
        "spark.hadoop.fs.azure.account.keyprovider.shop.dfs.core.windows.net": "org.example.Keys",
        "spark.hadoop.fs.azure.sas.token.provider.type": "org.example.Sas",
        "spark.hadoop.fs.cosn.userinfo.region": "ap-guangzhou",
        "spark.io.encryption.keySizeBits": 256,
        "spark.hadoop.parquet.encryption.key.material.store.internally": True,
        "spark.hadoop.hadoop.security.authorization": True,
        "spark.hadoop.hbase.security.authorization": True,
        "spark.hadoop.fs.azure.authorization": True,
        "spark.hadoop.yarn.authorization-provider": "org.example.Rights",
        "spark.hadoop.hive.security.authorization.enabled": False,
        "spark.ssl.privateKey": "/etc/ssl/server.pem",
        "spark.ssl.ui.privateKey": "/etc/ssl/ui.pem",
    }
    write(tmp_path, LAKE, SHOP, spark={"conf": conf})
    assert load_project(tmp_path).spark.conf == conf


@pytest.mark.parametrize(
    ("kind", "uri"),
    [
        ("jdbc", f"postgresql://u:{PLANTED}@h/db"),
        ("jdbc", f"postgresql://u@h/db?sslpassword={PLANTED}"),
        ("jdbc", f"postgresql://u@h/db?user=u&PassWord={PLANTED}"),
        ("rest", f"https://h/?token={PLANTED}"),
        ("rest", f"https://h/v1?client_secret={PLANTED}&x=1"),
        ("rest", "https://s3cr3t@h/v1"),
        ("rest", f"https://h/v1#token={PLANTED}"),
        ("jdbc", f"mysql://u:{PLANTED}@h/db"),
    ],
)
def test_no_secret_in_the_catalogs_address(tmp_path: Path, kind: str, uri: str) -> None:
    message = refusal(tmp_path, {**LAKE, "catalog": {"type": kind, "uri": uri}}, SHOP)
    assert "sluice.yaml" in message
    assert "lake.catalog" in message


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("credential", PLANTED),
        ("header.Authorization", PLANTED),
        ("header.x-auth", PLANTED),
        ("header.Cookie", f"session={PLANTED}"),
        ("s3.access-key-id", PLANTED),
        ("oauth2-server-uri", f"https://u:{PLANTED}@h/token"),
    ],
)
def test_no_secret_among_a_catalogs_properties(tmp_path: Path, key: str, value: str) -> None:
    catalog = {"type": "rest", "uri": "https://h", "properties": {key: value}}
    message = refusal(tmp_path, {**LAKE, "catalog": catalog}, SHOP)
    assert "lake.catalog.properties: expected no secret" in message
    assert key in message
    assert "in SLUICE_CATALOG_TOKEN or SLUICE_CATALOG_CREDENTIAL, those of S3 in AWS_" in message


def test_switches_of_tokens_are_no_secrets(tmp_path: Path) -> None:
    switches = {"token-exchange-enabled": "false", "token-expires-in-ms": "1"}
    catalog = {"type": "rest", "uri": "https://h", "properties": switches}
    write(tmp_path, {**LAKE, "catalog": catalog}, SHOP)
    assert load_project(tmp_path).lake.catalog.properties == switches


@pytest.mark.parametrize("bucket", [f"s3://AKIA:{PLANTED}@bucket/x", "s3a://AKIA:s3cr3t@bucket"])
def test_no_keys_in_a_location(tmp_path: Path, bucket: str) -> None:
    assert "landing.url: expected a folder or s3://bucket/prefix, without keys" in refusal(
        tmp_path, LAKE, {**SHOP, "landing": {"url": bucket}}
    )
    assert "lake.warehouse" in refusal(tmp_path, {**LAKE, "warehouse": bucket}, SHOP)


def test_no_secret_among_a_formats_options(tmp_path: Path) -> None:
    options = {"schema_registry": f"https://u:{PLANTED}@h", "password": PLANTED}
    message = refusal(tmp_path, LAKE, {**SHOP, "format_options": options})
    assert "format_options.password: unknown key; secrets are in the environment: " in message
    assert "format_options.schema_registry: expected no password or token" in message


@pytest.mark.parametrize(
    "registry",
    [
        f"https://{PLANTED}@h",
        f"u:{PLANTED}@h:8081",
        f"https://h:{PLANTED}",
        f"https://user%3A{PLANTED}%40h/",
        f"https://:{PLANTED}",
    ],
)
def test_a_registrys_address_is_not_shown(tmp_path: Path, registry: str) -> None:
    """A token as the user, a scheme or a host that is missing: it may stand anywhere."""
    message = refusal(tmp_path, LAKE, {**SHOP, "format_options": {"schema_registry": registry}})
    assert "format_options.schema_registry: expected http(s)://host[:port] without user" in message


def test_options_of_a_format_are_a_pipelines(tmp_path: Path) -> None:
    message = refusal(tmp_path, LAKE, SHOP, format_options={"a": 1})
    assert "format_options: unknown key" in message


@pytest.mark.parametrize("place", ["tables", "modes", "maintenance", "format_options"])
def test_value_in_the_wrong_place_is_shown_by_its_keys_alone(tmp_path: Path, place: str) -> None:
    for wrong in ({"password": PLANTED}, [{"password": PLANTED}]):
        refusal(tmp_path, LAKE, {**SHOP, place: wrong})


@pytest.mark.parametrize("rest", [f"/?token={PLANTED}", "@h/", "/#s3cr3t"])
def test_a_rest_catalogs_secret_is_not_in_its_address(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rest: str
) -> None:
    monkeypatch.setenv(ENV_CATALOG_URI, f"https://s3cr3t{rest}")
    lake = {**LAKE, "catalog": {"type": "rest", "uri": "https://h"}}
    problem = (
        f"{ENV_CATALOG_URI}: expected no password or token in a rest catalog's address; give it"
    )
    assert f"{problem} in SLUICE_CATALOG_TOKEN" in refusal(tmp_path, lake, SHOP)


def test_secrets_of_a_query_are_apart_from_the_address(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    query = "user=me&password=PLANTED1&sslmode=verify-full&sslpassword=PLANTED2&sslrootcert=/a/b"
    monkeypatch.setenv(ENV_CATALOG_URI, f"postgresql://h/db?{query}")
    write(tmp_path, LAKE, SHOP)
    conf = spark_catalog_conf(load_project(tmp_path))
    lake = {name.removeprefix("spark.sql.catalog.lake."): value for name, value in conf.items()}
    assert lake["uri"] == "jdbc:postgresql://h/db?sslmode=verify-full&sslrootcert=/a/b"
    assert lake["jdbc.user"] == "me"
    assert lake["jdbc.password"] == "PLANTED1"
    assert lake["jdbc.sslpassword"] == "PLANTED2"


def test_the_environments_secrets_are_on_no_command_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in SECRET_VARIABLES:
        monkeypatch.setenv(name, PLANTED)
    monkeypatch.setenv(ENV_CATALOG_URI, f"postgresql://u:PLANTED@h/db?sslpassword={PLANTED}")
    write(tmp_path, {**LAKE, "warehouse": "s3://bucket/lake"}, SHOP)
    project = load_sound(tmp_path)
    assert "PLANTED" not in " ".join(submit_command(project, LOAD_BATCH))
    assert "PLANTED" not in json.dumps(spark_conf(project, small=False))


@pytest.mark.catalog
def test_the_environments_secrets_are_in_no_manifest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in SECRET_VARIABLES:
        monkeypatch.setenv(name, PLANTED)
    ctx = open_shop(tmp_path)
    (tmp_path / "landing" / "a.jsonl").write_text('{"a": 1}\n')
    manifests = land(ctx)
    assert manifests
    for path in manifests:
        assert "PLANTED" not in ctx.files.read_manifest(path).to_json()
    written = [p.read_bytes() for p in Path(ctx.project.lake.warehouse).rglob("*") if p.is_file()]
    assert written
    assert not [content for content in written if b"PLANTED" in content]


@pytest.mark.parametrize(
    "name",
    [
        "password", "passwd", "credential", "token", "access.key", "keytab", "account.key.shop",
        "encryption.key", "private.key", "azure.sas.c", "user_info", "pwd", "api-key",
        "header.authorization", "bearer",
    ],
)  # fmt: skip
def test_spark_redacts_what_it_prints_of_its_settings(name: str) -> None:
    assert re.search(DEFAULTS["spark.redaction.regex"], f"spark.sql.catalog.lake.{name.upper()}")


@pytest.mark.parametrize("password", ["Kx9/ab+c", "x@y", "a#b", "a?b", "a/b@c:d"])
def test_a_password_that_ends_an_address_early_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, password: str
) -> None:
    """Spark's reader took the rest of it for a host, and showed it in every error."""
    write(tmp_path, LAKE, SHOP)
    monkeypatch.setenv(ENV_CATALOG_URI, f"postgresql://sluice:{password}@db.internal:5432/catalog")
    with pytest.raises(ConfigError, match="%2F") as caught:
        load_project(tmp_path)
    assert password not in str(caught.value)
    quoted = quote(password, safe="")
    monkeypatch.setenv(ENV_CATALOG_URI, f"postgresql://sluice:{quoted}@db.internal:5432/catalog")
    conf = spark_catalog_conf(load_project(tmp_path))
    assert conf["spark.sql.catalog.lake.uri"] == "jdbc:postgresql://db.internal:5432/catalog"
    assert conf["spark.sql.catalog.lake.jdbc.password"] == password


def test_no_secret_in_the_traceback_of_a_refused_address(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(ENV_CATALOG_URI, "mysql://u:s3cr3t@db/c")
    assert "expected to begin with" in refusal(tmp_path, LAKE, SHOP)


NO_HOST = [
    "postgresql://sluice:s3cr3tpw/catalog",
    "postgresql://sluice:s3cr3tpw@h:abc/db",
    "postgresql://sluice:1?s3cr3tpw@h/db",
    "postgresql://sluice:s3cr3tpw@[::1/db",
    "postgresql://sluice:s3cr3tpw@h\u2100/db",
]


@pytest.mark.parametrize("uri", NO_HOST)
def test_an_address_whose_host_cannot_be_read_shows_no_password(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, uri: str
) -> None:
    """Without the host the password is where the port belongs, and the libraries quote that."""
    monkeypatch.setenv(ENV_CATALOG_URI, uri)
    message = refusal(tmp_path, LAKE, SHOP)
    assert f"{ENV_CATALOG_URI}: expected postgresql://user:password@host:port/database" in message


@pytest.mark.parametrize("uri", NO_HOST)
def test_address_with_a_password_is_refused_in_the_project_file(tmp_path: Path, uri: str) -> None:
    message = refusal(tmp_path, {**LAKE, "catalog": {"type": "jdbc", "uri": uri}}, SHOP)
    assert "lake.catalog.uri: expected no password in the file" in message
    wrong = {"type": "jdbc", "uri": uri.replace("postgresql", "mysql")}
    assert "that begins with" in refusal(tmp_path, {**LAKE, "catalog": wrong}, SHOP)


@pytest.mark.parametrize("uri", ["https://h:8181/api", "https://[::1]:8181/api", "https://h"])
def test_an_address_with_a_port_is_none_with_a_password(tmp_path: Path, uri: str) -> None:
    write(tmp_path, {**LAKE, "catalog": {"type": "rest", "uri": uri}}, SHOP)
    assert load_project(tmp_path).lake.catalog.uri == uri


@pytest.mark.parametrize("name", [*SECRET_VARIABLES, "SCHEMA_REGISTRY_TOKEN", ENV_CATALOG_URI])
@pytest.mark.parametrize("end", ["\n", "\r", "\x7f"])
def test_a_secret_with_a_line_end_is_refused_by_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, end: str
) -> None:
    """Clients show a header that cannot be sent, so it must not get as far as them."""
    monkeypatch.setenv(name, f"{PLANTED}{end}")
    write(tmp_path, LAKE, SHOP)
    with pytest.raises(ConfigError) as caught:
        load_sound(tmp_path)
    assert name in str(caught.value)
    assert "s3cr3t" not in "".join(traceback.format_exception(caught.value))


def test_a_catalog_is_shown_without_user_password_and_parameters() -> None:
    uri = "postgresql://u:s3cr3t@h:5432/lake?password=s3cr3t"
    assert CatalogConfig(type="jdbc", uri=uri).address == "postgresql://h:5432/lake"
