"""The wire formats by name: a new one is one file and one line here."""

from __future__ import annotations

from typing import Final

from spark_jobs.formats.aws_dms import AwsDms
from spark_jobs.formats.base import Registry
from spark_jobs.formats.datahub_tuple import DatahubTuple
from spark_jobs.formats.datastream import Datastream
from spark_jobs.formats.debezium import Debezium
from spark_jobs.formats.streamx import StreamX

FORMATS: Final = Registry(
    {f.name: f for f in (Debezium(), Datastream(), StreamX(), DatahubTuple(), AwsDms())}
)
