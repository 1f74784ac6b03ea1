"""A `pipelines/*.yaml` file: which files go into which tables, and how."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal

from pydantic import Field, ValidationInfo, WithJsonSchema, field_validator

from sluice.bounds import FILE_BYTES, MEBIBYTE, RATIO
from sluice.config.checks import Check
from sluice.config.collations import Collations, NullKeys, in_key, not_in_key
from sluice.config.ddl_files import PipelineDdl
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
from sluice.config.formats import (
    WIRE_FORMATS,
    FormatName,
    WireFormat,
    options_model,
    refuse_unknown_ends,
)
from sluice.config.locations import S3_SCHEME
from sluice.config.maintenance import Maintenance
from sluice.config.overlap import refuse_shared_targets
from sluice.config.partitions import Partition, parse_partition, unfit
from sluice.config.policies import EVOLVE, FAIL
from sluice.config.schema_change import (
    OnDroppedColumn,
    OnSchemaChange,
    OnTypeChange,
    RenamedColumns,
    refuse_undroppable_columns,
    refuse_unheeded,
)
from sluice.config.source_tables import (
    OnTruncate,
    SourceTables,
    refuse_patterns,
    refuse_shared_sources,
)
from sluice.modes import CURRENT, Modes, needs_key
from sluice.names import full_name
from sluice.types.columns import parse_type

SHARE_COUNTS_FROM: Final = 100
HOLD: Final = "hold"
MAX_LEASE_SECONDS: Final = 7 * 24 * 3600
MOST_QUIET_SECONDS: Final = 24 * 3600
USUAL_SCHEDULE: Final = "0 * * * *"


class Landing(Strict):
    """Where the events' files arrive."""

    url: Location = Field(description="a folder, relative to sluice.yaml, or s3://bucket/prefix")
    pattern: Pattern = Field("**/*", description="glob below url; ** is any number of folders")
    region: Region | None = Field(None, description="the bucket's region, if it differs")
    quiet_seconds: int = Field(
        0,
        ge=0,
        le=MOST_QUIET_SECONDS,
        description="files that changed less than so long ago are left to a later run",
    )

    @property
    def on_s3(self) -> bool:
        """Whether the files are in a bucket."""
        return self.url.startswith(S3_SCHEME)


class TableConfig(SourceTables):
    """Settings of one table; they take precedence over the events."""

    key: Key = None
    columns: Hints = Field(default_factory=dict)
    collations: Collations = Field(default_factory=dict)
    null_keys: NullKeys = Field(default_factory=list)
    null_misfits: NullMisfits = Field(default_factory=list)
    renamed_columns: RenamedColumns = Field(default_factory=dict)
    on_dropped_column: OnDroppedColumn | None = Field(None, description="absent: the pipeline's")
    partition_by: list[PartitionText] = Field(
        default_factory=list, description="col, days(col), bucket(16, col), truncate(4, col) …"
    )
    modes: Modes | None = Field(
        None,
        description="current or soft_delete, and beside it history, append; absent: the pipeline's",
    )
    write_mode: Literal["merge-on-read", "copy-on-write"] = Field(
        "merge-on-read",
        description="merge-on-read writes faster, copy-on-write reads faster; used at creation",
    )
    format_version: Literal[2, 3] = Field(
        2,
        description="Iceberg's; 3 has deletion vectors and needs a rest catalog; used at creation",
    )
    checks: list[Check] = Field(
        default_factory=list,
        description="queries that must find nothing, else the batch fails",
    )
    max_row_swing: float | None = Field(
        None, gt=0, description="share of its rows that a batch may add or take; absent: any"
    )

    @field_validator("partition_by")
    @classmethod
    def _allowed_by_hints(cls, value: list[str], info: ValidationInfo) -> list[str]:
        hints = info.data.get("columns") or {}
        types = {column: parse_type(hint).spark for column, hint in hints.items()}
        if wrong := [*unfit(map(parse_partition, value), types)]:
            raise ValueError(f"fields that the types in `columns` allow: {'; '.join(wrong)}")
        return value

    @property
    def partitions(self) -> tuple[Partition, ...]:
        """The partition fields, parsed."""
        return tuple(parse_partition(text) for text in self.partition_by)


class Pipeline(PipelineDdl):
    """The content of one `pipelines/*.yaml`: which files go into which tables, and how."""

    name: PipelineName = Field(
        description="names the DAG (sluice_<name>) and the ledger's rows; unique"
    )
    format: FormatName = Field(description="how files are read, see docs/formats")
    format_options: Annotated[FormatOptions, WithJsonSchema({"type": "object"})] = Field(
        FormatOptions(), validate_default=True, description="the format's own, see its page"
    )
    landing: Landing = Field(description="where files arrive, and which of them to load")
    namespace: Namespace = Field(
        description="the targets' Iceberg namespace; changelogs go to <namespace>__cdc"
    )
    table_name: TableName = Field(
        "{table}",
        description="the target's name, over {database}, {schema}, {table} as the events name them",
    )
    modes: Modes = Field(
        [CURRENT], description="which tables are made of a table's events, unless it has its own"
    )
    tables: dict[str, TableConfig] | None = Field(
        None, description="source table → its settings; with it only the listed tables are loaded"
    )
    schedule: Schedule | None = Field(
        USUAL_SCHEDULE,
        description="the DAG's schedule in UTC: five cron fields or @hourly …; null: only by hand",
    )
    on_bad_record: Literal["quarantine", "fail"] = Field(
        "quarantine", description="fail: one bad record fails the batch"
    )
    max_bad_records: int = Field(
        1000, ge=0, description="more bad records than this fail the batch"
    )
    max_bad_share: float = Field(
        0.1,
        ge=0,
        le=1,
        description="a greater share than this fails the batch, from 100 records on",
    )
    on_schema_change: OnSchemaChange = Field(
        "evolve", description="new and renamed columns: follow, add, leave out, or fail the batch"
    )
    on_type_change: OnTypeChange = Field(
        "fail",
        validate_default=True,
        description="what to do with a column of two types that do not fit together",
    )
    on_dropped_column: OnDroppedColumn = Field(
        "keep",
        validate_default=True,
        description="a column that a DDL event drops stays, or leaves the target with it",
    )
    consistency: Literal["batch", "table"] = Field(
        "batch",
        description="batch: all tables of a batch or none are published; table: each by itself",
    )
    on_open_transaction: Literal["apply", "hold"] = Field(
        "apply", description="hold: events wait until the end of their transaction has landed"
    )
    on_truncate: OnTruncate = Field(
        "apply", description="whether a TRUNCATE empties the target, is ignored, or fails the batch"
    )
    on_drop_table: Literal["keep", "empty", "fail"] = Field(
        "keep",
        description="a DROP TABLE does nothing, empties the target, or fails the batch",
    )
    on_rename_table: Literal["keep", "fail"] = Field(
        "keep",
        description="a RENAME TABLE to a table loaded elsewhere is reported, or fails the batch",
    )
    on_position_reset: Literal["fail", "accept"] = Field(
        "fail", description="what to do when the source's positions seem to restart"
    )
    epoch: int = Field(
        0,
        ge=0,
        le=MAX_EPOCH,
        description="leads every position; raise it when the source's positions restart",
    )
    full_loads: FullLoads = Field(
        default_factory=list,
        description="epochs that begin with a full load, written by sluice raise-epoch --full-load",
    )
    max_files_per_batch: int = Field(
        10_000, ge=1, description="most files of a batch; the rest makes further batches"
    )
    max_bytes_per_batch: int = Field(
        10 * 1024 * MEBIBYTE,
        ge=1,
        description="most bytes of a batch; a larger file is a batch by itself",
    )
    max_document_bytes: int = Field(
        64 * MEBIBYTE,
        ge=1024,
        description="largest document of a file that is read whole; larger ones are quarantined",
    )
    max_tables_per_batch: int = Field(
        500, ge=1, description="tables for which one batch may have events; more stop it"
    )
    max_columns_per_table: int = Field(
        1000, ge=1, description="columns that the events of one table may have; more stop the batch"
    )
    max_plain_bytes_per_file: int = Field(
        FILE_BYTES, ge=MEBIBYTE, description="a compressed file with more bytes is refused"
    )
    max_compression_ratio: int = Field(
        RATIO,
        ge=1,
        description="plain bytes per compressed byte, from 256 MiB on; above it a file is refused",
    )
    max_staged_bytes_per_file: int = Field(
        FILE_BYTES,
        ge=MEBIBYTE,
        description="largest copy that landing makes of a file which Spark cannot read directly",
    )
    keep_tags: int = Field(
        72, ge=1, description="how many published batches keep their tags, and can be rolled back"
    )
    lease_seconds: int = Field(
        300,
        ge=10,
        le=MAX_LEASE_SECONDS,
        description="how long the pipeline's lease lasts without a sign of life from its holder",
    )
    maintenance: Maintenance = Field(
        Maintenance(), description="what maintenance keeps, and when it rewrites"
    )

    @field_validator("format_options", mode="before")
    @classmethod
    def _of_the_format(cls, value: Any, info: ValidationInfo) -> FormatOptions:
        if "format" not in info.data:
            return FormatOptions()  # the format is refused, so its options are unknown
        given = {} if isinstance(value, FormatOptions) else value
        return options_model(info.data["format"]).model_validate(given)

    @field_validator("on_type_change")
    @classmethod
    def _columns_may_come(cls, value: str, info: ValidationInfo) -> str:
        policy = info.data.get("on_schema_change", EVOLVE)
        tables: dict[str, TableConfig] = info.data.get("tables") or {}
        refuse_unheeded(value, policy, [n for n, table in tables.items() if table.renamed_columns])
        return value

    @field_validator("on_dropped_column")
    @classmethod
    def _columns_may_go(cls, value: OnDroppedColumn, info: ValidationInfo) -> OnDroppedColumn:
        policy, modes = info.data.get("on_schema_change", EVOLVE), info.data.get("modes", [])
        refuse_undroppable_columns(value, policy, info.data.get("tables") or {}, modes)
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
        """Read `public.orders:` without a value as a table with default settings.

        Raises ValueError for a list of none, such as one whose entries are commented out.
        """
        if not value:
            raise ValueError(
                "one source table or more, or no `tables:` at all, which loads every table"
            )
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
        if template := info.data.get("table_name"):
            refuse_shared_targets(template, value or ())
        for name, table in (value or {}).items():
            refused = needs_key(table.modes or info.data.get("modes", []))
            if refused and table.key == []:
                raise ValueError(f"a key for {name}, or its modes without {', '.join(refused)}")
            if beside := not_in_key(table.key, (*table.collations, *table.null_keys)):
                raise ValueError(
                    f"of {name} only columns of its key in `collations` and `null_keys`: {beside}"
                )
            if keyed := in_key(table.key, table.null_misfits):
                raise ValueError(f"of {name} no column of its key in `null_misfits`: {keyed}")
        return value

    @property
    def wire(self) -> WireFormat:
        """The facts of the pipeline's format."""
        return WIRE_FORMATS[self.format]

    def modes_of(self, table: TableConfig) -> tuple[str, ...]:
        """Return a table's modes: its own, else the pipeline's."""
        return tuple(self.modes if table.modes is None else table.modes)

    @property
    def holds_transactions(self) -> bool:
        """Whether events of a transaction wait until its end has landed."""
        return self.on_open_transaction == HOLD

    @property
    def each_table_alone(self) -> bool:
        """Whether a batch is published without the tables that cannot be loaded."""
        return self.consistency == "table"

    def full_name(self, target: str) -> str:
        """Return one of the pipeline's tables as people write it."""
        return full_name(self.namespace, target)

    def too_many_bad(self, bad: int, read: int) -> bool:
        """Whether bad records exceed a limit; the share only counts from 100 records on."""
        if self.on_bad_record == FAIL:
            return bad > 0
        by_share = read >= SHARE_COUNTS_FROM and bad > self.max_bad_share * read
        return bad > self.max_bad_records or by_share
