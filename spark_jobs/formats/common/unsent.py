"""Debezium's placeholders for large values that an update did not send, by the column's type.

All follow from the connector's `unavailable.value.placeholder`. See docs/formats/debezium.md,
"Large values that were not sent"; the source is the class `UnchangedToastedPlaceholder` of
Debezium's PostgreSQL connector.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
import uuid
from collections.abc import Iterator, Sequence
from typing import Any, Final

from pyspark.sql import Column
from pyspark.sql import functions as F

_OCTETS: Final = re.compile(r"hex:((?:[0-9a-fA-F]{2})+)")


def unsent(row: Column, placeholders: Sequence[str]) -> Column:
    """Return the columns whose value was not sent; NULL if all were sent."""
    texts = _all_spellings(placeholders)
    missing = F.map_filter(row, lambda _, value: value.isin(*texts))
    return F.when(_holds_any(row, texts), F.map_keys(missing))


def any_unsent(row: Column, placeholders: Sequence[str]) -> Column:
    """Return a non-NULL list where any value was not sent: `unsent` without the names, which
    Spark can compile."""
    return F.when(_holds_any(row, _all_spellings(placeholders)), F.array(F.lit("")))


def _holds_any(row: Column, texts: Sequence[str]) -> Column:
    return F.arrays_overlap(F.map_values(row), F.array(*map(F.lit, texts)))


def _all_spellings(placeholders: Sequence[str]) -> list[str]:
    return list(dict.fromkeys(text for one in placeholders for text in spellings(one)))


def spellings(placeholder: str) -> list[str]:
    """Return all texts that stand for a value that was not sent.

    `hex:` and octets mean these octets to PostgreSQL's connector, and plain text to the others.
    """
    octets = _OCTETS.fullmatch(placeholder)
    raws = [placeholder.encode(), *([bytes.fromhex(octets[1])] if octets else [])]
    return list(dict.fromkeys(text for raw in raws for text in _spellings(raw)))


def _spellings(raw: bytes) -> list[str]:
    # As Java's `new String(raw)`: invalid bytes become U+FFFD.
    text = raw.decode(errors="replace")
    nested = (spelt for value in _nested(text, raw) for spelt in _json(value))
    return [text, *_base64(raw), raw.hex(), *nested]


def _nested(text: str, raw: bytes) -> list[Any]:
    """Placeholders of arrays (text, bytes, UUID, whole numbers or dates), and of hstore."""
    signed = [byte - 256 if byte > 127 else byte for byte in raw]
    singles = (text, *_base64(raw), _name_based_uuid(raw))
    return [*([single] for single in singles), signed, {text: text}]


def _name_based_uuid(name: bytes) -> str:
    """Return Java's `UUID.nameUUIDFromBytes`: the MD5 of the name without a namespace."""
    digest = hashlib.md5(name, usedforsecurity=False).digest()
    return str(uuid.UUID(bytes=digest, version=3))


def _base64(raw: bytes) -> tuple[str, str]:
    """Return both alphabets' texts: `binary.handling.mode` chooses one of them."""
    return base64.b64encode(raw).decode(), base64.urlsafe_b64encode(raw).decode()


def _json(value: Any) -> Iterator[str]:
    """Yield the JSON as Jackson writes it, and as landing rewrites a record of several lines."""
    for separators in ((",", ":"), (", ", ": ")):
        yield json.dumps(value, ensure_ascii=False, separators=separators)
