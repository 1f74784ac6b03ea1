"""`sluice.yaml`: the lake with the project's tables, and the Spark that writes them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Final, Literal, Self
from urllib.parse import urlsplit

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from sluice.config.fields import Location, Strict, refuse_odd_path
from sluice.config.locations import S3_SCHEME
from sluice.config.secrets import refuse_secret_properties
from sluice.config.spark_conf import SparkConf
from sluice.environment import ENV_S3_ENDPOINT

MOST_LOAD_SECONDS: Final = 30 * 24 * 3600
SQLITE: Final = "sqlite:///"
CATALOG_SCHEMES: Final = {"jdbc": (SQLITE, "postgresql://"), "rest": ("http://", "https://")}

# What both clients of the catalog are told; with other values they would not see one lake.
_OWN_PROPERTIES: Final = (
    "type", "uri", "warehouse", "catalog-impl", "py-catalog-impl", "io-impl", "py-io-impl",
    "cache-enabled",
)  # fmt: skip


def _refuse_own(properties: dict[str, str]) -> dict[str, str]:
    if own := [name for name in properties if _is_own(name.lower())]:
        raise ValueError(
            f"none of those that Sluice sets, without {', '.join(own)}; a store's address is "
            f"{ENV_S3_ENDPOINT}"
        )
    return properties


def _is_own(name: str) -> bool:
    return name in _OWN_PROPERTIES or name.startswith("s3.")


CatalogProperties = Annotated[
    dict[str, str], AfterValidator(_refuse_own), BeforeValidator(refuse_secret_properties)
]


class CatalogConfig(Strict):
    """The Iceberg catalog, without its password: see `SLUICE_CATALOG_URI`."""

    type: Literal["jdbc", "rest"] = Field(description="which kind of Iceberg catalog")
    uri: str = Field(description="sqlite:///file, postgresql://user@host/db, or https:// for rest")
    warehouse: str | None = Field(
        None, min_length=1, description="rest: what the catalog calls the warehouse"
    )
    properties: CatalogProperties = Field(
        default_factory=dict, description="rest: more properties of Iceberg's, such as scope"
    )

    @model_validator(mode="after")
    def _scheme(self) -> Self:
        schemes = CATALOG_SCHEMES[self.type]
        if not self.uri.startswith(schemes) or self.uri == SQLITE:
            raise ValueError(f"a {self.type} catalog's uri that begins with {' or '.join(schemes)}")
        if self.type != "rest" and (self.warehouse or self.properties):
            raise ValueError("warehouse and properties with a rest catalog alone")
        if self.is_sqlite:
            refuse_odd_path(self.uri.removeprefix(SQLITE))
        return self

    @property
    def is_sqlite(self) -> bool:
        """Whether this is the embedded default."""
        return self.uri.startswith(SQLITE)

    @property
    def address(self) -> str:
        """The uri for messages: without user, password and parameters."""
        if self.is_sqlite:
            return self.uri
        parts = urlsplit(self.uri)
        return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"

    @property
    def sqlite_path(self) -> Path:
        """The database file of a sqlite URI."""
        return Path(self.uri.removeprefix(SQLITE))


class LakeConfig(Strict):
    """Where the tables are."""

    catalog: CatalogConfig = Field(description="the Iceberg catalog, without its password")
    warehouse: Location = Field(description="a folder, relative to this file, or s3://bucket/path")

    @property
    def catalog_warehouse(self) -> str:
        """The warehouse as the catalog calls it: its own name, or where the files are."""
        return self.catalog.warehouse or self.warehouse

    @property
    def on_s3(self) -> bool:
        """Whether the warehouse is a bucket."""
        return self.warehouse.startswith(S3_SCHEME)


class SparkConfig(Strict):
    """Where Spark runs; `SLUICE_SPARK_MASTER` wins over `master`."""

    master: str = Field("local[*]", description="Spark's master; in Airflow spark_default's")
    conf: SparkConf = Field(
        default_factory=dict, description="settings of Spark; they override Sluice's own"
    )
    max_load_seconds: int = Field(
        21_600, ge=60, le=MOST_LOAD_SECONDS, description="a driver that takes longer is stopped"
    )


class ProjectFile(Strict):
    """The content of `sluice.yaml`."""

    lake: LakeConfig = Field(description="where the tables are")
    spark: SparkConfig = Field(SparkConfig(), description="where Spark runs")
