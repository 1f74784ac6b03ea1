"""The recording of PostgreSQL's types: its tables, and ours beside the source's own."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Iterable
from datetime import date, datetime
from decimal import Decimal
from typing import Any, Final

from tests.spark.recordings import Recording
from tests.spark.sandbox import Sandbox

RECORDING = Recording("pg-types-1")
KEYS: Final[dict[str, list[str]]] = {
    "t_ints": ["id"], "t_nums": ["id"], "t_text": ["id"], "t_times": ["id"], "t_json": ["id"],
    "t_comp": ["a", "b"], "t_nopk": [], "t_toast": ["id"], "t_tx": ["id"], "t_evolve": ["id"],
}  # fmt: skip
NUMERIC: Final = {("t_nums", c) for c in ("n38", "n5", "n92", "nfree")} | {
    ("t_comp", "v"), ("t_nopk", "z"),
}  # fmt: skip
UNTYPED: Final = {
    "t_nums": {"n38": "decimal(38,10)", "n5": "decimal(5,0)", "n92": "decimal(9,2)",
               "r": "float", "f": "double"},
    "t_comp": {"v": "decimal(10,2)"},
    "t_nopk": {"z": "decimal(10,2)"},
    "t_text": {"b": "binary[base64]"},
    "t_times": {"d": "date[days]", "t": "time[us]", "t3": "time[ms]", "ts": "timestamp_ntz[us]",
                "ts3": "timestamp_ntz[ms]", "ts0": "timestamp_ntz[ms]", "tz": "timestamp",
                "tz3": "timestamp"},
}  # fmt: skip


def tables(keyed: bool, typed: bool) -> dict[str, Any]:
    """The pipeline's tables: with the keys and types that the variant's events leave out."""
    keys = {t: {} if keyed and k else {"key": k} for t, k in KEYS.items()}
    return {
        f"public.{t}": keys[t] | ({} if typed else {"columns": UNTYPED.get(t, {})}) for t in KEYS
    }


def lost(variant: str) -> set[tuple[str, str]]:
    """Columns that the engine itself did not tell in this variant."""
    losses = json.loads((RECORDING.folder / "known_losses.json").read_text())
    return {(loss["table"], loss["column"]) for loss in losses if variant in loss["variants"]}


def meaning(table: str, column: str, value: Any) -> Any:
    """A value, ours or in the server's spelling, as something to compare by."""
    if value is None:
        return None
    if (table, column) in NUMERIC:
        return str(Decimal(str(value)).normalize())
    if column in ("r", "f") and table == "t_nums":
        number = float(value)
        return repr(struct.unpack("f", struct.pack("f", number))[0] if column == "r" else number)
    text = _SPELLED.get(type(value), str)(value).removesuffix("+00").rstrip(" ")
    return text.rstrip("0").rstrip(".") if table == "t_times" and "." in text else text


def _moment(value: datetime) -> str:
    text = value.replace(tzinfo=None).isoformat(" ")
    return text.rstrip("0") if "." in text else text


_SPELLED: Final[dict[type, Callable[[Any], str]]] = {
    datetime: _moment,
    date: date.isoformat,
    bool: lambda value: str(value).lower(),
    bytes: lambda value: f"\\x{value.hex()}",
}


def rows_by_meaning(table: str, rows: list[dict[str, Any]], columns: list[str]) -> list[Any]:
    return sorted(([meaning(table, c, row[c]) for c in columns] for row in rows), key=repr)


def assert_equals_source(
    sandbox: Sandbox, variant: str, tables: Iterable[str] = tuple(KEYS)
) -> None:
    for table in tables:
        theirs = RECORDING.read(f"expected/{table}.jsonl")
        columns = [c for c in theirs[0] if (table, c) not in lost(variant)]
        ours = rows_by_meaning(table, sandbox.rows(table), columns)
        assert ours == rows_by_meaning(table, theirs, columns), table
