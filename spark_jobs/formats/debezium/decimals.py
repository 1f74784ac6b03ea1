"""Connect's decimals in JSON: bytes in base64, or numbers with the converter's option for that.

A value alone is ambiguous: `1234` is base64 too. Source: `decimal.format` of Kafka Connect's
JsonConverter (KIP-481).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

from sluice.config.format_options import DebeziumOptions, DecimalFormat
from sluice.errors import TerminalError
from spark_jobs.formats.common.connect import DECIMAL
from spark_jobs.formats.debezium.connect_avro import Records
from spark_jobs.formats.debezium.head import field_at, record_of

_BASE64: Final[DecimalFormat] = "base64"
_NUMERIC: Final[DecimalFormat] = "numeric"
_IMAGES: Final = ("before", "after")
_WAY_OUT: Final[dict[str, str]] = {
    _NUMERIC: "numbers (decimal.format=NUMERIC): set format_options.decimal_format: numeric",
    _BASE64: "base64: leave format_options.decimal_format: numeric away, which is of a converter "
    "with decimal.format=NUMERIC",
}


def is_numeric(options: DebeziumOptions) -> bool:
    """Whether the pipeline's decimals are numbers, by its option."""
    return options.decimal_format == _NUMERIC


def refuse_other(lines: Iterable[str], options: DebeziumOptions) -> None:
    """Raise TerminalError if the first described decimal is not in the form of the option: it would
    be read as another number."""
    decimals = (one for line in lines if DECIMAL in line for one in _decimals(line))
    name, written = next(decimals, ("", None))
    if written and (written == _NUMERIC) != is_numeric(options):
        raise TerminalError(
            f"column {name!r}: the converter writes decimals as {_WAY_OUT[written]}"
        )


def refuse_in_avro(options: DebeziumOptions, messages: Sequence[Records]) -> None:
    """Raise TerminalError for the option with Avro, whose decimals have one form."""
    if is_numeric(options) and messages:
        raise TerminalError(
            f"format_options.decimal_format: {_NUMERIC} is of JSON alone, and the batch has Avro; "
            "load it by a pipeline without the option"
        )


def _decimals(line: str) -> Iterator[tuple[str, str]]:
    """Yield the decimal columns with values in a line, and the form of each value."""
    record = record_of(line)
    for form in ("", "value."):
        for image in _objects(field_at(record, f"{form}schema.fields")):
            row = field_at(record, f"{form}payload.{image.get('field')}")
            if image.get("field") in _IMAGES and isinstance(row, dict):
                yield from _of_row(row, image.get("fields"))


def _of_row(row: dict[str, Any], fields: Any) -> Iterator[tuple[str, str]]:
    for field in _objects(fields):
        name, items = str(field.get("field")), field.get("items")
        listed = isinstance(items, dict) and items.get("name") == DECIMAL
        value = row.get(name)
        values = value if listed and isinstance(value, list) else [value]
        if listed or field.get("name") == DECIMAL:
            yield from ((name, kind) for kind in map(_written, values) if kind)


def _written(value: Any) -> str | None:
    if isinstance(value, str):
        return _BASE64
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return _NUMERIC if number else None


def _objects(parts: Any) -> Iterator[dict[str, Any]]:
    yield from (part for part in parts if isinstance(part, dict)) if isinstance(parts, list) else ()
