"""Canal JSON messages for tests, and their rows by name."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from typing import Any, Final

from pyspark.sql import Row, SparkSession

from sluice.config.format_options import CanalOptions, Form
from spark_jobs.canonical import ENVELOPE
from spark_jobs.formats.canal.decoder import Canal
from tests.spark.envelopes import envelope_columns, jsonl

ES = 1600161894000
# Values of the option `form`, as the documents have them.
SWAPPED: Final[Form] = "dts_before_20220320"
DRS: Final[Form] = "drs_json"
DRS_C: Final[Form] = "drs_json_c"
TYPES = {"id": "bigint(20)", "v": "varchar(50)"}
Rows = dict[str, list[Row]]


def message(op: str, *data: dict[str, Any] | None, **parts: Any) -> dict[str, Any]:
    """A message on table `db.t`; `old=[…]` stands beside its rows."""
    return {
        "data": list(data) or None, "old": None, "database": "db", "table": "t", "type": op,
        "isDdl": False, "pkNames": ["id"], "sql": "", "mysqlType": TYPES,
        "sqlType": {"id": -5, "v": 12}, "es": ES, "ts": 1600161894771, "id": 58, **parts,
    }  # fmt: skip


def row(ident: object, value: object) -> dict[str, Any]:
    return {"id": ident, "v": value}


def statement(op: str, sql: str) -> dict[str, Any]:
    return message(op, isDdl=True, sql=sql, pkNames=None, mysqlType=None, sqlType=None)


def rows_query(sql: str, **parts: Any) -> dict[str, Any]:
    """The text of a statement that the server logs beside its rows (alibaba/canal#3179)."""
    return statement("QUERY", sql) | {"database": "", "isDdl": False} | parts


def decode(spark: SparkSession, folder: Path, records: dict[str, Any], **options: Any) -> Rows:
    """Named records, decoded in one read; each has as many rows as it gave, in their order."""
    file = jsonl(folder / "all.jsonl", records.values())
    decoded = Canal().read(spark, (file,), CanalOptions(**options))
    assert envelope_columns(decoded) == list(ENVELOPE)
    names, found = list(records), defaultdict(list)
    for each in decoded.collect():
        found[names[each["ordinal"]]].append(each)
    return found
