"""The history of `bench.events` in Avro containers, as each format's source writes it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any, Final

import fastavro

from bench import dts_records
from bench.events import Event, Row, datahub_tuple, datastream, debezium

Schema = dict[str, Any]
_DECIMAL: Final = {"type": "bytes", "logicalType": "decimal", "precision": 18, "scale": 2}
_COLUMNS: Final = [
    {"name": "id", "type": "long"}, {"name": "customer_id", "type": "long"},
    {"name": "status", "type": "string"}, {"name": "amount", "type": _DECIMAL},
    {"name": "note", "type": "string"}, {"name": "updated_at", "type": "long"},
]  # fmt: skip
_DTS_NUMBERS: Final = {
    "id": 8, "customer_id": 8, "status": 253, "amount": 246, "note": 253, "updated_at": 8,
}  # fmt: skip


@dataclass(frozen=True)
class AvroWriter:
    """A format's schema, and its record of an event."""

    format: str
    schema: Any
    record: Callable[[Event], Row]

    def write(self, path: Path, events: Iterable[Event]) -> str:
        """Write one container; returns the schema that stands in it."""
        with path.open("wb") as sink:
            fastavro.writer(sink, self.schema, map(self.record, events), codec="deflate")
        with path.open("rb") as written:
            return str(fastavro.reader(written).metadata["avro.schema"])


def _record(name: str, fields: list[Any]) -> Schema:
    return {"type": "record", "name": name, "fields": fields}


def _fields(**types: Any) -> list[Schema]:
    return [{"name": name, "type": kind} for name, kind in types.items()]


def _typed(row: Row | None) -> Row | None:
    return None if row is None else row | {"amount": Decimal(row["amount"])}


def _debezium(event: Event) -> Row:
    return debezium(event) | {"before": _typed(event.old), "after": _typed(event.new)}


def _datastream(event: Event) -> Row:
    record = datastream(event)
    return record | {"payload": _typed(event.row), "source_timestamp": record["sort_keys"][0]}


def _datahub_tuple(event: Event) -> Row:
    return datahub_tuple(event) | (_typed(event.row) or {})


def _dts(event: Event) -> Row:
    """Numbers and texts in the records that DTS has for them."""
    sides = (("before", event.old), ("after", event.new))
    images = {side: [_dts_value(*column) for column in row.items()] for side, row in sides if row}
    return dts_records.message(
        event.kind.upper(), event.number, fields=list(_DTS_NUMBERS.items()), object="shop.orders",
        tags={"pk_uk_info": json.dumps({"PRIMARY": ["id"]})}, **images,
    )  # fmt: skip


def _dts_value(name: str, value: Any) -> Any:
    if name == "amount":
        return dts_records.value("Decimal", value, 18, 2)
    return dts_records.integer(value) if isinstance(value, int) else dts_records.text(value)


_SOURCE: Final = _record("io.debezium.connector.postgresql.Source", _fields(
    version="string", connector="string", name="string", ts_ms="long", snapshot="string",
    db="string", sequence="string", schema="string", table="string", txId="long", lsn="long",
    xmin=["null", "long"],
))  # fmt: skip
_ROW: Final = _record("Value", _COLUMNS)
_ENVELOPE: Final = _record("Envelope", _fields(
    before=["null", _ROW], after=["null", "Value"], source=_SOURCE, op="string", ts_ms="long",
))  # fmt: skip
_METADATA: Final = _record("Metadata", _fields(
    database="string", table="string", log_file="string", log_position="long",
    primary_keys={"type": "array", "items": "string"}, change_type="string", is_deleted="boolean",
))  # fmt: skip
_DATASTREAM: Final = _record("Event", _fields(
    uuid="string", read_timestamp="string", object="string", read_method="string",
    source_timestamp={"type": "long", "logicalType": "timestamp-millis"},
    sort_keys={"type": "array", "items": ["string", "long"]}, source_metadata=_METADATA,
    payload=_record("Payload", _COLUMNS),
))  # fmt: skip
_TUPLE: Final = _record("Row", [*_fields(
    _sequence_id_="string", _operation_type_="string", _execute_time_="long",
    _source_table_="string", _before_image_="string", _after_image_="string",
), *_COLUMNS])  # fmt: skip

AVRO_WRITERS: Final = {
    "debezium-avro": AvroWriter("debezium", _ENVELOPE, _debezium),
    "datastream-avro": AvroWriter("datastream", _DATASTREAM, _datastream),
    "datahub_tuple-avro": AvroWriter("datahub_tuple", _TUPLE, _datahub_tuple),
    "dts_avro": AvroWriter("dts_avro", dts_records.NEW, _dts),
}
"""By the name that `make bench-decode` shows."""
