"""The wire formats and the options of each; their decoders are in `spark_jobs/formats`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Final

from pydantic import AfterValidator, Field

_TABLES: Final = ("csv_columns", "csv_delimiter", "csv_null")
OPTIONS: Final[dict[str, tuple[str, ...]]] = {
    "debezium": (
        "connector", "decimal_format", "layout", "schema_registry", "schemas", "table",
        "tombstones", "unavailable_value", "update_without_document",
    ),
    "datastream": ("records",),
    "streamx": (),
    "canal": ("form", "order", "row_image", "table"),
    "shareplex": (),
    "datahub_tuple": (*_TABLES, "table"),
    "huawei_cdl": ("database", "unavailable_value"),
    "dts_avro": ("framing",),
    "aws_dms": ("before_prefix", *_TABLES, "order_column", "row_image", "timestamp_column"),
    "maxwell": ("order", "row_image", "table"),
    "ogg": ("table",),
    "rows": (*_TABLES, "order_column", "table"),
}  # fmt: skip
CHOICES: Final[dict[str, dict[str, tuple[str, ...]]]] = {
    "debezium": {
        "connector": ("mongodb",),
        "decimal_format": ("base64", "numeric"),
        "layout": ("base64", "length_delimited", "length_delimited_pairs", "avro_json"),
        "tombstones": ("ignore", "delete"),
        "update_without_document": ("apply", "ignore"),
    },
    "datastream": {"records": ("json", "value")},
    "canal": {
        "form": ("community", "dts_before_20220320", "drs_json", "drs_json_c"),
        "row_image": ("full", "partial"),
    },
    "aws_dms": {"row_image": ("full", "partial")},
    "dts_avro": {"framing": ("one_per_file", "length_prefixed")},
    "maxwell": {"order": ("log", "arrival"), "row_image": ("full", "partial")},
}
"""What options may say that have a few words to choose from."""
_TEXTS: Final = frozenset({
    "before_prefix", "database", "order", "order_column", "schema_registry", "table",
    "timestamp_column", "unavailable_value",
})  # fmt: skip
FORMAT_NAMES: Final = tuple(OPTIONS)
# Rows of a table, which CSV and Parquet files may hold as well.
TABLE_FORMATS: Final = frozenset({"datahub_tuple", "aws_dms", "rows"})
# What is NULL in CSV files where `csv_null` is not told: of AWS DMS the default of its
# CsvNullValue, and nothing at all.
CSV_NULLS: Final = {"aws_dms": ("", "NULL")}
# Avro records that may come as bare datums, without a container around them.
DATUM_FORMATS: Final = frozenset({"dts_avro"})

# Formats that tell of a change which transaction it is part of, and where that ends.
TRANSACTION_FORMATS: Final = frozenset({"debezium", "dts_avro", "maxwell", "shareplex"})

# Messages of Kafka of which the key tells something.
KEYED_FORMATS: Final = frozenset({"debezium"})


def one_of_formats(value: str) -> str:
    """A format's name as it is; raises ValueError with all of them."""
    if value not in OPTIONS:
        raise ValueError(f"one of {', '.join(FORMAT_NAMES)}")
    return value


FormatName = Annotated[
    str, AfterValidator(one_of_formats), Field(json_schema_extra={"enum": list(FORMAT_NAMES)})
]


def refuse_unknown_ends(format_name: str, consistency: str) -> None:
    """Raise ValueError where the events of open transactions cannot be held back."""
    if format_name in OPTIONS and format_name not in TRANSACTION_FORMATS:
        known = ", ".join(sorted(TRANSACTION_FORMATS))
        raise ValueError(f"apply: {format_name} does not tell where transactions end ({known} do)")
    if consistency != "batch":
        raise ValueError("apply, or `consistency: batch`: a transaction is published whole")


def refuse_unknown_options(format_name: str, given: Mapping[str, Any]) -> None:
    """Raise ValueError with the format's options where one is none of them, and with what one may
    say where it says something else."""
    known = OPTIONS.get(format_name)
    if known is not None and set(given) - set(known):
        raise ValueError(f"options of {format_name}: {', '.join(known) or 'it has none'}")
    if empty := [option for option, value in given.items() if value is None]:
        raise ValueError(f"of option {empty[0]}: a value, or no such line")
    if odd := [o for o, value in given.items() if o in _TEXTS and not isinstance(value, str)]:
        raise ValueError(f"of option {odd[0]}: a text")
    for option, choices in CHOICES.get(format_name, {}).items():
        if option in given and given[option] not in choices:
            raise ValueError(f"of option {option}: {' or '.join(choices)}")
