"""The wire formats, and how they differ; their decoders are in `spark_jobs/formats`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Final

from pydantic import AfterValidator, Field

from sluice.config import format_options as options
from sluice.config.format_options import FormatOptions


@dataclass(frozen=True)
class WireFormat:
    """What distinguishes a format from others.

    `transactions`: events name their transaction, and its end is marked. `keyed`: keys of its Kafka
    messages matter. `ddl_as_typed`: DDL events name tables as the statement does. `folds_case`: its
    source is Oracle, which stores a column's unquoted name in upper case. `table_folders`: number
    of folders, counted from the file, that name its table. `timed_files`: file names state when
    their changes were written. `avro`: files may be Avro containers.
    """

    options: type[FormatOptions] = FormatOptions
    transactions: bool = False
    keyed: bool = False
    ddl_as_typed: bool = False
    folds_case: bool = False
    table_folders: int = 0
    timed_files: bool = False
    avro: bool = False


WIRE_FORMATS: Final[dict[str, WireFormat]] = {
    "debezium": WireFormat(options.DebeziumOptions, transactions=True, keyed=True, avro=True),
    "datastream": WireFormat(options.DatastreamOptions, avro=True),
    "streamx": WireFormat(options.StreamxOptions),
    "canal": WireFormat(options.CanalOptions, ddl_as_typed=True),
    "shareplex": WireFormat(transactions=True, folds_case=True),
    "datahub_tuple": WireFormat(options.DatahubTupleOptions, avro=True),
    "huawei_cdl": WireFormat(options.HuaweiCdlOptions),
    "dts_avro": WireFormat(options.DtsAvroOptions, transactions=True, ddl_as_typed=True, avro=True),
    "aws_dms": WireFormat(options.AwsDmsOptions, table_folders=2, timed_files=True, avro=True),
    "maxwell": WireFormat(options.MaxwellOptions, transactions=True),
    "ogg": WireFormat(options.OggOptions),
    "rows": WireFormat(options.RowsOptions, table_folders=1, avro=True),
}
FORMAT_NAMES: Final = tuple(WIRE_FORMATS)


def one_of_formats(value: str) -> str:
    """Return a format's name unchanged; raises ValueError listing all formats."""
    if value not in WIRE_FORMATS:
        raise ValueError(f"one of {', '.join(FORMAT_NAMES)}")
    return value


FormatName = Annotated[
    str, AfterValidator(one_of_formats), Field(json_schema_extra={"enum": list(FORMAT_NAMES)})
]


def options_model(format_name: object) -> type[FormatOptions]:
    """Return the model of a format's options; for an unknown format, the empty one."""
    return WIRE_FORMATS.get(str(format_name), WireFormat()).options


def refuse_unknown_ends(format_name: str, consistency: str) -> None:
    """Raise ValueError if events of open transactions cannot be held back with this format."""
    if format_name in WIRE_FORMATS and not WIRE_FORMATS[format_name].transactions:
        known = ", ".join(sorted(name for name, wire in WIRE_FORMATS.items() if wire.transactions))
        raise ValueError(f"apply: {format_name} does not mark the end of transactions ({known} do)")
    if consistency != "batch":
        raise ValueError("apply, or `consistency: batch`: a transaction is published whole")
