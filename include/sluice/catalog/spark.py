"""The one Iceberg catalog as Spark is told of it; see `client.py` for pyiceberg.

Nothing here needs pyiceberg: a driver asks for its session before it imports that. The settings
may hold a password: set them inside the driver, never on spark-submit's command line.
"""

from __future__ import annotations

import os
from typing import Final
from urllib.parse import SplitResult, parse_qsl, unquote, urlencode, urlsplit, urlunsplit

from sluice.config.places import s3_endpoint
from sluice.config.project import Project
from sluice.config.project_file import CatalogConfig
from sluice.config.secrets import is_secret
from sluice.names import CATALOG

ENV_REST_TOKEN: Final = "SLUICE_CATALOG_TOKEN"
ENV_REST_CREDENTIAL: Final = "SLUICE_CATALOG_CREDENTIAL"
SQLITE_WAIT_SECONDS: Final = 60
POSTGRES_CONNECT_SECONDS: Final = 10
POSTGRES_ANSWER_SECONDS: Final = 60
ICEBERG_EXTENSIONS: Final = "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions"

_PREFIX: Final = f"spark.sql.catalog.{CATALOG}"
# Iceberg hands on to the driver what begins with `jdbc.`.
_POSTGRES_LIMITS: Final = {
    ".jdbc.connectTimeout": str(POSTGRES_CONNECT_SECONDS),
    ".jdbc.socketTimeout": str(POSTGRES_ANSWER_SECONDS),
    ".jdbc.tcpKeepAlive": "true",
}
_S3A: Final = "org.apache.hadoop.fs.s3a.S3AFileSystem"
# Keys in Hadoop's settings, then what boto3 and pyarrow find: the environment, a web identity, a
# profile, a role. Not the providers of these one by one: that of web identities, where there is
# none, raises what ends Hadoop's search.
_S3A_CREDENTIALS: Final = (
    "org.apache.hadoop.fs.s3a.TemporaryAWSCredentialsProvider",
    "org.apache.hadoop.fs.s3a.SimpleAWSCredentialsProvider",
    "software.amazon.awssdk.auth.credentials.DefaultCredentialsProvider",
)


def spark_catalog_conf(project: Project) -> dict[str, str]:
    """What Spark needs to reach the same tables, and S3 where the project uses it."""
    lake = {
        "": "org.apache.iceberg.spark.SparkCatalog",
        ".warehouse": project.lake.warehouse,
        ".io-impl": "org.apache.iceberg.hadoop.HadoopFileIO",
        ".cache-enabled": "false",
        **_spark_properties(project.lake.catalog),
    }
    conf = {f"{_PREFIX}{name}": value for name, value in lake.items()}
    return {"spark.sql.extensions": ICEBERG_EXTENSIONS, **conf, **_hadoop_conf(project)}


def uses_s3(project: Project) -> bool:
    """True when the warehouse or any landing folder is in a bucket."""
    return project.lake.on_s3 or any(p.landing.on_s3 for p in project.pipelines.values())


def s3_region() -> str | None:
    """The region as the AWS clients look it up."""
    return os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION")


def _spark_properties(catalog: CatalogConfig) -> dict[str, str]:
    if catalog.type == "rest":
        secrets = {f".{name}": value for name, value in rest_secrets().items()}
        return {".type": "rest", ".uri": catalog.uri, **secrets}
    common = {".type": "jdbc", ".jdbc.schema-version": "V1"}
    if catalog.is_sqlite:
        wait = str(SQLITE_WAIT_SECONDS * 1000)
        uri = f"jdbc:sqlite:{catalog.sqlite_path}"
        return {**common, ".uri": uri, ".jdbc.busy_timeout": wait}
    return {**common, **_postgres(urlsplit(catalog.uri))}


def rest_secrets() -> dict[str, str]:
    """How a REST catalog knows who asks, from the environment."""
    found = {
        "token": os.environ.get(ENV_REST_TOKEN),
        "credential": os.environ.get(ENV_REST_CREDENTIAL),
    }
    return {name: value for name, value in found.items() if value}


def _postgres(uri: SplitResult) -> dict[str, str]:
    """The URI for JDBC, which takes user and secrets as properties: Iceberg's errors tell URIs."""
    host = uri.netloc.rpartition("@")[2]
    given = parse_qsl(uri.query)
    apart = {name: value for name, value in given if name == "user" or is_secret(name)}
    told = urlencode([(name, value) for name, value in given if name not in apart], safe="/:")
    plain = urlunsplit(("postgresql", host, uri.path, told, ""))
    secrets = {"user": _user(uri), "password": _password(uri), **apart}
    properties = {f".jdbc.{name}": value for name, value in secrets.items() if value}
    return {".uri": f"jdbc:{plain}", **_POSTGRES_LIMITS, **properties}


def _user(uri: SplitResult) -> str | None:
    return unquote(uri.username) if uri.username else os.environ.get("PGUSER")


def _password(uri: SplitResult) -> str | None:
    return unquote(uri.password) if uri.password else os.environ.get("PGPASSWORD")


def _hadoop_conf(project: Project) -> dict[str, str]:
    """Hadoop's S3 client; it takes the keys from where they are by itself."""
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
