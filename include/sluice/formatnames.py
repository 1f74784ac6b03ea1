"""The names of the wire formats; their decoders are in `spark_jobs/formats`."""

from __future__ import annotations

from typing import Final

FORMAT_NAMES: Final = (
    "debezium",
    "datastream",
    "streamx",
    "canal",
    "shareplex",
    "datahub_tuple",
    "huawei_cdl",
    "dts_avro",
    "aws_dms",
    "maxwell",
    "ogg",
)
# Rows of a table, which CSV and Parquet files may hold as well.
TABLE_FORMATS: Final = frozenset({"datahub_tuple", "aws_dms"})
