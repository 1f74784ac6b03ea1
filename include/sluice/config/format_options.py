"""`format_options:` of a pipeline: a model for each format that has any (see docs/formats)."""

from __future__ import annotations

import re
from typing import Annotated, Any, ClassVar, Final, Literal, Self, get_args
from urllib.parse import urlsplit

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    WithJsonSchema,
    field_validator,
    model_validator,
)

from sluice.config.fields import Strict
from sluice.config.locations import S3_SCHEME
from sluice.config.secrets import holds_secret, is_clear
from sluice.environment import ENV_REGISTRY_TOKEN, ENV_REGISTRY_USER_INFO

NAME: Final = r'"[^"]+"|[^".]+'
"""One part of a dotted name; a part with a dot in it is quoted."""
TABLE_NAME: Final = rf"^({NAME})(\.({NAME})){{0,2}}$"
BY_ARRIVAL: Final = "arrival"
# Members of Canal's messages that are no text or number, and the decoder's own columns.
_UNORDERED: Final = frozenset({
    "pknames", "mysqltype", "data", "old", "updatebefore", "_tidb", "_corrupt_record", "file",
    "block", "ordinal", "_arrival", "_object", "_landed",
})  # fmt: skip
COMMIT_TS: Final = "_tidb.commitTs"
"""The commit of a row's transaction, as TiCDC writes it with `enable-tidb-extension`."""
_TIDB: Final = "_tidb."
_ORDERED: Final = frozenset({
    "database", "schema", "table", "type", "isDdl", "isHeartbeat", "sql", "id", "es", "ts", "gtid",
    "sqlType",
})  # fmt: skip

# Other fields of AWS DMS's messages, and the decoder's own columns.
_DMS_FIELDS: Final = frozenset({
    "data", "metadata", "control", "_before", "_ordering", "_corrupt_record", "file", "block",
    "ordinal",
})  # fmt: skip

Connector = Literal["mongodb"]
Layout = Literal["base64", "length_delimited", "length_delimited_pairs", "avro_json"]
Framing = Literal["one_per_file", "length_prefixed"]
DecimalFormat = Literal["base64", "numeric"]
Form = Literal["community", "dts_before_20220320", "drs_json", "drs_json_c"]
RowImage = Literal["full", "partial"]
AvroRecords = Literal["json", "value"]
MaxwellOrder = Literal["log", "arrival"]
OmittedColumns = Literal["auto", "nulls", "absent"]


def _json_schema(words: Any) -> WithJsonSchema:
    """JSON schema of these words without null, which only means that the option is absent."""
    return WithJsonSchema({"enum": list(get_args(words))})


def _dotted_name(value: str) -> str:
    if value and not re.fullmatch(TABLE_NAME, value):
        raise ValueError(
            'table, schema.table or database.schema.table, a part with a dot in it as "a.b"'
        )
    return value


def _delimiter(value: str) -> str:
    if len(value) != 1 or value in '"\r\n':
        raise ValueError("one character, neither a quote nor a line end")
    return value


def _place_of_schemas(value: str) -> str:
    if value and not value.startswith(("/", S3_SCHEME)):
        raise ValueError("an absolute path or s3://bucket/prefix")
    return value


def _registry(value: str) -> str:
    user = re.search("@|%40", value)
    if value and (user or not is_clear(value) or not _is_http(value)):
        raise ValueError(
            "http(s)://host[:port] without user and password, which belong in the environment: "
            f"{ENV_REGISTRY_USER_INFO} or {ENV_REGISTRY_TOKEN}"
        )
    return value


def _is_http(address: str) -> bool:
    parts = urlsplit(address)
    return parts.scheme in ("http", "https") and bool(parts.hostname)


def _listed(value: Any) -> Any:
    return [value] if isinstance(value, str) else value


def _not_empty(values: list[str]) -> list[str]:
    if "" in values:
        raise ValueError("no empty text: a value that was sent may be one")
    return values


_Texts = Annotated[
    list[str],
    BeforeValidator(_listed),
    AfterValidator(_not_empty),
    Field(min_length=1),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "string", "minLength": 1},
                {"type": "array", "items": {"type": "string", "minLength": 1}, "minItems": 1},
            ]
        }
    ),
]
"""A text, or a list of them; none is empty."""


def _ordering_field(value: str) -> str:
    if value.startswith(_TIDB) and value != COMMIT_TS:
        raise ValueError(f"{COMMIT_TS}, which alone orders")
    known = {name.lower() for name in _ORDERED}
    unordered = value.lower() in _UNORDERED | known and value not in _ORDERED
    if unordered or value != value.strip():
        raise ValueError("a field of the message that orders")
    return value


def _field_of_old_values(value: str) -> str:
    if not value or value.lower() in _DMS_FIELDS:
        raise ValueError("a field of the message's own, beside data, metadata and control")
    return value


class FormatOptions(Strict):
    """Options of a format without options, and base of all others."""

    @field_validator("*", mode="before")
    @classmethod
    def _has_value(cls, value: Any) -> Any:
        if value is None:
            raise ValueError("a value, or no such line")
        if isinstance(value, str) and "://" in value and holds_secret(value):
            raise ValueError(
                "no password or token: a schema registry's are in the environment, in "
                f"{ENV_REGISTRY_USER_INFO} or {ENV_REGISTRY_TOKEN}"
            )
        return value


class CsvOptions(FormatOptions):
    """Options of formats that read CSV files."""

    DEFAULT_NULLS: ClassVar[tuple[str, ...]] = ("",)
    """The unquoted texts that are NULL unless `csv_null` is given."""

    csv_columns: list[str] = Field([], description="names of the fields; absent: the first line")
    csv_delimiter: Annotated[str, AfterValidator(_delimiter)] = Field(
        ",", description="one character between fields"
    )
    csv_null: str = Field("", description=r"the unquoted text that is NULL, such as \N")

    @property
    def nulls(self) -> tuple[str, ...]:
        """The unquoted texts that are NULL."""
        return (self.csv_null,) if "csv_null" in self.model_fields_set else self.DEFAULT_NULLS


class RowImageOptions(FormatOptions):
    """Options of formats whose source may log only parts of rows."""

    row_image: RowImage = Field("full", description="partial: the source logs parts of rows")

    @property
    def is_partial(self) -> bool:
        """Whether a column that a row does not name was not logged."""
        return self.row_image == "partial"


class PlaceholderOptions(FormatOptions):
    """Options of formats that write a placeholder for values that were not sent."""

    unavailable_value: _Texts = Field(
        ["__debezium_unavailable_value"],
        description="placeholder, or placeholders, of a value that was not sent",
    )


class DebeziumOptions(PlaceholderOptions):
    """Options of `format: debezium`, see docs/formats/debezium.md and debezium-avro.md."""

    connector: Annotated[Connector | None, _json_schema(Connector)] = Field(
        None, description="mongodb: images are documents; absent: by the first record"
    )
    decimal_format: DecimalFormat = Field(
        "base64", description="numeric: the JSON converter has decimal.format=NUMERIC"
    )
    layout: Annotated[Layout | None, _json_schema(Layout)] = Field(
        None, description="the layout of Avro in files that are not containers"
    )
    schema_registry: Annotated[str, AfterValidator(_registry)] = Field(
        "", description="URL of a schema registry"
    )
    schemas: Annotated[str, AfterValidator(_place_of_schemas)] = Field(
        "", description="schemas by id: a folder of <id>.avsc, or one JSON file"
    )
    sqlserver_order: Literal["change_lsn", "arrival"] = Field(
        "change_lsn", description="arrival: how SQL Server's changes of one commit are ordered"
    )
    table: Annotated[str, AfterValidator(_dotted_name)] = Field(
        "", description="database.schema.table, or its end, of changes that name no table"
    )
    tombstones: Literal["ignore", "delete"] = Field(
        "ignore", description="delete: a null value deletes its key's row"
    )
    update_without_document: Literal["apply", "ignore"] = Field(
        "apply", description="ignore: skip updates of MongoDB without `after`"
    )

    @model_validator(mode="after")
    def _one_place_of_schemas(self) -> Self:
        if self.schemas and self.schema_registry:
            raise ValueError("schemas or schema_registry, not both")
        return self


class DatastreamOptions(FormatOptions):
    """Options of `format: datastream`, see docs/formats/datastream.md."""

    records: AvroRecords = Field(
        "json", description="how an Avro record in a column is stored: as JSON text or its value"
    )


class CanalOptions(RowImageOptions):
    """Options of `format: canal`, see docs/formats/canal.md."""

    form: Form = Field("community", description="what `data` and `old` mean")
    order: Annotated[str, AfterValidator(_ordering_field)] = Field(
        BY_ARRIVAL, description="the field of the message that orders"
    )
    table: str = Field("", description="database.table of messages that name no table")


class DatahubTupleOptions(CsvOptions):
    """Options of `format: datahub_tuple`, see docs/formats/datahub_tuple.md."""

    table: str = Field("", description="source table of records without _source_table_")


class HuaweiCdlOptions(PlaceholderOptions):
    """Options of `format: huawei_cdl`, see docs/formats/huawei_cdl.md."""

    database: str = Field("", description="name of the database, which version 1.0 does not have")


class StreamxOptions(FormatOptions):
    """Options of `format: streamx`, see docs/formats/streamx.md."""

    omitted_columns: OmittedColumns = Field(
        "auto", description="what a described column is that an update omits; auto: by the record"
    )


class DtsAvroOptions(FormatOptions):
    """Options of `format: dts_avro`, see docs/formats/dts_avro.md."""

    framing: Framing = Field("one_per_file", description="how files hold bare datums")


class AwsDmsOptions(CsvOptions, RowImageOptions):
    """Options of `format: aws_dms`, see docs/formats/aws_dms.md."""

    # The default of the endpoint's CsvNullValue, and nothing at all.
    DEFAULT_NULLS: ClassVar[tuple[str, ...]] = ("", "NULL")

    before_field: Annotated[str, AfterValidator(_field_of_old_values)] = Field(
        "before-image", description="the field of a message that has the old values"
    )
    before_prefix: str = Field(
        "BI_", description="how columns with old values begin; '', or with before_suffix: none do"
    )
    before_suffix: str = Field("", description="how columns with old values end; absent: none do")
    csv_not_logged: str = Field("", description="the endpoint's CsvNoSupValue; absent: not used")
    order_column: str = Field("", description="column filled from AR_H_CHANGE_SEQ")
    timestamp_column: str = Field("", description="the endpoint's TimestampColumnName")

    @property
    def before_affixes(self) -> tuple[str, str]:
        """How names of columns with old values begin and end; the default is a prefix alone."""
        alone = self.before_suffix and "before_prefix" not in self.model_fields_set
        return ("" if alone else self.before_prefix), self.before_suffix

    @model_validator(mode="after")
    def _null_is_logged(self) -> Self:
        if self.csv_not_logged and self.csv_not_logged in self.nulls:
            raise ValueError("csv_not_logged: another text than that of NULL (csv_null)")
        return self


class MaxwellOptions(RowImageOptions):
    """Options of `format: maxwell`, see docs/formats/maxwell.md."""

    order: MaxwellOrder = Field("log", description="what orders events")
    table: str = Field("", description="database.table of rows that name no table")


class OggOptions(FormatOptions):
    """Options of `format: ogg`, see docs/formats/ogg.md."""

    table: Annotated[str, AfterValidator(_dotted_name)] = Field(
        "", description="database.schema.table, or its end, of records that name no table"
    )


class RowsOptions(CsvOptions):
    """Options of `format: rows`, see docs/formats/rows.md."""

    order_column: str = Field("", description="column with a whole number: the higher row stays")
    table: str = Field("", description="the source table; absent: the file's folder")
