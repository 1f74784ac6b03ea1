"""Rows of a MySQL whose `binlog_row_image` is NOBLOB or MINIMAL: what they do not name stayed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.spark.sandbox import Sandbox

pytestmark = [pytest.mark.spark, pytest.mark.formats]
Row = dict[str, Any]
Tell = Callable[[int, str, Row | None, Row | None, Row], Row]
COLUMNS = {"id": "int", "v": "string", "doc": "string"}


def maxwell(place: int, table: str, old: Row | None, new: Row | None, row: Row) -> Row:
    """A change as Maxwell writes it: `row` is what its two images have together.

    `old` has what changed of what both images have.
    """
    kind = "insert" if old is None else "update" if new else "delete"
    changed = {k: v for k, v in (old or {}).items() if k in (new or {}) and new != old}
    return {
        "database": "d", "table": table, "type": kind, "xid": place, "commit": True,
        "position": f"bin.1:{place}", "primary_key_columns": ["id"] if table == "keyed" else [],
        "data": row, **({"old": changed} if changed else {}),
    }  # fmt: skip


def canal(place: int, table: str, old: Row | None, new: Row | None, row: Row) -> Row:
    """A change as Canal writes it: `data` is the new image alone, or else the old one.

    `pkNames` are the columns of the key that are in it, none where none is.
    """
    data = new or old or {}
    kind = "INSERT" if old is None else "UPDATE" if new else "DELETE"
    changed = {k: v for k, v in (old or {}).items() if k in data}
    key = ["id"] if table == "keyed" and "id" in data else None
    return {
        "data": [data], "old": [changed] if old and new else None, "database": "d", "table": table,
        "type": kind, "isDdl": False, "pkNames": key, "sql": "",
        "mysqlType": {name: "int" if name == "id" else "text" for name in data},
        "sqlType": dict.fromkeys(data, 12), "es": 10**12, "ts": 10**12, "id": place,
    }  # fmt: skip


FORMATS = {
    "maxwell": (maxwell, {"row_image": "partial"}),
    "canal": (canal, {"row_image": "partial", "order": "id"}),
}


def note(ident: int, v: str | None, doc: str | None) -> Row:
    return {"id": ident, "v": v, "doc": doc}


def history(tell: Tell) -> list[Row]:
    """NOBLOB leaves `doc` out of what does not set it, MINIMAL every column that is not set."""
    places = count(1000)

    def of(old: Row | None, new: Row | None) -> Row:
        return tell(next(places), "keyed", old, new, (old or {}) | (new or {}))

    one, two = note(1, "a", "big"), note(2, "b", "large")
    return [
        of(None, one),
        of(None, two),
        of({"id": 1, "v": "a"}, {"id": 1, "v": "c"}),
        of({"id": 1}, {"id": 7}),
        of({"id": 2, "v": "b"}, {"id": 2, "v": "b", "doc": None}),
        of({"id": 2, "v": "b"}, {"id": 2, "v": None}),
        of(None, note(3, "d", "gone")),
        of({"id": 3}, None),
        of(None, {"id": 4}),
    ]


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize(
    "order",
    [
        pytest.param(lambda events: [events], id="once"),
        pytest.param(lambda events: [[e] for e in events[::-1]], id="newest first",
                     marks=pytest.mark.long),
    ],
)  # fmt: skip
def test_columns_that_an_update_does_not_name_stay(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str,
    order: Callable[[Sequence[Row]], Sequence[Sequence[Row]]],
) -> None:  # fmt: skip
    tell, options = FORMATS[name]
    tables = {"d.keyed": {"key": ["id"], "columns": COLUMNS}}
    lake = Sandbox(
        spark, tmp_path, {"format": name, "format_options": options, "tables": tables}
    ).driven(monkeypatch)
    lake.run_each(*order(history(tell)))
    rows = sorted(lake.rows("keyed"), key=lambda row: row["id"])
    assert rows == [note(2, None, None), note(4, None, None), note(7, "c", "big")]
    assert lake.agrees()


def test_key_that_canal_does_not_send_is_known_from_other_rows(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Of MINIMAL Canal has the new image alone: which row it is nobody tells, and of a key of two
    columns `pkNames` has those that are set."""
    lake = Sandbox(spark, tmp_path, {"format": "canal", "format_options": FORMATS["canal"][1]})
    first = canal(1, "keyed", None, note(1, "a", "big"), {}) | {"pkNames": ["id", "v"]}
    moved = canal(2, "keyed", {"id": 1, "v": "a"}, {"v": "b"}, {}) | {"pkNames": ["v"]}
    unknown = canal(3, "keyed", {"id": 1, "v": "a"}, {"doc": "new"}, {})
    lake.load_records([moved, unknown, first])
    assert lake.rows("keyed") == [note(1, "a", "big")]
    assert {bad["reason"] for bad in lake.quarantined()} == {"does_not_fit"}
    assert len(lake.quarantined()) == 2


@pytest.mark.parametrize(
    ("name", "loaded"), [("maxwell", note(1, "new", "big")), ("canal", note(1, "a", "big"))]
)
def test_without_a_key_only_whole_rows_are_known(
    spark: SparkSession, tmp_path: Path, name: str, loaded: Row
) -> None:
    """The old image of such a table is whole, and Maxwell has it; Canal has the new one alone."""
    tell, options = FORMATS[name]
    tables = {"d.keyless": {"key": [], "columns": COLUMNS}}
    lake = Sandbox(spark, tmp_path, {"format": name, "format_options": options, "tables": tables})
    row = note(1, "a", "big")
    events = [
        tell(1, "keyless", None, row, row),
        tell(2, "keyless", row, {"v": "new"}, row | {"v": "new"}),
        # A UNIQUE key by which the server knows rows, where the table has no primary one.
        tell(3, "keyless", {"id": 1}, None, {"id": 1}),
    ]
    lake.load_records(events)
    assert lake.rows("keyless") == [loaded]
    reasons = {(bad["reason"], bad["detail"]) for bad in lake.quarantined()}
    lost = {("does_not_fit", "not_sent:v, doc")}
    assert reasons == lost | ({("does_not_fit", "not_sent:id, doc")} if name == "canal" else set())


def test_without_the_option_a_row_is_whole(spark: SparkSession, tmp_path: Path) -> None:
    tables = {"d.keyed": {"key": ["id"], "columns": COLUMNS}}
    lake = Sandbox(spark, tmp_path, {"format": "maxwell", "tables": tables})
    lake.load_records(history(maxwell)[:3])
    assert sorted(lake.rows("keyed"), key=lambda row: row["id"])[0] == note(1, "c", None)
