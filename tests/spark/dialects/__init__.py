"""Every format's way of writing one history down, for the conformance suite."""

from __future__ import annotations

from tests.spark.dialects import (
    aws_dms,
    canal,
    datahub_tuple,
    datastream,
    debezium,
    dts_avro,
    huawei_cdl,
    maxwell,
    ogg,
    rows,
    shareplex,
    streamx,
)

DIALECTS = (
    debezium.DIALECT, datastream.DIALECT, streamx.DIALECT, streamx.BLOB, canal.ORDERED,
    canal.ARRIVAL, canal.SWAPPED, shareplex.DIALECT, ogg.DIALECT, maxwell.DIALECT, huawei_cdl.FIRST,
    huawei_cdl.SECOND, aws_dms.ORDERED, datahub_tuple.DIALECT, dts_avro.DIALECT,
    dts_avro.DATUMS, *aws_dms.FILES, *datahub_tuple.FILES, *rows.DIALECTS,
)  # fmt: skip
