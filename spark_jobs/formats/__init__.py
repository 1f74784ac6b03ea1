"""The wire formats by name: a new one is one file or folder and one line here."""

from __future__ import annotations

from typing import Final

from spark_jobs.formats.aws_dms.decoder import AwsDms
from spark_jobs.formats.base import Format
from spark_jobs.formats.canal.decoder import Canal
from spark_jobs.formats.datahub_tuple import DatahubTuple
from spark_jobs.formats.datastream import Datastream
from spark_jobs.formats.debezium.decoder import Debezium
from spark_jobs.formats.dts_avro.decoder import DtsAvro
from spark_jobs.formats.huawei_cdl.decoder import HuaweiCdl
from spark_jobs.formats.maxwell import Maxwell
from spark_jobs.formats.ogg import GoldenGate
from spark_jobs.formats.rows import Rows
from spark_jobs.formats.shareplex import SharePlex
from spark_jobs.formats.streamx import StreamX

_ALL: Final = (
    Debezium(),
    Datastream(),
    StreamX(),
    AwsDms(),
    Canal(),
    DatahubTuple(),
    DtsAvro(),
    HuaweiCdl(),
    Maxwell(),
    GoldenGate(),
    Rows(),
    SharePlex(),
)
FORMATS: Final[dict[str, Format]] = {f.name: f for f in _ALL}
