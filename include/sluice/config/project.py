"""The project: `sluice.yaml` and `pipelines/*.yaml`, checked before anything runs."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Final, Literal, TypeVar

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    ValidationError,
    ValidationInfo,
    WithJsonSchema,
    field_validator,
)

from sluice.bounds import FILE_BYTES, MEBIBYTE, RATIO
from sluice.config.checks import Check
from sluice.config.collations import Collations, NullKeys, beside_key, of_key
from sluice.config.ddl_files import ToldTables, with_ddl
from sluice.config.epochs import MAX_EPOCH, FullLoads
from sluice.config.fields import (
    Hints,
    Key,
    Location,
    Namespace,
    NullMisfits,
    PartitionText,
    Pattern,
    PipelineName,
    Region,
    Schedule,
    Strict,
    TableName,
)
from sluice.config.format_options import FormatOptions
from sluice.config.format_versions import refuse_unwritable
from sluice.config.formats import (
    WIRE_FORMATS,
    FormatName,
    WireFormat,
    options_model,
    refuse_unknown_ends,
)
from sluice.config.maintenance import Maintenance
from sluice.config.mistakes import explain
from sluice.config.overlap import Written, refuse_overlap
from sluice.config.partitions import Partition, parse_partition
from sluice.config.places import S3_SCHEME, WAREHOUSE, refuse_globs, refuse_landing, resolved
from sluice.config.policies import EVOLVE, FAIL
from sluice.config.project_file import (
    CATALOG_SCHEMES,
    SQLITE,
    CatalogConfig,
    Lake,
    ProjectFile,
    Spark,
)
from sluice.config.renames import RenamedColumns
from sluice.config.schema_change import OnSchemaChange, OnTypeChange, refuse_unheeded
from sluice.config.secrets import holds_secret, is_clear, shortened
from sluice.config.source_tables import (
    OnTruncate,
    SourceTables,
    refuse_patterns,
    refuse_shared_sources,
)
from sluice.config.yaml_file import Document, by_name, read_yaml
from sluice.errors import ConfigError
from sluice.modes import CURRENT, Modes, needs_key
from sluice.names import full_name
from sluice.types.columns import ColumnType, parse_type

PROJECT_FILE: Final = "sluice.yaml"
PIPELINES_FOLDER: Final = "pipelines"
ENV_CATALOG_URI: Final = "SLUICE_CATALOG_URI"
ENV_SPARK_MASTER: Final = "SLUICE_SPARK_MASTER"
SHARE_COUNTS_FROM: Final = 100
HOLD: Final = "hold"
MAX_LEASE_SECONDS: Final = 7 * 24 * 3600

_M = TypeVar("_M", bound=Strict)


class Landing(Strict):
    """Where the events' files arrive."""

    url: Location = Field(description="a folder, relative to sluice.yaml, or s3://bucket/prefix")
    pattern: Pattern = "**/*"
    region: Region | None = None

    @property
    def on_s3(self) -> bool:
        """True when the files are in a bucket."""
        return self.url.startswith(S3_SCHEME)


class TableConfig(SourceTables):
    """What the events do not say about one table, or what should win over them."""

    key: Key = None
    columns: Hints = Field(default_factory=dict)
    collations: Collations = Field(default_factory=dict)
    null_keys: NullKeys = Field(default_factory=list)
    null_misfits: NullMisfits = Field(default_factory=list)
    renamed_columns: RenamedColumns = Field(default_factory=dict)
    partition_by: list[PartitionText] = Field(
        default_factory=list, description="col, days(col), bucket(16, col), truncate(4, col) …"
    )
    modes: Modes | None = Field(
        None,
        description="current or soft_delete, and beside it history, append; absent: the pipeline's",
    )
    write_mode: Literal["merge-on-read", "copy-on-write"] = "merge-on-read"
    format_version: Literal[2, 3] = 2
    checks: list[Check] = Field(
        default_factory=list, description="queries that must find nothing, or nothing is published"
    )
    max_row_swing: float | None = Field(
        None, gt=0, description="share of its rows that a batch may add or take; absent: any"
    )

    @property
    def types(self) -> dict[str, ColumnType]:
        """The hints, parsed."""
        return {column: parse_type(hint) for column, hint in self.columns.items()}

    @property
    def partitions(self) -> tuple[Partition, ...]:
        """`partition_by`, parsed."""
        return tuple(parse_partition(text) for text in self.partition_by)


class Pipeline(ToldTables):
    """The content of one `pipelines/*.yaml`: which files go into which tables, and how."""

    name: PipelineName
    format: FormatName
    format_options: Annotated[FormatOptions, WithJsonSchema({"type": "object"})] = Field(
        FormatOptions(), validate_default=True, description="the format's own, see its page"
    )
    landing: Landing
    namespace: Namespace
    table_name: TableName = "{table}"
    modes: Modes = Field([CURRENT])
    tables: dict[str, TableConfig] | None = None
    schedule: Schedule | None = "0 * * * *"
    on_bad_record: Literal["quarantine", "fail"] = "quarantine"
    max_bad_records: int = Field(1000, ge=0)
    max_bad_share: float = Field(0.1, ge=0, le=1)
    on_schema_change: OnSchemaChange = "evolve"
    on_type_change: OnTypeChange = Field("fail", validate_default=True)
    consistency: Literal["batch", "table"] = "batch"
    on_open_transaction: Literal["apply", "hold"] = "apply"
    on_truncate: OnTruncate = "apply"
    on_drop_table: Literal["keep", "empty", "fail"] = "keep"
    on_rename_table: Literal["keep", "fail"] = "keep"
    on_position_reset: Literal["fail", "accept"] = "fail"
    epoch: int = Field(0, ge=0, le=MAX_EPOCH)
    full_loads: FullLoads = Field(default_factory=list)
    max_files_per_batch: int = Field(10_000, ge=1)
    max_bytes_per_batch: int = Field(10 * 1024 * MEBIBYTE, ge=1)
    max_document_bytes: int = Field(64 * MEBIBYTE, ge=1024)
    max_tables_per_batch: int = Field(500, ge=1)
    max_columns_per_table: int = Field(1000, ge=1)
    max_plain_bytes_per_file: int = Field(FILE_BYTES, ge=MEBIBYTE)
    max_compression_ratio: int = Field(RATIO, ge=1)
    max_staged_bytes_per_file: int = Field(FILE_BYTES, ge=MEBIBYTE)
    keep_tags: int = Field(72, ge=1)
    lease_seconds: int = Field(300, ge=10, le=MAX_LEASE_SECONDS)
    maintenance: Maintenance = Maintenance()

    @field_validator("format_options", mode="before")
    @classmethod
    def _of_the_format(cls, value: Any, info: ValidationInfo) -> FormatOptions:
        if "format" not in info.data:
            return FormatOptions()  # the format is refused; nothing tells its options
        given = {} if isinstance(value, FormatOptions) else value
        return options_model(info.data["format"]).model_validate(given)

    @field_validator("on_type_change")
    @classmethod
    def _columns_may_come(cls, value: str, info: ValidationInfo) -> str:
        policy = info.data.get("on_schema_change", EVOLVE)
        refuse_unheeded(value, policy, info.data.get("tables"))
        return value

    @field_validator("on_open_transaction")
    @classmethod
    def _ends_known(cls, value: str, info: ValidationInfo) -> str:
        if value == HOLD:
            refuse_unknown_ends(info.data.get("format", ""), info.data.get("consistency", ""))
        return value

    @field_validator("tables", mode="before")
    @classmethod
    def _empty_is_default(cls, value: Any) -> Any:
        """`public.orders:` with nothing after it takes the table as the events describe it."""
        if isinstance(value, Mapping):
            return {name: {} if table is None else table for name, table in value.items()}
        return value

    @field_validator("tables")
    @classmethod
    def _fit_together(
        cls, value: dict[str, TableConfig] | None, info: ValidationInfo
    ) -> dict[str, TableConfig] | None:
        refuse_patterns(value or ())
        refuse_shared_sources(value)
        for name, table in (value or {}).items():
            refused = needs_key(table.modes or info.data.get("modes", []))
            if refused and table.key == []:
                raise ValueError(f"a key for {name}, or its modes without {', '.join(refused)}")
            if beside := beside_key(table.key, (*table.collations, *table.null_keys)):
                raise ValueError(
                    f"of {name} only columns of its key in `collations` and `null_keys`: {beside}"
                )
            if keyed := of_key(table.key, table.null_misfits):
                raise ValueError(f"of {name} no column of its key in `null_misfits`: {keyed}")
        return value

    @property
    def wire(self) -> WireFormat:
        """The facts of its format."""
        return WIRE_FORMATS[self.format]

    def modes_of(self, table: TableConfig) -> tuple[str, ...]:
        """The modes of a table: its own, else the pipeline's."""
        return tuple(self.modes if table.modes is None else table.modes)

    @property
    def holds_transactions(self) -> bool:
        """Whether the events of a transaction wait until its end has landed."""
        return self.on_open_transaction == HOLD

    @property
    def each_table_alone(self) -> bool:
        """Whether a batch's tables are published without those that cannot be loaded."""
        return self.consistency == "table"

    def full_name(self, target: str) -> str:
        """One of its tables, for people."""
        return full_name(self.namespace, target)

    def too_many_bad(self, bad: int, read: int) -> bool:
        """True above a ceiling; the share counts from 100 records on, not in a tiny batch."""
        if self.on_bad_record == FAIL:
            return bad > 0
        by_share = read >= SHARE_COUNTS_FROM and bad > self.max_bad_share * read
        return bad > self.max_bad_records or by_share


class Project(BaseModel):
    """A project folder, checked and with absolute paths.

    `files`: which each pipeline was read from. `broken` has what is wrong with a pipeline's file,
    by the name that it gives to the pipeline, or its own without the ending.
    """

    model_config = ConfigDict(frozen=True)

    root: Path
    lake: Lake
    spark: Spark
    pipelines: dict[str, Pipeline]
    files: dict[str, Path] = Field(default_factory=dict)
    broken: dict[str, str] = Field(default_factory=dict)

    def pipeline(self, name: str) -> Pipeline:
        """The pipeline called `name`; raises ConfigError listing those there are."""
        if name in self.broken:
            raise ConfigError(self.broken[name])
        if name not in self.pipelines:
            known = ", ".join(sorted(self.pipelines)) or "none"
            raise ConfigError(f"no pipeline {name!r} in {self.root}; there are: {known}")
        return self.pipelines[name]


def load_project(folder: Path | str) -> Project:
    """Read and check a project; raises ConfigError with one line for every mistake."""
    project = load_sound(folder)
    if project.broken:
        raise ConfigError("\n".join(project.broken.values()))
    return project


def load_sound(folder: Path | str) -> Project:
    """Read what is right of a project, for one pipeline's mistake must not stop the others.

    Raises ConfigError where the project's own file is wrong, or two pipelines are in each other's
    way; a pipeline that is wrong by itself is in `broken`.
    """
    root = Path(folder).expanduser().resolve()
    document = read_yaml(_existing(root))
    top = _checked(ProjectFile, document)
    lake = _resolve_lake(root, top.lake)
    refuse_globs(document, WAREHOUSE, lake.warehouse)
    written, broken = _load_pipelines(root, lake)
    return Project(
        root=root,
        lake=lake,
        spark=_spark(top),
        pipelines={pipeline.name: pipeline for _, pipeline in written},
        files={pipeline.name: document.path for document, pipeline in written},
        broken=broken,
    )


def _existing(root: Path) -> Path:
    path = root / PROJECT_FILE
    if not path.is_file():
        raise ConfigError(f"{path}: expected a project folder with a {PROJECT_FILE}")
    return path


def _checked(model: type[_M], document: Document) -> _M:
    try:
        return model.model_validate(document.data)
    except ValidationError as error:
        # The library's own text quotes what it was given, which may be a secret.
        raise ConfigError(explain(model, error, document)) from None


def _load_pipelines(root: Path, lake: Lake) -> tuple[list[Written], dict[str, str]]:
    folder = root / PIPELINES_FOLDER
    files = sorted(p for p in folder.glob("[!.]*.y*ml") if p.suffix in (".yaml", ".yml"))
    pipelines: list[Written] = []
    mistakes: dict[Path, str] = {}
    for path in files:
        try:
            document = read_yaml(path)
            pipeline = _resolve_landing(root, _checked(Pipeline, document))
            refuse_landing(document, pipeline, lake, root / PROJECT_FILE)
            refuse_unwritable(document, pipeline, lake)
            pipelines.append((document, with_ddl(root, document, pipeline)))
        except ConfigError as error:
            mistakes[path] = str(error)
        except Exception as error:  # whatever it is, the other pipelines run
            told = f"{type(error).__name__}: {shortened(str(error))}"
            mistakes[path] = f"{path}: expected a pipeline's configuration, which stops at {told}"
    refuse_overlap(pipelines)
    return pipelines, by_name(mistakes, {pipeline.name for _, pipeline in pipelines})


def _resolve_lake(root: Path, lake: Lake) -> Lake:
    catalog = _resolve_catalog(root, lake.catalog)
    return lake.model_copy(update={"catalog": catalog, "warehouse": resolved(root, lake.warehouse)})


def _resolve_catalog(root: Path, catalog: CatalogConfig) -> CatalogConfig:
    if uri := os.environ.get(ENV_CATALOG_URI):
        catalog = _overridden(catalog, uri)
    elif holds_secret(catalog.uri) or not (catalog.is_sqlite or is_clear(catalog.uri)):
        raise ConfigError(
            f"{root / PROJECT_FILE}: lake.catalog.uri: expected no password in the file; "
            f"give the whole address in {ENV_CATALOG_URI}, with a number where it has a port"
        )
    if catalog.type == "rest" and holds_secret(catalog.uri):
        raise ConfigError(
            f"{ENV_CATALOG_URI}: expected no password or token in a rest catalog's address; "
            "give it in SLUICE_CATALOG_TOKEN or SLUICE_CATALOG_CREDENTIAL"
        )
    if not catalog.is_sqlite:
        if not is_clear(catalog.uri):
            raise ConfigError(
                f"{ENV_CATALOG_URI}: expected {catalog.uri.partition(':')[0]}://user:password@host:"
                "port/database, with %40 %3A %2F %3F %23 %25 for @ : / ? # % in user and password, "
                "and a number as the port"
            )
        return catalog
    path = resolved(root, str(catalog.sqlite_path))
    return catalog.model_copy(update={"uri": f"{SQLITE}{path}"})


def _overridden(catalog: CatalogConfig, uri: str) -> CatalogConfig:
    try:
        return CatalogConfig(type=catalog.type, uri=uri)
    except ValidationError:
        schemes = " or ".join(CATALOG_SCHEMES[catalog.type])
        raise ConfigError(f"{ENV_CATALOG_URI}: expected to begin with {schemes}") from None


def _resolve_landing(root: Path, pipeline: Pipeline) -> Pipeline:
    landing = pipeline.landing
    url = resolved(root, landing.url)
    return pipeline.model_copy(update={"landing": landing.model_copy(update={"url": url})})


def _spark(top: ProjectFile) -> Spark:
    master = os.environ.get(ENV_SPARK_MASTER) or top.spark.master
    return top.spark.model_copy(update={"master": master})
