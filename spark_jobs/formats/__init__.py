"""The wire formats by name: a new one is one file and one line here."""

from __future__ import annotations

from typing import Final

from spark_jobs.formats.base import Registry
from spark_jobs.formats.datastream import Datastream
from spark_jobs.formats.debezium import Debezium
from spark_jobs.formats.dts_avro import DtsAvro
from spark_jobs.formats.streamx import StreamX

FORMATS: Final = Registry({f.name: f for f in (Debezium(), Datastream(), StreamX(), DtsAvro())})
