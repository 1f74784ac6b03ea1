"""The Iceberg catalog for Spark; see `client.py` for pyiceberg.

Nothing here imports pyiceberg: a driver starts its session before it imports that. The settings may
hold a password: set them inside the driver, never on spark-submit's command line.
"""

from __future__ import annotations

import os
from typing import Final
from urllib.parse import SplitResult, parse_qsl, unquote, urlencode, urlsplit, urlunsplit

from sluice.config.locations import s3_endpoint
from sluice.config.project import Project
from sluice.config.project_file import CatalogConfig
from sluice.config.secrets import is_secret
from sluice.environment import ENV_REST_CREDENTIAL, ENV_REST_TOKEN, from_environment
from sluice.names import CATALOG

SQLITE_WAIT_SECONDS: Final = 60
POSTGRES_CONNECT_SECONDS: Final = 10
POSTGRES_ANSWER_SECONDS: Final = 60
ICEBERG_EXTENSIONS: Final = "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions"

_PREFIX: Final = f"spark.sql.catalog.{CATALOG}"
# Iceberg passes properties with the prefix `jdbc.` to the JDBC driver.
_POSTGRES_LIMITS: Final = {
    ".jdbc.connectTimeout": str(POSTGRES_CONNECT_SECONDS),
    ".jdbc.socketTimeout": str(POSTGRES_ANSWER_SECONDS),
    ".jdbc.tcpKeepAlive": "true",
}
_S3A: Final = "org.apache.hadoop.fs.s3a.S3AFileSystem"
# First the keys in Hadoop's settings, then the order of boto3 and pyarrow: environment, web
# identity, profile, role. The latter are one provider, not several: without a web identity, the
# error of its provider would end Hadoop's search.
_S3A_CREDENTIALS: Final = (
    "org.apache.hadoop.fs.s3a.TemporaryAWSCredentialsProvider",
    "org.apache.hadoop.fs.s3a.SimpleAWSCredentialsProvider",
    "software.amazon.awssdk.auth.credentials.DefaultCredentialsProvider",
)


def spark_catalog_conf(project: Project) -> dict[str, str]:
    """Return Spark's settings for the catalog, and for S3 where the project uses it."""
    lake = {
        "": "org.apache.iceberg.spark.SparkCatalog",
        ".warehouse": project.lake.catalog_warehouse,
        ".io-impl": "org.apache.iceberg.hadoop.HadoopFileIO",
        ".cache-enabled": "false",
        **_spark_properties(project.lake.catalog),
    }
    conf = {f"{_PREFIX}{name}": value for name, value in lake.items()}
    return {"spark.sql.extensions": ICEBERG_EXTENSIONS, **conf, **_hadoop_conf(project)}


def uses_s3(project: Project) -> bool:
    """Whether the warehouse or any landing folder is in a bucket."""
    return project.lake.on_s3 or any(p.landing.on_s3 for p in project.pipelines.values())


def s3_region() -> str | None:
    """Return the region from the variables that the AWS clients read."""
    return os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION")


def _spark_properties(catalog: CatalogConfig) -> dict[str, str]:
    if catalog.type == "rest":
        more = catalog.properties | rest_secrets()
        return {".type": "rest", ".uri": catalog.uri, **{f".{k}": v for k, v in more.items()}}
    common = {".type": "jdbc", ".jdbc.schema-version": "V1"}
    if catalog.is_sqlite:
        wait = str(SQLITE_WAIT_SECONDS * 1000)
        uri = f"jdbc:sqlite:{catalog.sqlite_path}"
        return {**common, ".uri": uri, ".jdbc.busy_timeout": wait}
    return {**common, **_postgres(urlsplit(catalog.uri))}


def rest_secrets() -> dict[str, str]:
    """Return the credentials for a REST catalog from the environment."""
    return from_environment({"token": ENV_REST_TOKEN, "credential": ENV_REST_CREDENTIAL})


def _postgres(uri: SplitResult) -> dict[str, str]:
    """Return URI and properties for JDBC; the URI has no secrets, since errors show it."""
    host = uri.netloc.rpartition("@")[2]
    given = parse_qsl(uri.query)
    credentials = {name: value for name, value in given if name == "user" or is_secret(name)}
    query = urlencode(
        [(name, value) for name, value in given if name not in credentials], safe="/:"
    )
    plain = urlunsplit(("postgresql", host, uri.path, query, ""))
    secrets = {"user": _user(uri), "password": _password(uri), **credentials}
    properties = {f".jdbc.{name}": value for name, value in secrets.items() if value}
    return {".uri": f"jdbc:{plain}", **_POSTGRES_LIMITS, **properties}


def _user(uri: SplitResult) -> str | None:
    return unquote(uri.username) if uri.username else os.environ.get("PGUSER")


def _password(uri: SplitResult) -> str | None:
    return unquote(uri.password) if uri.password else os.environ.get("PGPASSWORD")


def _hadoop_conf(project: Project) -> dict[str, str]:
    """Return the settings of Hadoop's S3 client, which finds the keys itself."""
    if not uses_s3(project):
        return {}
    conf = {
        "fs.s3.impl": _S3A,
        "fs.s3a.impl": _S3A,
        "fs.s3a.aws.credentials.provider": ",".join(_S3A_CREDENTIALS),
    }
    if endpoint := s3_endpoint():
        conf["fs.s3a.endpoint"] = endpoint
        conf["fs.s3a.path.style.access"] = "true"
        conf["fs.s3a.connection.ssl.enabled"] = str(endpoint.startswith("https://")).lower()
    if region := s3_region():
        conf["fs.s3a.endpoint.region"] = region
    for pipeline in project.pipelines.values():
        conf |= _bucket_region(pipeline.landing.url, pipeline.landing.region)
    return {f"spark.hadoop.{name}": value for name, value in conf.items()}


def _bucket_region(url: str, region: str | None) -> dict[str, str]:
    if not region:
        return {}
    return {f"fs.s3a.bucket.{urlsplit(url).netloc}.endpoint.region": region}
