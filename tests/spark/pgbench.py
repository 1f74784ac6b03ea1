"""The recording of pgbench on PostgreSQL: its tables, and ours beside the source's own."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Any

from tests.spark.recordings import Recording
from tests.spark.sandbox import Sandbox

RECORDING = Recording("pg-pgbench")
TABLES = ("pgbench_accounts", "pgbench_branches", "pgbench_tellers", "pgbench_history")
KEYS: dict[str, Any] = {
    "public.pgbench_accounts": {"key": ["aid"]},
    "public.pgbench_branches": {"key": ["bid"]},
    "public.pgbench_tellers": {"key": ["tid"]},
    "public.pgbench_history": {"key": []},
}


def events(variant: str) -> int:
    """How many records a variant holds."""
    files = RECORDING.read("manifest.jsonl")
    return sum(f["lines"] for f in files if f["file"].startswith(f"landing.{variant}/"))


def wanted(table: str) -> list[list[str | None]]:
    """The source's own rows, as its server spelled them."""
    rows = RECORDING.read(f"expected/{table}.jsonl")
    return sorted([[_stripped(v) for v in row.values()] for row in rows], key=repr)


def loaded(sandbox: Sandbox, table: str) -> list[list[str | None]]:
    """Our rows in the server's spelling and the dump's order of columns."""
    first = RECORDING.read(f"expected/{table}.jsonl")[0]
    rows = sandbox.rows(table)
    return sorted([[_spelled(row[name]) for name in first] for row in rows], key=repr)


def _spelled(value: Any) -> str | None:
    if isinstance(value, datetime):
        text = str(value)
        return text.rstrip("0") if "." in text else text
    return None if value is None else _stripped(str(value))


def _stripped(text: str | None) -> str | None:
    """Without the blanks that pad a char(n)."""
    return None if text is None else text.rstrip(" ")


def assert_equals_source(sandbox: Sandbox, tables: Iterable[str] = TABLES) -> None:
    for table in tables:
        ours, theirs = loaded(sandbox, table), wanted(table)
        assert len(ours) == len(theirs), table
        assert ours == theirs, table
