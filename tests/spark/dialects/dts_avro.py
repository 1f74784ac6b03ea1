"""DTS Avro from MySQL, in object containers and as bare datums: values not sent are NONE."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from bench.dts_records import NEW, integer, message, text
from sluice.manifest import SourceFile
from tests.reference import Change
from tests.spark.dialects.base import INDEX, Dialect, Row, images, key, serial, whole_inserts
from tests.spark.dts_records import NONE, NULL, bare_file, container, datum

NUMBERS = {"id": 3, "x": 3, "text": 253, "amount": 253, "doc": 253}
OPERATIONS = {"r": "INIT", "c": "INSERT", "u": "UPDATE", "d": "DELETE", "t": "DDL"}


def tell(change: Change, database: str, sent: int) -> list[Row]:
    """One record a change."""
    change = whole_inserts(change)
    before, after = images(change)
    about = {
        "object": f"{database}.{change.table}", "seconds": 1696984408 + change.place[1],
        "tags": {"pk_uk_info": json.dumps({"PRIMARY": key(change)} if key(change) else {})},
        "born": 1696984408 + sent,
    }  # fmt: skip
    if change.op == "t":
        return [message("DDL", serial(change), after=f"TRUNCATE TABLE {change.table}", **about)]
    rows = {"before": before and _values(before, ()), "after": after and _values(
        after, change.absent)}  # fmt: skip
    fields = [(name, NUMBERS[name]) for name in after or before]
    told = {name: values for name, values in rows.items() if values}
    return [message(OPERATIONS[change.op], serial(change), fields=fields, **told, **about)]


def _values(row: Row, absent: Iterable[str]) -> list[Any]:
    return [NONE if name in absent else _value(name, value) for name, value in row.items()]


def _value(name: str, value: Any) -> Any:
    if value is None:
        return NULL
    return integer(value) if NUMBERS[name] == 3 else text(value)


def write(path: Path, records: Iterable[Any]) -> SourceFile:
    """One container."""
    return container(path, NEW, list(records))


def write_datums(path: Path, records: Iterable[Any]) -> SourceFile:
    """As landing hands on a file of bare datums."""
    return bare_file(path, [datum(record) for record in records])


def non_row_records(database: str) -> list[Any]:
    """A heartbeat, both ends of a transaction, a statement."""
    about = {"object": f"{database}.keyed", "seconds": 1696984408}
    marks = [message(op, 1, object="") for op in ("HEARTBEAT", "BEGIN", "COMMIT")]
    return [*marks, message("DDL", 1, after=INDEX, **about)]


DIALECT = Dialect("dts_avro", "dts_avro", tell, write=write, non_row_records=non_row_records)
DATUMS = Dialect(
    "dts_avro_datums", "dts_avro", tell, write=write_datums, non_row_records=non_row_records
)
